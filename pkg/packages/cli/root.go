package cli

import (
	"bytes"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/version"
)

// Group returns a further group of commands, which connects to a cluster with the flags.
type Group func(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command

// NewCommand returns the program `kubectl starling`. It has the group of commands `package`, and
// further ones.
func NewCommand(streams genericiooptions.IOStreams, further ...Group) *cobra.Command {
	o := NewOptions(streams)
	root := &cobra.Command{
		Use:   program,
		Short: "Manage packages and clusters of Starling, and report bugs",
		Long: templates.LongDesc(`
			Manage packages and clusters of Starling, and collect what a bug report needs.

			kubectl runs this program as "kubectl starling". Use kubectl itself to get, describe, edit and delete the objects of Starling.`),
		Version:       version.Get(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: pluginName},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	o.config.AddFlags(root.PersistentFlags())
	options := &cobra.Command{Use: "options", Short: "Print the list of flags inherited by all commands", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Usage() }}
	templates.UseOptionsTemplates(options)
	root.AddCommand(NewPackageCommand(o), options)
	for _, group := range further {
		root.AddCommand(group(o.config, streams))
	}
	templates.ActsAsRootCommand(root, []string{"options"})
	nameThePlugin(root)
	o.completeConfig(root)
	return root
}

const (
	// program is the file name of the plugin, by which kubectl finds it.
	program = "kubectl-starling"
	// pluginName is the command as users type it.
	pluginName = "kubectl starling"
)

// nameThePlugin makes all usage texts show the command as users type it: kubectl's templates use
// the file name in one place.
func nameThePlugin(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		var text bytes.Buffer
		out := c.OutOrStderr()
		c.SetOut(&text)
		defer c.SetOut(out)
		if err := usage(c); err != nil {
			return err
		}
		_, err := out.Write(bytes.ReplaceAll(text.Bytes(), []byte(`"`+program+" "), []byte(`"`+pluginName+" ")))
		return err
	})
}

// NewPackageCommand returns the command `package` with its subcommands.
func NewPackageCommand(o *Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "package",
		Aliases: []string{"pkg", "rpkg"},
		Short:   "Draft, propose, approve and upgrade packages",
		Long: templates.LongDesc(`
			Draft, propose, approve and upgrade packages.

			A revision of a package starts as a draft. Create the draft of a new package (init), from another package (clone), from an
			earlier revision (copy), or by merging a newer revision of the upstream (upgrade). Pull the draft into a folder, edit it, and
			push it back. The server renders it. Then propose the draft. A user with the right to approve it publishes or rejects it.

			To list revisions, use "kubectl get packagerevisions". To delete one, use "propose-delete" and then
			"kubectl delete packagerevision".`),
		Example: templates.Examples(`
			# Create a package from another one, edit it, and publish it
			kubectl starling package clone catalog.web.v1 web --repository edge
			kubectl starling package pull edge.web.v1 ./web
			kubectl starling package push ./web
			kubectl starling package diff edge.web.v1
			kubectl starling package propose edge.web.v1
			kubectl starling package approve edge.web.v1`),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(
		newInitCommand(o), newCloneCommand(o), newCopyCommand(o), newUpgradeCommand(o),
		newPullCommand(o), newPushCommand(o), newDiffCommand(o), newTreeCommand(o), newVariantsCommand(o),
		newProposeCommand(o), newApproveCommand(o), newRejectCommand(o), newProposeDeleteCommand(o),
	)
	return cmd
}
