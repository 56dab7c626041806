package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/spaces"
)

// ITSVariable is the environment variable with the contexts of ITSes, separated by commas.
const ITSVariable = "STARLING_ITS_CONTEXT"

// ITSFlags find the ITSes that belong to a WDS: by the flag --its-context, by the environment
// variable, or by the marks that `starling up` writes into its kubeconfig.
type ITSFlags struct {
	flags    *genericclioptions.ConfigFlags
	contexts []string
}

// NewITSFlags returns the flags beside those that connect to the WDS: the ITSes are in the same
// kubeconfig, and the same user is impersonated.
func NewITSFlags(flags *genericclioptions.ConfigFlags) *ITSFlags { return &ITSFlags{flags: flags} }

// AddTo adds the flag to a command and its subcommands.
func (f *ITSFlags) AddTo(cmd *cobra.Command) {
	cmd.PersistentFlags().StringSliceVar(&f.contexts, "its-context", nil,
		"Context of an ITS. May be repeated. If empty, it is $"+ITSVariable+", or what starling up has marked in the kubeconfig.")
	RegisterFunc(cmd, "its-context", func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		raw, err := f.flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Matching(slices.Collect(maps.Keys(raw.Contexts)), f.contexts, begun), cobra.ShellCompDirectiveNoFileComp
	})
}

// Find returns the connections to the ITSes, none if it is not known which there are. It sends no
// request.
func (f *ITSFlags) Find() ([]spaces.Connection, error) {
	raw, err := f.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, err
	}
	names := f.contexts
	if len(names) == 0 {
		names = strings.FieldsFunc(os.Getenv(ITSVariable), func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(names) == 0 {
		names = spaces.MarkedITSes(&raw)
	}
	var found []spaces.Connection
	for _, name := range names {
		if raw.Contexts[name] == nil {
			return nil, fmt.Errorf("the kubeconfig has no context %q for an ITS: it has %s", name, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
		}
		overrides := &clientcmd.ConfigOverrides{CurrentContext: name}
		overrides.AuthInfo.Impersonate = *f.flags.Impersonate
		overrides.AuthInfo.ImpersonateUID = *f.flags.ImpersonateUID
		overrides.AuthInfo.ImpersonateGroups = *f.flags.ImpersonateGroup
		config, err := clientcmd.NewDefaultClientConfig(raw, overrides).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("use context %q: %w", name, err)
		}
		found = append(found, spaces.Connection{Name: name, Config: config})
	}
	return found, nil
}

// Current returns the connection to the current context.
func (f *ITSFlags) Current() (spaces.Connection, error) {
	config, err := f.flags.ToRESTConfig()
	if err != nil {
		return spaces.Connection{}, err
	}
	raw, err := f.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return spaces.Connection{}, err
	}
	return spaces.Connection{Name: cmp.Or(*f.flags.Context, raw.CurrentContext), Config: config}, nil
}
