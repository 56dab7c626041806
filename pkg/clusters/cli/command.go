package cli

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/version"
)

// NewCommand returns the command `cluster`. The flags connect to the cluster that joins, or to the
// WDS; manifests are OCM's.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, manifests fs.FS) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Let clusters join an ITS, accept, drain and remove them",
		Long: templates.LongDesc(`
			Let clusters join an ITS, accept, drain and remove them.

			Each command shows what it will do, and asks. With --yes it does not ask. It needs the rights of an administrator of the
			ITS, and what it says of policies those of a reader of the WDS, which is the current context. To list clusters, use
			"kubectl starling clusters".`),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := newOptions(flags, streams)
	for _, c := range verbCommands(o) {
		o.its.AddTo(c)
		cmd.AddCommand(c)
	}
	cmd.AddCommand(newJoinCommand(flags, streams, manifests))
	return cmd
}

func newJoinCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, manifests fs.FS) *cobra.Command {
	const timeout = 3 * time.Minute
	r := &request{}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	j := &joiner{manifests: manifests, out: streams.ErrOut}
	cmd := &cobra.Command{
		Use:   "join --hub-context CONTEXT",
		Short: "Install OCM's agent in a cluster, which asks a hub to join it",
		Long: templates.LongDesc(`
			Install the agent of Open Cluster Management in the cluster of the current context. It asks the hub of --hub-context to
			join it. An administrator of the hub accepts it with the command that is printed.

			If another agent runs in the cluster already, nothing is changed. Run this command again to change the image of the agent,
			or if the cluster was not accepted within a day.`),
		Example: templates.Examples(`
			# Let the cluster "prod-eu-1" join the ITS "its1"
			kubectl starling cluster join --context prod-eu-1 --hub-context its1

			# With another name, and with the URL at which the cluster reaches the ITS
			kubectl starling cluster join --context admin@prod --name prod-eu-1 --hub-context its1 --hub-server https://its1.example.com

			# Deliver only what you allow in the cluster: here, Namespaces and ConfigMaps
			kubectl starling cluster join --context prod-eu-1 --hub-context its1 --work-rights listed
			kubectl create clusterrole delivered --verb get,list,watch,create,update,patch,delete --resource namespaces,configmaps
			kubectl label clusterrole delivered open-cluster-management.io/aggregate-to-work=true`),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if overrides.CurrentContext == "" {
				return fmt.Errorf("--hub-context is required: a context of the kubeconfig for the ITS")
			}
			if r.name == "" {
				raw, err := flags.ToRawKubeConfigLoader().RawConfig()
				if err != nil {
					return err
				}
				r.name = raw.CurrentContext
				if *flags.Context != "" {
					r.name = *flags.Context
				}
			}
			if err := r.validate(); err != nil {
				return err
			}
			var err error
			if j.cluster, err = flags.ToRESTConfig(); err != nil {
				return err
			}
			if rules.ExplicitPath == "" {
				rules.ExplicitPath = *flags.KubeConfig
			}
			if j.hub, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig(); err != nil {
				return fmt.Errorf("read the kubeconfig of the hub: %w", err)
			}
			j.cluster, j.hub = limited(j.cluster), limited(j.hub)
			if err := j.join(c.Context(), r); err != nil {
				return fmt.Errorf("join cluster %q: %w", r.name, err)
			}
			printAccept(streams, overrides.CurrentContext, r.name)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&overrides.CurrentContext, "hub-context", "", "Context of the kubeconfig for the ITS, as its administrator.")
	f.StringVar(&rules.ExplicitPath, "hub-kubeconfig", "", "Kubeconfig of the ITS. If empty, it is that of the cluster.")
	f.StringVar(&r.server, "hub-server", "", "URL at which the cluster reaches the ITS. If empty, it is what the ITS publishes, or what is in its kubeconfig.")
	f.StringVar(&r.name, "name", "", "Name of the cluster in the ITS. If empty, it is the name of the context.")
	f.StringVar(&r.image, "image", "starling/starling:"+version.Get(), "Image of the agent.")
	f.Var(&r.rights, "work-rights", "Rights of the agent in the cluster: all, or listed: those that you add with the label "+
		"open-cluster-management.io/aggregate-to-work. If empty, they do not change, and are all in a new cluster.")
	f.DurationVar(&j.timeout, "timeout", timeout, "How long to wait until the cluster has asked to join.")
	return cmd
}

// limited returns a configuration that does not slow down an installation.
func limited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	return config
}

// printAccept prints what the administrator of the hub does next.
func printAccept(streams genericiooptions.IOStreams, hub, name string) {
	fmt.Fprintf(streams.Out, "Cluster %[2]s asks to join. To accept it, run:\n  kubectl starling cluster accept %[2]s --its-context %[1]s\n", hub, name)
}
