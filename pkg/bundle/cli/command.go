package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/bundle"
	"github.com/starlinghq/starling/pkg/core/text"
)

// options are the flags of the command.
type options struct {
	flags   *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
	clock   clock.PassiveClock

	wds, its            []string
	host, hostNamespace string
	fleet               string
	output              string
	data                bool
}

// NewCommand returns the command `bundle`. The flags have the kubeconfig; fleet is the directory of
// the local fleet that is used without contexts.
func NewCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, fleet string, clock clock.PassiveClock) *cobra.Command {
	o := &options{flags: flags, streams: streams, clock: clock, fleet: fleet}
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Collect what a bug report needs, without Secrets",
		Long: templates.LongDesc(`
			Collect what a bug report needs into a .tar.gz: Starling's objects with their conditions, events, Leases, readiness and
			versions of spaces; objects and logs of the pods in the namespace of the hosting cluster. Without flags, it is a local fleet.

			The data of Secrets are never read. The data of ConfigMaps, the manifests in ManifestWorks, the values of environment
			variables, the rows of CombinedStatuses, credentials in texts and everything that looks like one are removed. Names, labels
			and statuses of your objects are included. Look at the files before you send them.

			Everything is read with your rights, and nothing is changed. What you may not read is listed in index.yaml in the bundle.`),
		Example: templates.Examples(`
			# Of the local fleet
			kubectl starling bundle

			# Of a WDS and an ITS, and of the pods in the cluster that hosts them
			kubectl starling bundle --wds-context wds1 --its-context its1 --host-context hosting --host-namespace starling

			# Of one space, into a file
			kubectl starling bundle --its-context its1 --output its1.tar.gz`),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.wds, "wds-context", nil, "Context of a WDS. May be repeated.")
	f.StringSliceVar(&o.its, "its-context", nil, "Context of an ITS. May be repeated.")
	f.StringVar(&o.host, "host-context", "", "Context of the hosting cluster.")
	f.StringVar(&o.hostNamespace, "host-namespace", "", "Namespace of Starling in the hosting cluster. If empty, it is that of the context.")
	f.StringVar(&o.fleet, "dir", o.fleet, "Directory of the local fleet that is used if there is no context.")
	f.StringVarP(&o.output, "output", "o", "", "File to write, which must not exist. If empty, it is starling-bundle-TIME.tar.gz.")
	f.BoolVar(&o.data, "include-data", false, "Include the data of the ConfigMaps in the namespace of the hosting cluster.")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	request, err := o.request()
	if err != nil {
		return err
	}
	now := o.clock.Now()
	name := "starling-bundle-" + now.UTC().Format("20060102-150405")
	file := o.output
	if file == "" {
		file = name + ".tar.gz"
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("write bundle %q: the file exists", file)
	}
	// Until it is complete, it has another name.
	out, err := os.CreateTemp(filepath.Dir(file), ".starling-bundle-*")
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err // without the temporary name
		}
		return fmt.Errorf("write bundle %q: %w", file, err)
	}
	defer os.Remove(out.Name()) // it is renamed if all is well
	result, err := bundle.Collect(ctx, out, o.streams.ErrOut, name, now, request)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("collect a bundle: %w", err)
	}
	if err := os.Rename(out.Name(), file); err != nil {
		return fmt.Errorf("write bundle %q: %w", file, err)
	}
	for _, problem := range result.Problems {
		fmt.Fprintln(o.streams.ErrOut, "Not included: "+problem)
	}
	fmt.Fprintf(o.streams.Out, "Wrote %s with %s and %s. Look at the files before you send them.\n", file,
		text.Count(result.Objects, "object"), text.Count(result.Logs, "log"))
	return nil
}

// request returns what to collect.
func (o *options) request() (bundle.Request, error) {
	r := bundle.Request{ConfigMaps: o.data}
	contexts := slices.Concat(o.wds, o.its)
	if o.hostNamespace != "" && o.host == "" {
		return r, errors.New("--host-namespace needs --host-context")
	}
	kubeconfig := *o.flags.KubeConfig
	if len(contexts) == 0 && o.host == "" {
		var err error
		if kubeconfig, contexts, err = o.contextsOfFleet(); err != nil {
			return r, err
		}
		r.Fleet = o.fleet
	}
	for _, name := range contexts {
		server, err := o.server(kubeconfig, name)
		if err != nil {
			return r, err
		}
		r.Spaces = append(r.Spaces, server)
	}
	if o.host == "" {
		return r, nil
	}
	var err error
	if r.Host, err = o.server(kubeconfig, o.host); err != nil {
		return r, err
	}
	r.HostNamespace = o.hostNamespace
	if r.HostNamespace == "" {
		r.HostNamespace, _, err = o.of(kubeconfig, o.host).ToRawKubeConfigLoader().Namespace()
	}
	return r, err
}

// contextsOfFleet returns the kubeconfig of the local fleet, and all contexts in it.
func (o *options) contextsOfFleet() (kubeconfig string, contexts []string, err error) {
	kubeconfig = filepath.Join(o.fleet, "kubeconfig")
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil, fmt.Errorf("there is no local fleet in directory %q: set --dir, or --wds-context, --its-context or --host-context", o.fleet)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the kubeconfig of the fleet: %w", err)
	}
	for name := range config.Contexts {
		contexts = append(contexts, name)
	}
	slices.Sort(contexts)
	return kubeconfig, contexts, nil
}

// of returns flags for another context, with the same user to impersonate.
func (o *options) of(kubeconfig, name string) *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Context = &kubeconfig, &name
	flags.Impersonate, flags.ImpersonateUID, flags.ImpersonateGroup = o.flags.Impersonate, o.flags.ImpersonateUID, o.flags.ImpersonateGroup
	return flags
}

// server returns the API server of a context.
func (o *options) server(kubeconfig, name string) (bundle.Server, error) {
	flags := o.of(kubeconfig, name)
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return bundle.Server{}, err
	}
	if raw.Contexts[name] == nil {
		var all []string
		for context := range raw.Contexts {
			all = append(all, context)
		}
		slices.Sort(all)
		return bundle.Server{}, fmt.Errorf("the kubeconfig has no context %q: it has %s", name, strings.Join(all, ", "))
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return bundle.Server{}, fmt.Errorf("use context %q: %w", name, err)
	}
	return bundle.Server{Name: name, Config: config}, nil
}
