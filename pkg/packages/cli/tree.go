package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/tree"
	"github.com/starlinghq/starling/pkg/plugin"
)

func newTreeCommand(o *Options) *cobra.Command {
	output := &plugin.FormatFlag{Allowed: []string{"json", "yaml"}}
	cmd := &cobra.Command{
		Use:   "tree REVISION",
		Short: "Show the content of a revision: subpackages, objects, functions and gates",
		Long:  templates.LongDesc(`Show the content of a revision: its subpackages, their objects and files, its functions, and its readiness gates.`),
		Example: templates.Examples(`
			kubectl starling package tree edge.web.v1
			kubectl starling package tree edge.web.v1 -o yaml`),
		Args:              plugin.ArgCount(1, 1),
		ValidArgsFunction: o.completeRevisions(1),
		RunE: o.withClient(func(ctx context.Context, client *Client, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return o.tree(ctx, client, args[0], output.Value)
		}),
	}
	output.AddTo(cmd)
	return cmd
}

func (o *Options) tree(ctx context.Context, client *Client, name, format string) error {
	p := o.progress("reading %s", name)
	defer p.Stop()
	revision, err := client.Get(ctx, name)
	if err != nil {
		return err
	}
	resources, err := client.GetResources(ctx, name)
	if err != nil {
		return err
	}
	root := tree.New(resources.Spec.Resources, revision)
	p.Stop()
	if format != "" {
		return plugin.Structured(o.Out, root, format)
	}
	root.Draw(plugin.EscapingWriter{Writer: o.Out}, fmt.Sprintf("package %s (%s, %s)", root.Name, name, revision.Spec.Lifecycle))
	return nil
}
