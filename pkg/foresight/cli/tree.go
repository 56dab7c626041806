package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/util/templates"

	foresightcore "github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/foresight/tree"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/plugin"
)

// NewTreeCommand returns the command `tree`. The flags connect to the WDS.
func NewTreeCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(flags, streams)
	output := &plugin.FormatFlag{Allowed: []string{"json", "yaml"}}
	var all bool
	cmd := &cobra.Command{
		Use:   "tree policy/NAME",
		Short: "Show what a policy delivers: Bindings, clusters, works and objects",
		Long: templates.LongDesc(`
			Show what a policy delivers: its Bindings, their clusters, the ManifestWorks in the mailboxes, and the objects in them with their
			state. Clusters in which everything is equal are shown once, and so are objects that are alike.`),
		Example: templates.Examples(`
			# What does a policy deliver, and how is it?
			kubectl starling tree policy/shop

			# Name each cluster and each object
			kubectl starling tree policy/shop --all`),
		Args: plugin.ArgCount(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			kind, _, named := strings.Cut(begun, "/")
			if !named {
				return plugin.Matching([]string{"policy/"}, nil, begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
			}
			return completeNames(kind, begun, o.policyNames(cmd.Context())), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			kind, name, found := strings.Cut(strings.Join(args, "/"), "/")
			if !found || name == "" || !isKind(kind, policyNames, "control.kubestellar.io") {
				return fmt.Errorf("invalid argument %q: must be policy/NAME", strings.Join(args, "/"))
			}
			root, err := o.tree(cmd.Context(), name)
			if err != nil {
				return err
			}
			if output.Value != "" {
				return plugin.Structured(o.Out, root, output.Value)
			}
			root.Draw(plugin.Output(o.Out), all)
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "If true, name each cluster and each object.")
	output.AddTo(cmd)
	o.itses.AddTo(cmd)
	return cmd
}

func (o *options) tree(ctx context.Context, name string) (*tree.Node, error) {
	reader, err := o.factReader()
	if err != nil {
		return nil, err
	}
	progress := o.progress("reading policy/%s", name)
	defer progress.Stop()
	policy, objects := reader.Selected(ctx, name, func(objref.Ref) bool { return false })
	if err := reader.Err(); err != nil {
		return nil, err
	}
	progress.Stop()
	o.unknown(policy.Settings.Notes())
	root := tree.Of(policy, objects)
	if root.Link == explain.LinkExists && root.State != foresightcore.Waiting {
		return nil, errors.New(root.Text)
	}
	return root, nil
}
