package clusters

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/version"
)

// Options say how to reach one space, and how hard to press it.
type Options struct {
	// Kubeconfig is a file. Empty: the service account of the pod that the program runs in.
	Kubeconfig string
	// Context is a context of the file. Empty: its current context.
	Context string
	// QPS and Burst limit the requests of each client. API servers defend themselves by priority and fairness; these limits
	// only keep one controller from being the reason for it.
	QPS   float32
	Burst int
}

// AddFlags adds --PREFIX-kubeconfig, --PREFIX-context, --PREFIX-qps and --PREFIX-burst. The space is what the help texts call
// it, as in "the WDS".
func (o *Options) AddFlags(flags *pflag.FlagSet, prefix, space string) {
	flags.StringVar(&o.Kubeconfig, prefix+"-kubeconfig", o.Kubeconfig,
		"Kubeconfig file of "+space+". Empty: the service account of the pod that this runs in.")
	flags.StringVar(&o.Context, prefix+"-context", o.Context,
		"Context of the kubeconfig of "+space+". Empty: its current context.")
	o.AddLimitFlags(flags, prefix, space)
}

// AddLimitFlags adds --PREFIX-qps and --PREFIX-burst alone.
func (o *Options) AddLimitFlags(flags *pflag.FlagSet, prefix, space string) {
	flags.Float32Var(&o.QPS, prefix+"-qps", o.QPS, "Requests per second to "+space+", for each kind of client.")
	flags.IntVar(&o.Burst, prefix+"-burst", o.Burst, "Requests to "+space+" at once beyond the rate.")
}

// Validate says what is wrong with the limits.
func (o *Options) Validate(prefix string) error {
	if o.QPS <= 0 {
		return fmt.Errorf("--%s-qps must be more than 0, is %v", prefix, o.QPS)
	}
	if o.Burst < 1 {
		return fmt.Errorf("--%s-burst must be at least 1, is %d", prefix, o.Burst)
	}
	return nil
}

// Load reads the kubeconfig. It talks to no API server.
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
			return nil, fmt.Errorf("no kubeconfig given, and not in a pod: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return config, nil
}

// Named is a space with its name, as flags give it: NAME=KUBECONFIG.
type Named struct {
	Name       string
	Kubeconfig string
}

// Options returns how to reach the space. The context is that of the space's name if the file has one, so that one file may
// hold several spaces, and the current context otherwise.
func (n Named) Options(limits Options) (Options, error) {
	limits.Kubeconfig, limits.Context = n.Kubeconfig, ""
	file, err := clientcmd.LoadFromFile(n.Kubeconfig)
	if err != nil {
		return Options{}, fmt.Errorf("read kubeconfig of %s: %w", n.Name, err)
	}
	if _, ok := file.Contexts[n.Name]; ok {
		limits.Context = n.Name
	}
	return limits, nil
}

// NamedList is a flag that may be repeated, each time with NAME=KUBECONFIG.
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
		return errors.New("want NAME=KUBECONFIG")
	}
	for _, n := range *l {
		if n.Name == name {
			return fmt.Errorf("the name %q was given before", name)
		}
	}
	*l = append(*l, Named{Name: name, Kubeconfig: file})
	return nil
}
