package wdsserver

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// Options distinguish WDSes.
type Options struct {
	// CallServers: the WDS calls the admission webhooks, conversion webhooks and API servers that
	// users register. Somebody serves them for the WDS.
	CallServers bool
}

// signingKey is the flag with the key that signs tokens in Secrets. With it, the controller that
// issues them runs whatever --controllers says.
const signingKey = "service-account-private-key-file"

// NewControllerManagerCommand returns the command that runs kube-controller-manager with the
// controllers of a WDS.
func NewControllerManagerCommand() *cobra.Command {
	cmd := kubecontrollermanager.NewControllerManagerCommand()
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flag := cmd.Flags().Lookup("controllers"); !flag.Changed {
			for _, name := range Controllers {
				if err := cmd.Flags().Set(flag.Name, name); err != nil {
					return err
				}
			}
		}
		if err := cmd.Flags().Set(signingKey, ""); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// NewAPIServerCommand returns the command that runs kube-apiserver as a WDS. It has the flags of
// kube-apiserver, whose own command cannot be changed before it runs.
func NewAPIServerCommand(o Options) *cobra.Command {
	s := options.NewServerRunOptions()
	register(s.Admission.GenericAdmission.Plugins, o.CallServers)
	s.Admission.GenericAdmission.RecommendedPluginOrder = append(s.Admission.GenericAdmission.RecommendedPluginOrder, pluginName)
	ctx := genericapiserver.SetupSignalContext()
	registry := s.GenericServerRunOptions.ComponentGlobalsRegistry
	cmd := &cobra.Command{
		Use: "kube-apiserver", SilenceUsage: true, Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			rest.SetDefaultWarningHandler(rest.NoWarnings{}) // those of requests of the server to itself
			return registry.Set()
		},
		RunE: func(*cobra.Command, []string) error {
			verflag.PrintAndExitIfRequested()
			gate := registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
			if err := logsapi.ValidateAndApply(s.Logs, gate); err != nil {
				return err
			}
			s.Admission.GenericAdmission.DisablePlugins = disabled(o, s.Admission.GenericAdmission.EnablePlugins, s.Admission.GenericAdmission.DisablePlugins)
			s.AllowPrivileged = true // each cluster decides about its Pods
			completed, err := s.Complete(ctx)
			if err != nil {
				return err
			}
			if errs := completed.Validate(); len(errs) != 0 {
				return utilerrors.NewAggregate(errs)
			}
			if gate, ok := gate.(featuregate.MutableFeatureGate); ok {
				gate.AddMetrics()
			}
			registry.AddMetrics()
			return run(ctx, completed, o)
		},
	}
	cmd.SetContext(ctx)
	flags := s.Flags()
	verflag.AddFlags(flags.FlagSet("global"))
	globalflag.AddGlobalFlags(flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	return cmd
}

// disabled returns the plugins that are off: those of a WDS that the flags do not turn on, and
// those that the flags turn off.
func disabled(o Options, on, off []string) []string {
	all := slices.Concat(actingPlugins, off)
	if !o.CallServers {
		all = append(all, callingPlugins...)
	}
	return sets.List(sets.New(all...).Delete(on...))
}

// run runs the server until the context ends.
func run(ctx context.Context, completed options.CompletedOptions, o Options) error {
	config, err := kubeapiserver.NewConfig(completed)
	if err != nil {
		return err
	}
	for _, generic := range []*genericapiserver.Config{
		config.KubeAPIs.ControlPlane.Generic, &config.ApiExtensions.GenericConfig.Config, &config.Aggregator.GenericConfig.Config,
	} {
		generic.Authorization.Authorizer = workloadAccounts{generic.Authorization.Authorizer}
	}
	if !o.CallServers {
		config.ApiExtensions.ExtraConfig.AuthResolverWrapper = asStored
	}
	ready, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := kubeapiserver.CreateServerChain(ready)
	if err != nil {
		return err
	}
	if !o.CallServers {
		if err := ignoreForeignAPIs(server); err != nil {
			return err
		}
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}
