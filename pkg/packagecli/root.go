package packagecli

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/version"
)

// Options are what all commands share.
type Options struct {
	genericiooptions.IOStreams
	// Terminal tells that a person reads ErrOut: what takes long is told there.
	Terminal bool

	config *genericclioptions.ConfigFlags
}

// NewOptions returns options for the streams of a program.
func NewOptions(streams genericiooptions.IOStreams) *Options {
	file, isFile := streams.ErrOut.(*os.File)
	config := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithWarningPrinter(streams)
	return &Options{IOStreams: streams, Terminal: isFile && term.IsTerminal(int(file.Fd())), config: config.WithWrapConfigFn(wrap)}
}

// wrap is for many revisions at once: the client does not hold back what the server can take.
func wrap(config *rest.Config) *rest.Config {
	config.QPS, config.Burst = 50, 100
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-starling/" + version.Get()
	return config
}

// client returns a client for the namespace that the flags name.
func (o *Options) client() (*Client, error) {
	namespace, _, err := o.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return NewClient(config, namespace)
}

// progress begins to tell what takes long.
func (o *Options) progress(format string, args ...any) *progress {
	return startProgress(o.ErrOut, o.Terminal, format, args...)
}

// NewCommand returns the program: `kubectl starling`, whose first and so far only group is `package`.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := NewOptions(streams)
	root := &cobra.Command{
		Use:   program,
		Short: "Work with what Starling serves",
		Long: templates.LongDesc(`
			Work with what Starling serves.

			kubectl runs this program as "kubectl starling". Everything else that Starling serves is for kubectl itself: get, describe,
			edit, delete.`),
		Version:       version.Get(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: plugin},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	o.config.AddFlags(root.PersistentFlags())
	options := &cobra.Command{Use: "options", Short: "List the options that all commands have", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Usage() }}
	templates.UseOptionsTemplates(options)
	root.AddCommand(NewPackageCommand(o), options)
	templates.ActsAsRootCommand(root, []string{"options"})
	nameThePlugin(root)
	o.completeConfig(root)
	return root
}

const (
	// program is the name of our file, by which kubectl finds it.
	program = "kubectl-starling"
	// plugin is what one types.
	plugin = "kubectl starling"
)

// nameThePlugin has the usage of all commands say what one types: kubectl's templates name the file in one place.
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
		_, err := out.Write(bytes.ReplaceAll(text.Bytes(), []byte(`"`+program+" "), []byte(`"`+plugin+" ")))
		return err
	})
}

// takes checks how many arguments there are. The error says which those are.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		return fmt.Errorf("%d arguments are given, want: %s\nSee '%s --help' for usage.", len(args), cmd.UseLine(), cmd.CommandPath()) //nolint:revive,staticcheck // as kubectl ends it
	}
}

// NewPackageCommand returns `package` with all that can be done to packages.
func NewPackageCommand(o *Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "package",
		Aliases: []string{"pkg", "rpkg"},
		Short:   "Draft, propose, approve and upgrade packages",
		Long: templates.LongDesc(`
			Draft, propose, approve and upgrade packages.

			A revision of a package begins as a draft: of nothing (init), of another package (clone), of an earlier revision (copy), or of
			both (upgrade). Pull it into a folder, edit it, and push it back; the server renders it. Then propose it; somebody who may
			approves or rejects it.

			To see revisions, use kubectl get packagerevisions; to remove one, propose-delete and then kubectl delete packagerevision.`),
		Example: templates.Examples(`
			# A package from another one, edited and published
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

// defaultWait is how long --wait waits.
const defaultWait = time.Minute
