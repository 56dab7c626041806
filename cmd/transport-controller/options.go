package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/settings"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
)

type options struct {
	runner      *runner.Options
	wds         spaces.Options
	wdsName     string
	its         spaces.NamedList
	onlyITS     spaces.Single
	itsLimits   spaces.Options
	dirs        map[string]string
	limits      packing.Limits
	concurrency int
	exclude     []string
	settings    settings.Transport
}

// newOptions returns the defaults: fit for a fleet of a thousand clusters. API servers defend
// themselves.
func newOptions() *options {
	return &options{
		runner:    runner.NewOptions(),
		wds:       spaces.Options{QPS: 300, Burst: 600},
		wdsName:   "wds",
		itsLimits: spaces.Options{QPS: 1000, Burst: 2000},
		limits:    packing.Limits{Count: packing.MaxCount, Bytes: 512000, Target: packing.Target{Count: 16, Bytes: 32 << 10}},
		// More writes at once gain nothing with an API server that is near, and each takes longer:
		// an edit for one cluster waits for those under way.
		concurrency: 8,
		exclude:     corestatus.DefaultExcludeKinds(),
	}
}

func newCommand() *cobra.Command {
	o := newOptions()
	command := runner.NewCommand("transport-controller", "Deliver the objects of Bindings to the mailboxes of clusters", o.runner, o.complete,
		func(ctx context.Context) error { return run(ctx, o) })
	o.addFlags(command.Flags())
	return command
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.runner.AddFlags(flags)
	o.wds.AddFlags(flags, "wds", "the WDS")
	flags.StringVar(&o.wdsName, "wds-name", o.wdsName, "Name of the WDS, in logs, metrics and a label of each ManifestWork.")
	flags.Var(&o.its, "its", "An ITS. The context NAME of the kubeconfig file is used if it exists. May be repeated. Of several clusters of one name, the one that was "+
		"accepted first is used.")
	o.onlyITS.AddFlags(flags, "its", "transport")
	o.itsLimits.AddLimitFlags(flags, "its", "each ITS")
	runner.Alias(flags, "transport-qps", "its-qps")
	runner.Alias(flags, "transport-burst", "its-burst")
	flags.StringToStringVar(&o.dirs, "dir", nil, "A directory that contains a file .starling, as NAME=DIRECTORY. Each directory in it is the mailbox of the "+
		"cluster of that name; a person carries its files to the cluster. May be repeated. A directory takes precedence over an ITS with a cluster of the same name.")
	flags.IntVar(&o.limits.Count, "max-num-wrapped", o.limits.Count,
		fmt.Sprintf("Maximum number of objects in a ManifestWork. A larger value than %d counts as that: etcd cannot store the report on more objects.", packing.MaxCount))
	flags.IntVar(&o.limits.Bytes, "max-size-wrapped", o.limits.Bytes,
		"Maximum total size of the objects in a ManifestWork, in bytes. OCM refuses more than 512000 by default.")
	flags.IntVar(&o.limits.Target.Count, "target-num-wrapped", o.limits.Target.Count, "Number of objects up to which others are added to a ManifestWork. "+
		"With smaller ManifestWorks an edit is faster, and the first delivery of many objects slower.")
	flags.IntVar(&o.limits.Target.Bytes, "target-size-wrapped", o.limits.Target.Bytes, "Total size in bytes up to which objects are added to a ManifestWork. "+
		"An object that is larger has a ManifestWork of its own.")
	flags.BoolVar(&o.limits.Repack, "repack", o.limits.Repack, "Move objects out of existing ManifestWorks that are larger than --target-num-wrapped and --target-size-wrapped, "+
		"a few at a time for each cluster. Without it, they stay where they are.")
	flags.StringSliceVar(&o.exclude, "exclude-kinds", o.exclude, "Kinds that the status agents do not report, each as Kind or Kind.group. Use the same value as for the agents. "+
		"Objects of these kinds are healthy when they are applied.")
	flags.StringSliceVar(&o.settings.ManagementNamespaces, "ocm-namespaces", o.settings.ManagementNamespaces, "Namespaces of Open Cluster Management (open-cluster-management and open-cluster-management-*) "+
		"to which objects and packages may be delivered. None: nothing is delivered there, because who writes there acts as the agents of the cluster.")
	flags.IntVar(&o.concurrency, "concurrency", o.concurrency, "Number of concurrent writes in each ITS.")
}

// complete sets what follows from the flags, and validates them.
func (o *options) complete() error {
	if err := o.onlyITS.AppendTo(&o.its, "transport"); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	o.limits.Count = min(o.limits.Count, packing.MaxCount)
	return nil
}

func (o *options) validate() error {
	if len(o.its) == 0 && len(o.dirs) == 0 {
		return errors.New("--its or --dir is required: nothing can be delivered without mailboxes")
	}
	for _, its := range o.its {
		if _, twice := o.dirs[its.Name]; twice {
			return fmt.Errorf("--dir: the name %q is that of an ITS already", its.Name)
		}
	}
	for name, directory := range o.dirs {
		if name == "" || directory == "" {
			return fmt.Errorf("--dir %s=%s: want NAME=DIRECTORY", name, directory)
		}
	}
	if o.wdsName == "" {
		return errors.New("--wds-name must not be empty")
	}
	if problems := validation.IsDNS1123Subdomain(o.wdsName); len(problems) > 0 {
		return fmt.Errorf("--wds-name %q: %s", o.wdsName, problems[0])
	}
	if o.concurrency < 1 {
		return fmt.Errorf("--concurrency must be at least 1, is %d", o.concurrency)
	}
	if o.limits.Count < 1 {
		return fmt.Errorf("--max-num-wrapped must be at least 1, is %d", o.limits.Count)
	}
	if o.limits.Bytes < 1 {
		return fmt.Errorf("--max-size-wrapped must be at least 1, is %d", o.limits.Bytes)
	}
	if o.limits.Target.Count < 1 {
		return fmt.Errorf("--target-num-wrapped must be at least 1, is %d", o.limits.Target.Count)
	}
	if o.limits.Target.Bytes < 1 {
		return fmt.Errorf("--target-size-wrapped must be at least 1, is %d", o.limits.Target.Bytes)
	}
	if _, err := corestatus.ParseExcluded(o.exclude); err != nil {
		return fmt.Errorf("--exclude-kinds: %w", err)
	}
	for _, namespace := range o.settings.ManagementNamespaces {
		if _, is := match.ManagementNamespace(objref.Ref{Namespace: namespace}); !is {
			return fmt.Errorf("--ocm-namespaces: %q is no namespace of Open Cluster Management; objects are delivered to all other namespaces", namespace)
		}
	}
	if err := o.wds.Validate("wds"); err != nil {
		return err
	}
	return o.itsLimits.Validate("its")
}
