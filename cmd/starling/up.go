package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/space"
)

type upFlags struct {
	wecs          int
	noControllers bool
	noPackages    bool
	nodes         bool
	noOCM         bool
	spaces        []string
	ephemeral     bool
	large         bool
	dieWithFD     int
	minDiskMiB    uint64
	output        string
}

func newUpCommand(g *global) *cobra.Command {
	o := &upFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring the fleet up",
		Long: `Bring the fleet up, or add to a running fleet what it has not yet.

What the fleet consists of is kept in its directory: after "down", "up" without flags brings the same
fleet back with its data. On a fleet that is up, "up" without flags changes nothing.`,
		Example: `  starling up                      # two clusters: cluster1 and cluster2
  starling up --wecs 3             # adds cluster3 to them
  starling up --nodes              # each cluster gets a fake node, so Deployments become Available
  starling up --no-controllers     # the spaces and OCM alone
  starling up --dir /tmp/other     # another fleet beside it`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runUp(c, g, o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.wecs, "wecs", 2, "number of workload execution clusters")
	f.BoolVar(&o.noControllers, "no-controllers", false, "run the spaces and OCM without Starling's controllers")
	f.BoolVar(&o.noPackages, "no-packages", false, "run no package-server, which serves porch.kpt.dev in each WDS")
	f.BoolVar(&o.nodes, "nodes", false, "give each cluster a fake node and a scheduler")
	f.StringVarP(&o.output, "output", "o", "", "json: print what was done and how long it took as JSON, after the progress on stderr")
	f.BoolVar(&o.noOCM, "no-ocm", false, "run the API servers only")
	f.StringSliceVar(&o.spaces, "spaces", nil, "names of the spaces of a new fleet: its..., wds...")
	f.BoolVar(&o.ephemeral, "ephemeral", false, "a new fleet need not keep its data when the machine crashes")
	f.BoolVar(&o.large, "large", false, "a new fleet is to hold many objects: its processes may take the memory that they want")
	f.IntVar(&o.dieWithFD, "die-with-fd", 0, "end the fleet when the other end of this pipe is closed")
	f.Uint64Var(&o.minDiskMiB, "min-disk", 0, "free room on the disk to ask for, in MiB")
	for _, name := range []string{"no-ocm", "spaces", "ephemeral", "large", "die-with-fd", "min-disk"} {
		_ = f.MarkHidden(name) // the flag exists
	}
	return cmd
}

func runUp(c *cobra.Command, g *global, o *upFlags) error {
	if o.output != "" && o.output != "json" {
		return usage(fmt.Errorf("output %q: json is asked for", o.output))
	}
	ctx, stop := signalContext(c.Context())
	defer stop()
	progress := io.Writer(os.Stdout)
	if o.output != "" {
		progress = os.Stderr
	}
	fleet, err := g.fleet(progress)
	if err != nil {
		return err
	}
	opts := &space.UpOptions{Spaces: o.spaces, Ephemeral: o.ephemeral, Large: o.large, MinDisk: o.minDiskMiB << 20}
	set := func(flag string, value bool, into **bool) {
		if c.Flags().Changed(flag) {
			*into = &value
		}
	}
	set("no-controllers", !o.noControllers, &opts.Controllers)
	set("no-packages", !o.noPackages, &opts.Packages)
	set("no-ocm", !o.noOCM, &opts.OCM)
	set("nodes", o.nodes, &opts.Nodes)
	if c.Flags().Changed("wecs") {
		opts.WECs = &o.wecs
	}
	if o.dieWithFD > 0 {
		opts.DieWith = os.NewFile(uintptr(o.dieWithFD), "die-with")
		if opts.DieWith == nil {
			return usage(fmt.Errorf("--die-with-fd %d: no such file", o.dieWithFD))
		}
	}
	report, err := fleet.Up(ctx, opts)
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	if err != nil {
		return err
	}
	if o.output == "json" {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	if !report.WasRunning {
		printReady(os.Stdout, fleet, report)
	}
	return nil
}

func printReady(w io.Writer, fleet *space.Fleet, r *space.UpReport) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe fleet is up after %.1f s, with %s resident memory.\n", r.Seconds, mebibytes(r.Memory.RSS))
	fmt.Fprintf(&b, "  export KUBECONFIG=%s\n", fleet.Layout().Kubeconfig())
	_, _ = io.WriteString(w, b.String())
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
