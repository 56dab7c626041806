package spaces

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/version"
)

// Options configure the connection to one space, and the rate of requests to it.
type Options struct {
	// Kubeconfig is the path of a file. If empty, the ServiceAccount of the pod is used.
	Kubeconfig string
	// Context is a context in the file. If empty, its current context is used.
	Context string
	// User and Cluster are a user and a cluster in the file. If not empty, they replace what the
	// context names.
	User, Cluster string
	// QPS and Burst limit the requests of each client. API servers protect themselves with priority
	// and fairness. These limits prevent that one controller makes it necessary.
	QPS   float32
	Burst int
}

// AddFlags adds --PREFIX-kubeconfig, --PREFIX-context, --PREFIX-qps and --PREFIX-burst. The space
// is its name in the help texts, such as "the WDS".
func (o *Options) AddFlags(flags *pflag.FlagSet, prefix, space string) {
	o.addFileFlags(flags, prefix, space)
	flags.Lookup(prefix + "-kubeconfig").Usage += " If empty, the ServiceAccount of the pod is used."
	o.AddLimitFlags(flags, prefix, space)
}

// addFileFlags adds --PREFIX-kubeconfig and --PREFIX-context, and KubeStellar's --PREFIX-user and
// --PREFIX-cluster, which help does not list.
func (o *Options) addFileFlags(flags *pflag.FlagSet, prefix, space string) {
	flags.StringVar(&o.Kubeconfig, prefix+"-kubeconfig", o.Kubeconfig, "Path of the kubeconfig of "+space+".")
	flags.StringVar(&o.Context, prefix+"-context", o.Context,
		"Context in the kubeconfig of "+space+". If empty, its current context is used.")
	flags.StringVar(&o.User, prefix+"-user", o.User, "User in the kubeconfig of "+space+". If empty, that of the context is used.")
	flags.StringVar(&o.Cluster, prefix+"-cluster", o.Cluster, "Cluster in the kubeconfig of "+space+". If empty, that of the context is used.")
	flags.Lookup(prefix + "-user").Hidden = true
	flags.Lookup(prefix + "-cluster").Hidden = true
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
		&clientcmd.ConfigOverrides{
			CurrentContext: o.Context,
			Context:        clientcmdapi.Context{AuthInfo: o.User, Cluster: o.Cluster},
		}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", o.Kubeconfig, err)
	}
	return config, nil
}

// Named is a space in a flag: NAME=KUBECONFIG.
type Named struct {
	Name       string
	Kubeconfig string
	// Context, User and Cluster are those of Options. The flag NAME=KUBECONFIG leaves them empty.
	Context, User, Cluster string
}

// Options returns the options of the connection to the space. Without a Context, it uses the
// context with the name of the space if the kubeconfig has one, so that one kubeconfig can serve
// several spaces. Otherwise it uses the current context.
func (n Named) Options(limits Options) (Options, error) {
	limits.Kubeconfig, limits.Context, limits.User, limits.Cluster = n.Kubeconfig, n.Context, n.User, n.Cluster
	if n.Context != "" {
		return limits, nil
	}
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
	return l.add(Named{Name: name, Kubeconfig: file})
}

func (l *NamedList) add(space Named) error {
	for _, n := range *l {
		if n.Name == space.Name {
			return fmt.Errorf("duplicate name %q", space.Name)
		}
	}
	*l = append(*l, space)
	return nil
}

// Single is the only ITS of a program, in the flags of KubeStellar's programs. Help does not list
// them, because --its does the same for any number of ITSes.
type Single struct {
	name string
	file Options
}

// AddFlags adds --its-name and, for each prefix, --PREFIX-kubeconfig, --PREFIX-context,
// --PREFIX-user and --PREFIX-cluster.
func (s *Single) AddFlags(flags *pflag.FlagSet, prefixes ...string) {
	flags.StringVar(&s.name, "its-name", s.name, "Name of the ITS in logs and metrics.")
	flags.Lookup("its-name").Hidden = true
	for _, prefix := range prefixes {
		s.file.addFileFlags(flags, prefix, "the ITS")
		flags.Lookup(prefix + "-kubeconfig").Hidden = true
		flags.Lookup(prefix + "-context").Hidden = true
	}
}

// AppendTo appends the ITS to the list if the flags name one. The prefix is that of the flag that
// an error asks for.
func (s *Single) AppendTo(list *NamedList, prefix string) error {
	if s.file.Kubeconfig == "" {
		if *s != (Single{}) {
			return fmt.Errorf("--%s-kubeconfig is required with --its-name, --%s-context, --%s-user and --%s-cluster: an ITS is found by its kubeconfig only",
				prefix, prefix, prefix, prefix)
		}
		return nil
	}
	name := s.name
	if name == "" {
		name = "its"
	}
	err := list.add(Named{Name: name, Kubeconfig: s.file.Kubeconfig, Context: s.file.Context, User: s.file.User, Cluster: s.file.Cluster})
	if err != nil {
		return fmt.Errorf("--its-name: %w", err)
	}
	return nil
}
