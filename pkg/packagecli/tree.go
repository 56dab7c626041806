package packagecli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg/tree"
)

func newTreeCommand(o *Options) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "tree REVISION",
		Short: "Show what is in a revision: subpackages, objects, functions and gates",
		Long:  templates.LongDesc(`Show what is in a revision: its subpackages, the objects of each with their files, its functions, and its readiness gates.`),
		Example: templates.Examples(`
			kubectl starling package tree edge.web.v1
			kubectl starling package tree edge.web.v1 -o yaml`),
		Args:              takes(1, 1),
		ValidArgsFunction: o.completeRevisions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "" && format != "json" && format != "yaml" {
				return unknownFormat(format)
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			return o.tree(cmd.Context(), client, args[0], format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "Output format. One of: (json, yaml).")
	register(cmd, "output", func() []string { return []string{"json", "yaml"} })
	return cmd
}

func (o *Options) tree(ctx context.Context, client *Client, name, format string) error {
	p := o.progress("reading %s", name)
	defer p.stop()
	revision, err := client.Get(ctx, name)
	if err != nil {
		return err
	}
	resources, err := client.GetResources(ctx, name)
	if err != nil {
		return err
	}
	root := tree.New(resources.Spec.Resources, revision)
	p.stop()
	if format != "" {
		return o.structured(root, format)
	}
	root.Draw(visible{o.Out}, fmt.Sprintf("package %s (%s, %s)", root.Name, name, revision.Spec.Lifecycle))
	return nil
}

func unknownFormat(format string) error {
	return fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: json,yaml", format)
}

// structured prints an answer for programs.
func (o *Options) structured(answer any, format string) error {
	text, err := json.MarshalIndent(answer, "", "    ")
	if err == nil && format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(o.Out, strings.TrimSuffix(string(text), "\n"))
	return nil
}
