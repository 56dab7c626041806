package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/packages/repositories"
	"github.com/starlinghq/starling/pkg/controller/status"
	"github.com/starlinghq/starling/pkg/controller/transactions"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
)

var allControllers = []string{binding.Name, status.Name, repositories.Name, transactions.Name}

type options struct {
	runner      *runner.Options
	wds         spaces.Options
	wdsName     string
	its         spaces.NamedList
	onlyITS     spaces.Single
	itsLimits   spaces.Options
	controllers []string
	settings    settings.Bindings
	concurrency int
	fileRoots   []string
	// repositoryHosts are the hosts that Repositories and packages may name.
	repositoryHosts []string
	targetKinds     []string
	// injectedKinds are cluster-scoped kinds whose objects PackageVariants may inject.
	injectedKinds []string
	// repositoryNamespaces are those in which clusters have Repositories.
	repositoryNamespaces []string
	// packageDirectory has packages that are not read from a registry, packageCache those that
	// were.
	packageDirectory, packageCache string
	packageCacheSize               int64 // in MiB
	crossplaneVersion              string
}

func newOptions() *options {
	defaults, _ := settings.Defaults()
	return &options{
		runner:      runner.NewOptions(),
		wds:         spaces.Options{QPS: 300, Burst: 600},
		wdsName:     "wds",
		itsLimits:   spaces.Options{QPS: 300, Burst: 600},
		controllers: allControllers,
		settings:    defaults,
		concurrency: 4,

		repositoryNamespaces: []string{metav1.NamespaceDefault},
		packageCacheSize:     1024,
	}
}

func newCommand() *cobra.Command {
	o := newOptions()
	command := runner.NewCommand("binding-controller", "Turn BindingPolicies of a WDS into Bindings, and return status", o.runner, o.complete,
		func(ctx context.Context) error { return run(ctx, o) })
	o.addFlags(command.Flags())
	return command
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.runner.AddFlags(flags)
	o.wds.AddFlags(flags, "wds", "the WDS")
	flags.StringVar(&o.wdsName, "wds-name", o.wdsName, "Name of the WDS in logs and metrics.")
	flags.Var(&o.its, "its", "An ITS. May be repeated. If several ITSes accept a cluster of the same name, the one that was accepted first is used.")
	o.onlyITS.AddFlags(flags, "its")
	o.itsLimits.AddLimitFlags(flags, "its", "each ITS")
	flags.StringSliceVar(&o.controllers, "controllers", o.controllers, "Controllers to run. None: all.")
	flags.StringSliceVar(&o.fileRoots, "file-repositories", o.fileRoots,
		"Directories of this machine that file:// URLs of Repositories may name, with all below them. None: such URLs are refused, because a user "+
			"who creates a Repository reads with the rights of this program.")
	flags.StringSliceVar(&o.repositoryHosts, "repository-hosts", o.repositoryHosts,
		"Hosts of the git servers and registries that Repositories, Providers, Configurations and Functions may name, and of the token servers of "+
			"these registries: names, IP addresses, or *.domain. Credentials are sent to these hosts only. None: all hosts are allowed.")
	flags.StringSliceVar(&o.targetKinds, "target-kinds", o.targetKinds,
		"Cluster-scoped kinds, as Kind.group, that PackageVariantSets may select besides ManagedClusters. Secret allows the Secrets in the "+
			"namespace of the set. A user who may write a PackageVariantSet in any namespace sees names, labels and annotations of these objects.")
	flags.StringSliceVar(&o.injectedKinds, "injected-kinds", o.injectedKinds,
		"Cluster-scoped kinds, as Kind.group, whose objects PackageVariants may inject. None: only objects in the namespace of the "+
			"PackageVariant are read, because a user who may write one can read what it injects. Secrets are never read.")
	flags.StringSliceVar(&o.repositoryNamespaces, "cluster-repository-namespaces", o.repositoryNamespaces,
		"Namespaces, in each of which every accepted cluster gets a deployment Repository of its name. A user who may publish packages there "+
			"writes to the clusters.")
	flags.StringSliceVar(&o.settings.APIGroups, "api-groups", o.settings.APIGroups,
		"API groups whose objects may be workload; an empty element is the core group. None: all. "+
			"CustomResourceDefinitions are always allowed. Objects of other groups are removed from the clusters.")
	flags.BoolVar(&o.settings.IncludeGenerated, "include-generated", o.settings.IncludeGenerated,
		"Let policies select the objects that controllers create in each namespace: ConfigMaps kube-root-ca.crt, ServiceAccounts default and "+
			"Secrets with tokens. Clusters have their own, which are overwritten, and the tokens are those of the WDS.")
	flags.StringVar(&o.packageDirectory, "package-directory", o.packageDirectory,
		"Directory with packages of pkg.crossplane.io that are read from there and from no registry, as HOST/REPOSITORY/TAG.xpkg or as OCI layouts "+
			"HOST/REPOSITORY. None: all packages are read from registries.")
	flags.StringVar(&o.packageCache, "package-cache", o.packageCache,
		"Directory that keeps packages of pkg.crossplane.io that were fetched. A user who may write there decides what is installed. None: a directory that is "+
			"removed when the program ends.")
	flags.Int64Var(&o.packageCacheSize, "package-cache-size", o.packageCacheSize, "Maximum size of the directory with fetched packages, in MiB.")
	flags.StringVar(&o.crossplaneVersion, "crossplane-version", o.crossplaneVersion,
		"Version of Crossplane that runs in the clusters, such as v2.3.0. Packages of pkg.crossplane.io that require another one are refused. None: that is not checked.")
	flags.IntVar(&o.settings.MaxBindingSize, "max-binding-size", o.settings.MaxBindingSize,
		"Maximum size of a Binding in bytes. A policy that selects more continues in further Bindings, named <policy>--2 and so on. "+
			"Each change of what a policy selects writes a whole Binding.")
	flags.IntVar(&o.concurrency, "concurrency", o.concurrency, "Number of policies, and of objects with status, that are synced in parallel.")
}

// complete sets what follows from the flags, and validates them.
func (o *options) complete() error {
	if err := o.onlyITS.AppendTo(&o.its, "its"); err != nil {
		return err
	}
	if len(o.controllers) == 0 {
		o.controllers = allControllers
	}
	return o.validate()
}

func (o *options) validate() error {
	if len(o.its) == 0 && (o.runs(binding.Name) || o.runs(status.Name)) {
		return errors.New("--its is required: without an ITS there are no clusters")
	}
	if o.wdsName == "" {
		return errors.New("--wds-name must not be empty")
	}
	if err := remote.Hosts(o.repositoryHosts).Validate(); err != nil {
		return fmt.Errorf("--repository-hosts: %w", err)
	}
	if o.packageCacheSize < 1 {
		return fmt.Errorf("--package-cache-size must be at least 1, is %d", o.packageCacheSize)
	}
	if o.concurrency < 1 {
		return fmt.Errorf("--concurrency must be at least 1, is %d", o.concurrency)
	}
	// Above the limit, the API server would refuse Bindings with the record of field managers that
	// it adds.
	const least, most = 1 << 10, 512 << 10
	if o.settings.MaxBindingSize < least || o.settings.MaxBindingSize > most {
		return fmt.Errorf("--max-binding-size must be from %d to %d, is %d", least, most, o.settings.MaxBindingSize)
	}
	if len(o.repositoryNamespaces) == 0 {
		return errors.New("--cluster-repository-namespaces must name at least one namespace")
	}
	for _, namespace := range o.repositoryNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--cluster-repository-namespaces: %q: %s", namespace, problems[0])
		}
	}
	if err := errors.Join(validateKinds("target-kinds", o.targetKinds), validateKinds("injected-kinds", o.injectedKinds)); err != nil {
		return err
	}
	for _, name := range o.controllers {
		if !slices.Contains(allControllers, name) {
			return fmt.Errorf("--controllers: %q is unknown; use %s", name, strings.Join(allControllers, ", "))
		}
	}
	if err := o.wds.Validate("wds"); err != nil {
		return err
	}
	return o.itsLimits.Validate("its")
}

func validateKinds(flag string, kinds []string) error {
	for _, kind := range kinds {
		if schema.ParseGroupKind(kind).Kind == "" {
			return fmt.Errorf("--%s: %q must be a kind and its group, such as StorageClass.storage.k8s.io", flag, kind)
		}
	}
	return nil
}

func (o *options) runs(controller string) bool { return slices.Contains(o.controllers, controller) }

// leases returns the Leases of those of the controllers that run: one for each, so that no
// controller runs twice, whatever choices of --controllers two processes have.
func (o *options) leases(controllers ...string) []string {
	var names []string
	for _, name := range controllers {
		if o.runs(name) {
			names = append(names, "binding-controller-"+name)
		}
	}
	return names
}
