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

	"github.com/starlinghq/starling/pkg/localfleet"
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
	audit         bool
	callServers   bool
	dieWithFD     int
	minDiskMiB    uint64
	output        string
}

func newUpCommand(g *global) *cobra.Command {
	o := &upFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the fleet, or add to a running fleet",
		Long: `Start the fleet, or add what the flags request to a running fleet.

The directory of the fleet records what the fleet consists of. After "starling down", "starling up" without flags
starts the same fleet with its data. For a running fleet, "starling up" without flags changes nothing.`,
		Example: `  # Start a fleet with two clusters: cluster1 and cluster2
  starling up

  # Add cluster3
  starling up --wecs 3

  # Add a fake node to each cluster, so that Deployments become Available
  starling up --nodes

  # Run the spaces and OCM without Starling's controllers
  starling up --no-controllers

  # Start another fleet, in another directory
  starling up --dir /tmp/other`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runUp(c, g, o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.wecs, "wecs", 2, "Minimum number of workload execution clusters. Existing clusters are never removed.")
	f.BoolVar(&o.noControllers, "no-controllers", false, "If true, run the spaces and OCM without Starling's controllers.")
	f.BoolVar(&o.noPackages, "no-packages", false, "If true, run no package-server, which serves porch.kpt.dev in each workload definition space.")
	f.BoolVar(&o.nodes, "nodes", false, "If true, each cluster has a fake node and a scheduler.")
	f.StringVarP(&o.output, "output", "o", "", "Output format. One of: (json). With json, print the steps and their durations as JSON, and the progress to stderr.")
	f.BoolVar(&o.noOCM, "no-ocm", false, "If true, run the API servers only.")
	f.StringSliceVar(&o.spaces, "spaces", nil, "Names of the spaces of a new fleet. They start with its or wds.")
	f.BoolVar(&o.ephemeral, "ephemeral", false, "If true, a new fleet may lose its data when the machine crashes.")
	f.BoolVar(&o.large, "large", false, "If true, the memory of the processes of a new fleet is not limited. For many objects.")
	f.BoolVar(&o.audit, "audit", false, "If true, the API servers of a new fleet write audit logs of what Starling's identities do.")
	f.BoolVar(&o.callServers, "call-servers", false,
		"If true, the workload definition spaces of a new fleet call the webhooks and API servers that users register there.")
	f.IntVar(&o.dieWithFD, "die-with-fd", 0, "File descriptor of a pipe. Stop the fleet when its other end is closed.")
	f.Uint64Var(&o.minDiskMiB, "min-disk", 0, "Free disk space that is required, in MiB. If 0, the default is used.")
	for _, name := range []string{"no-ocm", "spaces", "ephemeral", "large", "audit", "die-with-fd", "min-disk"} {
		_ = f.MarkHidden(name) // the flag exists
	}
	return cmd
}

func runUp(c *cobra.Command, g *global, o *upFlags) error {
	if o.output != "" && o.output != "json" {
		return usage(fmt.Errorf("invalid output format %q: must be json", o.output))
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
	opts := &localfleet.UpOptions{Spaces: o.spaces, Ephemeral: o.ephemeral, Large: o.large, Audit: o.audit, CallServers: o.callServers, MinDisk: o.minDiskMiB << 20}
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
			return usage(fmt.Errorf("invalid --die-with-fd %d: not an open file", o.dieWithFD))
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

func printReady(w io.Writer, fleet *localfleet.Fleet, r *localfleet.UpReport) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe fleet is ready after %.1f s. Resident memory: %s.\nTo use it with your own kubectl:\n", r.Seconds, mebibytes(r.Memory.RSS))
	fmt.Fprintf(&b, "  %s\n", fleet.Layout().ExportKubeconfig())
	_, _ = io.WriteString(w, b.String())
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
