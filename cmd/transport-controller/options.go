package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/packing"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/runner"
)

type options struct {
	runner      *runner.Options
	wds         clusters.Options
	wdsName     string
	its         clusters.NamedList
	itsLimits   clusters.Options
	dirs        map[string]string
	limits      packing.Limits
	concurrency int
	exclude     []string
}

// newOptions returns the defaults: fit for a fleet of a thousand clusters. API servers defend themselves.
func newOptions() *options {
	return &options{
		runner:      runner.NewOptions(),
		wds:         clusters.Options{QPS: 300, Burst: 600},
		wdsName:     "wds",
		itsLimits:   clusters.Options{QPS: 1000, Burst: 2000},
		limits:      packing.Limits{Count: 512000, Bytes: 512000},
		concurrency: 32,
		exclude:     corestatus.DefaultExcludeKinds(),
	}
}

func newCommand() *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "transport-controller",
		Short: "Deliver the objects that Bindings list to the mailboxes of clusters",
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
	flags.StringVar(&o.wdsName, "wds-name", o.wdsName, "What the WDS is called: in logs, metrics and a label of each ManifestWork.")
	flags.Var(&o.its, "its", "An ITS, whose context is NAME if the file has it. May be repeated; of clusters of one name, the one that was accepted first counts.")
	o.itsLimits.AddLimitFlags(flags, "its", "each ITS")
	flags.StringToStringVar(&o.dirs, "dir", nil, "A directory with a file .starling in it, as NAME=DIRECTORY: each directory inside is the mailbox of the "+
		"cluster of that name, for somebody to carry there. May be repeated. Such a cluster belongs to it, whatever an ITS says.")
	flags.IntVar(&o.limits.Count, "max-num-wrapped", o.limits.Count, "The largest number of objects in a ManifestWork.")
	flags.IntVar(&o.limits.Bytes, "max-size-wrapped", o.limits.Bytes,
		"The largest sum of the sizes of the objects in a ManifestWork, in bytes. OCM refuses more than 512000 unless told otherwise.")
	flags.StringSliceVar(&o.exclude, "exclude-kinds", o.exclude, "Kinds that the agents do not report, each as Kind or Kind.group: as they were told. "+
		"Objects of these count as healthy when they are applied.")
	flags.IntVar(&o.concurrency, "concurrency", o.concurrency, "Writes under way at once in each ITS.")
}

func (o *options) validate() error {
	if len(o.its) == 0 && len(o.dirs) == 0 {
		return errors.New("--its or --dir is required: without mailboxes nothing can be delivered")
	}
	for _, its := range o.its {
		if _, twice := o.dirs[its.Name]; twice {
			return fmt.Errorf("--dir: the name %q was given to an ITS before", its.Name)
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
	if _, err := corestatus.ParseExcluded(o.exclude); err != nil {
		return fmt.Errorf("--exclude-kinds: %w", err)
	}
	if err := o.wds.Validate("wds"); err != nil {
		return err
	}
	return o.itsLimits.Validate("its")
}
