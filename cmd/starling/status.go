package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/localfleet"
)

func newStatusCommand(g *global) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the processes and the clusters of the fleet",
		Long: fmt.Sprintf(`Show the processes and the clusters of the fleet.

The exit code is 0 if all of them are ready, and %d otherwise.`, exitNotReady),
		Example: `  # Show the fleet
  starling status

  # Show labels, the paths of logs and how processes ended too
  starling status -o wide

  # Show the fleet as JSON
  starling status -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			fleet, err := g.fleet(c.ErrOrStderr())
			if err != nil {
				return err
			}
			st, err := fleet.Status(c.Context())
			if err != nil {
				return err
			}
			if err := printStatus(c.OutOrStdout(), st, output); err != nil {
				return err
			}
			if !st.Ready() {
				return errNotReady
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, yaml, wide).")
	return cmd
}

func printStatus(w io.Writer, st *localfleet.Status, output string) error {
	switch output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(st)
	case "yaml":
		data, err := yaml.Marshal(st)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	case "", "wide":
		return printStatusTable(w, st, output == "wide")
	default:
		return usage(fmt.Errorf("invalid output format %q: must be json, yaml or wide", output))
	}
}

func printStatusTable(w io.Writer, st *localfleet.Status, wide bool) error {
	if !st.Running {
		_, err := fmt.Fprintf(w, "The fleet in %s is not running. Start it with: starling up\n", st.Dir)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "SPACE\tCOMPONENT\tPID\tSTATE\tRESTARTS\tMEMORY\tADDRESS")
	if wide {
		fmt.Fprint(t, "\tLAST EXIT\tLOG")
	}
	fmt.Fprintln(t)
	for i := range st.Components {
		c := &st.Components[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s",
			dash(c.Space), c.Program, dash(pid(c.PID)), c.State, c.Restarts, mebibytes(c.Memory.RSS), dash(c.Address))
		if wide {
			fmt.Fprintf(t, "\t%s\t%s", dash(c.LastExit), c.Log)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(st.WECs) > 0 {
		fmt.Fprintln(w)
		fmt.Fprint(t, "CLUSTER\tACCEPTED\tJOINED\tAVAILABLE")
		if wide {
			fmt.Fprint(t, "\tLABELS")
		}
		fmt.Fprintln(t)
		for i := range st.WECs {
			c := &st.WECs[i]
			if c.Problem != "" {
				fmt.Fprintf(t, "%s\t?\t?\t?\t%s\n", c.Name, c.Problem)
				continue
			}
			fmt.Fprintf(t, "%s\t%t\t%t\t%t", c.Name, c.Accepted, c.Joined, c.Available)
			if wide {
				fmt.Fprintf(t, "\t%s", dash(formatLabels(c.Labels)))
			}
			fmt.Fprintln(t)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n%s, resident memory %s", text.Count(len(st.Components), "process|processes"), mebibytes(st.Memory.RSS))
	if st.Memory.PSS > 0 {
		fmt.Fprintf(w, " (%s if shared pages count once)", mebibytes(st.Memory.PSS))
	}
	_, err := fmt.Fprintln(w)
	return err
}

func pid(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
