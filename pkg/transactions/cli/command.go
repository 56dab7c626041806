package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/core/transaction/report"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/transactions"
)

// options are common to all commands.
type options struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	// terminal is true if ErrOut is a terminal.
	terminal bool
}

// NewCommand returns the command `tx`. The flags connect to the WDS.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	file, isFile := streams.ErrOut.(*os.File)
	o := &options{IOStreams: streams, flags: flags, terminal: isFile && term.IsTerminal(int(file.Fd()))}
	cmd := &cobra.Command{
		Use:     "tx",
		Aliases: []string{"transaction", "transactions"},
		Short:   "Preview and explain Transactions, and show which package requires which",
		Long: templates.LongDesc(`
			Preview and explain Transactions, which install Providers, Configurations and Functions of pkg.crossplane.io in a WDS, and
			show which package requires which.

			To list Transactions, use "kubectl get tx". To install a package, use "kubectl apply".`),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newPlanCommand(o), newExplainCommand(o), newTreeCommand(o))
	return cmd
}

func (o *options) client() (*transactions.Client, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	return transactions.NewClient(config)
}

// connect completes the commands of a problem, which may be nil.
func (o *options) connect(p *report.Problem) {
	if p != nil {
		p.Next = plugin.ConnectAll(p.Next, o.flags, nil)
	}
}

func (o *options) progress(format string, args ...any) *plugin.Progress {
	return plugin.StartProgressLines(o.ErrOut, o.terminal, format, args...)
}

// parseRef parses Kind/name, with the kind as kubectl takes it: "Provider", "provider",
// "providers", "providers.pkg.crossplane.io".
func parseRef(text string) (transactions.Ref, error) {
	kind, name, found := strings.Cut(text, "/")
	if !found || name == "" || strings.Contains(name, "/") {
		return transactions.Ref{}, fmt.Errorf("invalid package %q: must be KIND/NAME, such as provider/aws", text)
	}
	of, err := parseKind(kind)
	return transactions.Ref{Kind: of.Name, Name: name}, err
}

// isRef reports whether a text is Kind/name, and not a repository: the host of that has a dot.
func isRef(text string) bool {
	kind, name, found := strings.Cut(text, "/")
	return found && !strings.Contains(name, "/") && !strings.Contains(kind, ".")
}

func parseKind(text string) (transactions.Kind, error) {
	name, group, _ := strings.Cut(text, ".")
	for _, kind := range transactions.Kinds {
		if (strings.EqualFold(name, kind.Name) || strings.EqualFold(name, kind.Packages.Resource)) && (group == "" || strings.HasSuffix(group, kind.Packages.Group)) {
			return kind, nil
		}
	}
	return transactions.Kind{}, fmt.Errorf("invalid kind %q: must be provider, configuration or function", text)
}

// completionTimeout bounds how long a shell waits for completions.
const completionTimeout = 3 * time.Second

// packageNames returns all packages as kind/name, or none after an error.
func (o *options) packageNames(ctx context.Context) []string {
	client, err := o.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	var names []string
	for _, kind := range transactions.Kinds {
		list, err := client.Packages(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil
		}
		for i := range list.Items {
			names = append(names, strings.ToLower(kind.Name)+"/"+list.Items[i].Name)
		}
	}
	return names
}

// transactionNames returns the names of all Transactions, or none after an error.
func (o *options) transactionNames(ctx context.Context) []string {
	client, err := o.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := client.Transactions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// sources returns the repositories of all packages that are installed.
func (o *options) sources(ctx context.Context) []string {
	client, err := o.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	lock, err := getLock(ctx, client)
	if err != nil || lock == nil {
		return nil
	}
	var sources []string
	for i := range lock.Packages {
		sources = append(sources, lock.Packages[i].Source)
	}
	return sources
}

// completeArguments completes the first argument.
func completeArguments(names func(ctx context.Context) []string) plugin.Completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return plugin.Matching(names(cmd.Context()), nil, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes a flag.
func completeFlag(cmd *cobra.Command, flag string, names func(ctx context.Context) []string) {
	plugin.RegisterFunc(cmd, flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return plugin.Matching(names(cmd.Context()), nil, begun), cobra.ShellCompDirectiveNoFileComp
	})
}

const wide = "wide"
