package spaces

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/version"
)

// Options configure the connection to one space, and the rate of requests to it.
type Options struct {
	// Kubeconfig is the path of a file. If empty, the ServiceAccount of the pod is used.
	Kubeconfig string
	// Context is a context in the file. If empty, its current context is used.
	Context string
	// QPS and Burst limit the requests of each client. API servers protect themselves with priority
	// and fairness. These limits prevent that one controller makes it necessary.
	QPS   float32
	Burst int
}

// AddFlags adds --PREFIX-kubeconfig, --PREFIX-context, --PREFIX-qps and --PREFIX-burst. The space
// is its name in the help texts, such as "the WDS".
func (o *Options) AddFlags(flags *pflag.FlagSet, prefix, space string) {
	flags.StringVar(&o.Kubeconfig, prefix+"-kubeconfig", o.Kubeconfig,
		"Path of the kubeconfig of "+space+". If empty, the ServiceAccount of the pod is used.")
	flags.StringVar(&o.Context, prefix+"-context", o.Context,
		"Context in the kubeconfig of "+space+". If empty, its current context is used.")
	o.AddLimitFlags(flags, prefix, space)
}

// AddLimitFlags adds only --PREFIX-qps and --PREFIX-burst.
func (o *Options) AddLimitFlags(flags *pflag.FlagSet, prefix, space string) {
	flags.Float32Var(&o.QPS, prefix+"-qps", o.QPS, "Maximum number of requests per second to "+space+", for each client.")
	flags.IntVar(&o.Burst, prefix+"-burst", o.Burst, "Maximum burst of requests to "+space+" above the rate, for each client.")
}

// Validate returns an error if a limit is invalid. The prefix is that of the flags.
func (o *Options) Validate(prefix string) error {
	if o.QPS <= 0 {
		return fmt.Errorf("invalid --%s-qps %v: must be greater than 0", prefix, o.QPS)
	}
	if o.Burst < 1 {
		return fmt.Errorf("invalid --%s-burst %d: must be greater than 0", prefix, o.Burst)
	}
	return nil
}

// Load reads the kubeconfig. It sends no request.
func (o *Options) Load() (*rest.Config, error) {
	config, err := o.load()
	if err != nil {
		return nil, err
	}
	config.QPS = o.QPS
	config.Burst = o.Burst
	config.UserAgent = "starling/" + version.Get()
	return config, nil
}

func (o *Options) load() (*rest.Config, error) {
	if o.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("use the ServiceAccount of the pod, since no kubeconfig is given: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", o.Kubeconfig, err)
	}
	return config, nil
}

// Named is a space in a flag: NAME=KUBECONFIG.
type Named struct {
	Name       string
	Kubeconfig string
}

// Options returns the options of the connection to the space. It uses the context with the name of
// the space if the kubeconfig has one, so that one kubeconfig can serve several spaces. Otherwise
// it uses the current context.
func (n Named) Options(limits Options) (Options, error) {
	limits.Kubeconfig, limits.Context = n.Kubeconfig, ""
	file, err := clientcmd.LoadFromFile(n.Kubeconfig)
	if err != nil {
		return Options{}, fmt.Errorf("read kubeconfig of space %q: %w", n.Name, err)
	}
	if _, ok := file.Contexts[n.Name]; ok {
		limits.Context = n.Name
	}
	return limits, nil
}

// NamedList is a flag that may be repeated, each time with the value NAME=KUBECONFIG.
type NamedList []Named

var _ pflag.Value = (*NamedList)(nil)

// String implements pflag.Value.
func (l *NamedList) String() string {
	parts := make([]string, 0, len(*l))
	for _, n := range *l {
		parts = append(parts, n.Name+"="+n.Kubeconfig)
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (l *NamedList) Type() string { return "NAME=KUBECONFIG" }

// Set implements pflag.Value.
func (l *NamedList) Set(value string) error {
	name, file, ok := strings.Cut(value, "=")
	if !ok || name == "" || file == "" {
		return errors.New("must be NAME=KUBECONFIG")
	}
	for _, n := range *l {
		if n.Name == name {
			return fmt.Errorf("duplicate name %q", name)
		}
	}
	*l = append(*l, Named{Name: name, Kubeconfig: file})
	return nil
}
