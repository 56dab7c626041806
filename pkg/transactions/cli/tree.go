package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/core/transaction/report"
	"github.com/starlinghq/starling/pkg/plugin"
)

func newTreeCommand(o *options) *cobra.Command {
	output := &plugin.FormatFlag{Allowed: []string{"json", "yaml"}}
	cmd := &cobra.Command{
		Use:   "tree [KIND/NAME | SOURCE]",
		Short: "Show which packages are installed, and which requires which",
		Long: templates.LongDesc(`
			Show the packages that the Lock lists, with their versions: those that users requested, below them what they require, then
			those that nothing requires, and packages whose last change is not installed. Of one package, also show what requires it.`),
		Example: templates.Examples(`
			kubectl starling tx tree

			# What does this package require, and what requires it?
			kubectl starling tx tree provider/family

			# The repositories that nothing requires
			kubectl starling tx tree -o json | jq -r '.packages[] | select(.required | not).source'`),
		Args: plugin.ArgCount(0, 1),
		ValidArgsFunction: completeArguments(func(ctx context.Context) []string {
			return append(o.packageNames(ctx), o.sources(ctx)...)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return o.tree(cmd.Context(), strings.Join(args, ""), output.Value)
		},
	}
	output.AddTo(cmd)
	return cmd
}

func (o *options) tree(ctx context.Context, name, format string) error {
	if isRef(name) {
		ref, err := parseRef(name)
		if err != nil {
			return err
		}
		name = ref.String()
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	p := o.progress("reading packages")
	defer p.Stop()
	tree, err := treeOf(ctx, client)
	if err != nil {
		return err
	}
	p.Stop()
	var node *report.Node
	shown := tree
	if name != "" {
		if node = tree.Find(name); node == nil {
			return fmt.Errorf("%s is not installed", name)
		}
		shown = tree.Of(node)
	}
	out := plugin.EscapingWriter{Writer: o.Out}
	switch {
	case format != "":
		return plugin.Structured(o.Out, shown, format)
	case node != nil:
		tree.DrawNode(out, node)
	default:
		tree.Draw(out)
	}
	return nil
}
