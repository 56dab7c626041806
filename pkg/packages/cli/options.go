package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/folder"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/version"
)

// Options are common to all commands.
type Options struct {
	genericiooptions.IOStreams
	// Terminal is true if ErrOut is a terminal. Progress is shown there.
	Terminal bool

	config *genericclioptions.ConfigFlags
}

// NewOptions returns Options for the streams of a program.
func NewOptions(streams genericiooptions.IOStreams) *Options {
	file, isFile := streams.ErrOut.(*os.File)
	config := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithWarningPrinter(streams)
	return &Options{IOStreams: streams, Terminal: isFile && term.IsTerminal(int(file.Fd())), config: config.WithWrapConfigFn(withoutClientLimits)}
}

// withoutClientLimits leaves the limits to the API server: commands may change many revisions at
// once. A limit of the client's would end a request before its timeout, with a text of its own.
func withoutClientLimits(config *rest.Config) *rest.Config {
	config.QPS = -1
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-starling/" + version.Get()
	return config
}

// client returns a Client for the namespace of the flags.
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

// withClient returns the run function of a command that needs a Client.
func (o *Options) withClient(run func(ctx context.Context, client *Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		client, err := o.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), client, args)
	}
}

// progress starts a progress line.
func (o *Options) progress(format string, args ...any) *plugin.Progress {
	return plugin.StartProgress(o.ErrOut, o.Terminal, format, args...)
}

// clientOf returns a Client for the namespace that the folder was pulled from.
func (o *Options) clientOf(m folder.Metadata) (*Client, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	if m.Namespace == "" || m.Namespace == client.Namespace {
		return client, nil
	}
	if o.config.Namespace != nil && *o.config.Namespace != "" {
		return nil, fmt.Errorf("the folder was pulled from namespace %q, not from %q", m.Namespace, client.Namespace)
	}
	client.Namespace = m.Namespace
	return client, nil
}
