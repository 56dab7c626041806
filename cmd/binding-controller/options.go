package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/repositories"
	"github.com/starlinghq/starling/pkg/controller/status"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/runner"
)

var allControllers = []string{binding.Name, status.Name, repositories.Name}

type options struct {
	runner      *runner.Options
	wds         clusters.Options
	wdsName     string
	its         clusters.NamedList
	itsLimits   clusters.Options
	controllers []string
	apiGroups   []string
	generated   bool
	bindingSize int
	concurrency int
	fileRoots   []string
	targetKinds []string
	// injectedKinds are kinds without namespaces whose objects PackageVariants may inject.
	injectedKinds []string
	// repositoryNamespaces are those in which clusters have Repositories.
	repositoryNamespaces []string
}

func newOptions() *options {
	return &options{
		runner:      runner.NewOptions(),
		wds:         clusters.Options{QPS: 300, Burst: 600},
		wdsName:     "wds",
		itsLimits:   clusters.Options{QPS: 300, Burst: 600},
		controllers: allControllers,
		bindingSize: corebinding.DefaultMaxSize,
		concurrency: 4,

		repositoryNamespaces: []string{metav1.NamespaceDefault},
	}
}

func newCommand() *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "binding-controller",
		Short: "Turn BindingPolicies of a WDS into Bindings, and return status",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.runner.SetUpLogging(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	o.addFlags(command.Flags())
	return command
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.runner.AddFlags(flags)
	o.wds.AddFlags(flags, "wds", "the WDS")
	flags.StringVar(&o.wdsName, "wds-name", o.wdsName, "What logs and metrics call the WDS.")
	flags.Var(&o.its, "its", "An ITS. May be repeated; of clusters of one name, the one that was accepted first counts.")
	o.itsLimits.AddLimitFlags(flags, "its", "each ITS")
	flags.StringSliceVar(&o.controllers, "controllers", o.controllers, "Which controllers run.")
	flags.StringSliceVar(&o.fileRoots, "file-repositories", o.fileRoots,
		"Directories of this machine below which Repositories may lead with file:// URLs. None: such URLs are refused, since whoever may create a "+
			"Repository would read with the rights of this program.")
	flags.StringSliceVar(&o.targetKinds, "target-kinds", o.targetKinds,
		"Kinds without namespaces, as Kind.group, from which PackageVariantSets may select beside ManagedClusters; Secret allows Secrets, in the "+
			"namespace of the set. Whoever may write a PackageVariantSet, in whatever namespace, sees names, labels and annotations of these objects.")
	flags.StringSliceVar(&o.injectedKinds, "injected-kinds", o.injectedKinds,
		"Kinds without namespaces, as Kind.group, whose objects PackageVariants may inject. None: only objects in the namespace of the "+
			"PackageVariant are read, since whoever may write one can read what it injects. Secrets never are.")
	flags.StringSliceVar(&o.repositoryNamespaces, "cluster-repository-namespaces", o.repositoryNamespaces,
		"Namespaces in each of which every accepted cluster has a deployment Repository of its name. Whoever may publish packages there writes to "+
			"the clusters.")
	flags.StringSliceVar(&o.apiGroups, "api-groups", o.apiGroups,
		"API groups whose objects may be workload; an empty element is the core group. None: all. "+
			"CustomResourceDefinitions always may. Objects of other groups leave the clusters.")
	flags.BoolVar(&o.generated, "include-generated", o.generated,
		"Let policies select what controllers make in each namespace: ConfigMaps kube-root-ca.crt, ServiceAccounts default and Secrets with "+
			"tokens. Clusters have their own, which are overwritten; and the tokens are those of the WDS.")
	flags.IntVar(&o.bindingSize, "max-binding-size", o.bindingSize,
		"How large a Binding becomes, in bytes, before a policy continues in another one, named <policy>--2 and so on. Each change "+
			"of what a policy selects writes a whole Binding.")
	flags.IntVar(&o.concurrency, "concurrency", o.concurrency, "How many policies, and how many objects with status, are worked on at once.")
}

func (o *options) validate() error {
	if len(o.its) == 0 && (o.runs(binding.Name) || o.runs(status.Name)) {
		return errors.New("--its is required: without an inventory there are no clusters")
	}
	if o.wdsName == "" {
		return errors.New("--wds-name must not be empty")
	}
	if o.concurrency < 1 {
		return fmt.Errorf("--concurrency must be at least 1, is %d", o.concurrency)
	}
	// Above the limit, the API server would refuse Bindings with the record of field managers that it adds.
	const least, most = 1 << 10, 512 << 10
	if o.bindingSize < least || o.bindingSize > most {
		return fmt.Errorf("--max-binding-size must be from %d to %d, is %d", least, most, o.bindingSize)
	}
	if len(o.repositoryNamespaces) == 0 {
		return errors.New("--cluster-repository-namespaces must name at least one namespace")
	}
	for _, namespace := range o.repositoryNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--cluster-repository-namespaces: %q: %s", namespace, problems[0])
		}
	}
	if len(o.controllers) == 0 {
		return fmt.Errorf("--controllers must name at least one of %s", strings.Join(allControllers, ", "))
	}
	for _, kind := range o.targetKinds {
		if schema.ParseGroupKind(kind).Kind == "" {
			return fmt.Errorf("--target-kinds: %q must be a kind and its group, such as StorageClass.storage.k8s.io", kind)
		}
	}
	for _, kind := range o.injectedKinds {
		if schema.ParseGroupKind(kind).Kind == "" {
			return fmt.Errorf("--injected-kinds: %q must be a kind and its group, such as StorageClass.storage.k8s.io", kind)
		}
	}
	for _, name := range o.controllers {
		if !slices.Contains(allControllers, name) {
			return fmt.Errorf("--controllers: there is no %q; there are %s", name, strings.Join(allControllers, ", "))
		}
	}
	if err := o.wds.Validate("wds"); err != nil {
		return err
	}
	return o.itsLimits.Validate("its")
}

func (o *options) runs(controller string) bool { return slices.Contains(o.controllers, controller) }

// leaseSuffix lets programs that run different controllers lead at the same time.
func (o *options) leaseSuffix() string {
	var chosen []string
	for _, name := range allControllers {
		if o.runs(name) {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) == len(allControllers) {
		return ""
	}
	return strings.Join(chosen, "-")
}
