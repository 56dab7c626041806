package installation

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/hostedspace/access"
	"github.com/starlinghq/starling/pkg/install/packages"
)

// Options are the flags of an installation.
type Options struct {
	// Access says how the space is reached.
	Access access.Options

	kind, name                string
	webhookURL, webhookCA     string
	server, serverCA          string
	serverKubeconfig          string
	packageServer, packagesCA string
	values                    string
	timeout                   time.Duration
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	const timeout = 5 * time.Minute
	o.Access.AddFlags(flags)
	flags.StringVar(&o.kind, "type", "", "Type of the space: wds or its.")
	flags.StringVar(&o.name, "name", "", "Name of the space. It is recorded in the space.")
	flags.StringVar(&o.webhookURL, "webhook-url", "", "URL of OCM's webhooks as the API server of an ITS reaches them. "+
		"If set, OCM's hub is installed. Otherwise the ITS must be a hub already.")
	flags.StringVar(&o.webhookCA, "webhook-ca", "", "File with the authority of the certificate of the webhooks.")
	flags.StringVar(&o.server, "server", "", "URL of the space for clusters outside. If set, everyone who reaches the space may read it and the authority there, "+
		"in ConfigMap kube-public/cluster-info.")
	flags.StringVar(&o.serverCA, "server-ca", "", "File with the authority of the certificate of the space. Required with --server.")
	flags.StringVar(&o.serverKubeconfig, "server-kubeconfig", "", "Kubeconfig with that URL and that authority, instead of --server and --server-ca. "+
		"It may have no authority if clients trust the certificate anyway.")
	flags.StringVar(&o.packageServer, "package-server", "", "HOST[:PORT] of the package-server as the API server of a WDS reaches it. "+
		"If set, it is registered in the WDS.")
	flags.StringVar(&o.packagesCA, "package-server-ca", "", "File with the authority of the certificate of the package-server, which is for the name "+packages.ServerName+".")
	flags.StringVar(&o.values, "values", "", "File with values of the chart, in YAML.")
	flags.DurationVar(&o.timeout, "timeout", timeout, "How long to wait for the space and for what is installed.")
}

// Request reads the files and returns what the flags ask for. The error names the flag that has a
// mistake.
func (o *Options) Request() (*Request, error) {
	r := &Request{Type: Type(o.kind), Name: o.name, Timeout: o.timeout}
	var err error
	if r.Webhooks, err = endpoint("webhook-url", o.webhookURL, "webhook-ca", o.webhookCA); err != nil {
		return nil, err
	}
	if r.Address, err = o.address(); err != nil {
		return nil, err
	}
	if r.Packages, err = o.packages(); err != nil {
		return nil, err
	}
	if o.values != "" {
		text, err := os.ReadFile(o.values)
		if err != nil {
			return nil, fmt.Errorf("read --values: %w", err)
		}
		if err := yaml.Unmarshal(text, &r.Values); err != nil {
			return nil, fmt.Errorf("read --values %q: %w", o.values, err)
		}
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return r, o.Access.Validate()
}

func endpoint(urlFlag, text, caFlag, file string) (*Endpoint, error) {
	ca, err := readCA(urlFlag, text, caFlag, file)
	if err != nil || text == "" {
		return nil, err
	}
	url, err := parseURL(urlFlag, text)
	return &Endpoint{URL: url, CA: ca}, err
}

// address returns what --server or --server-kubeconfig name.
func (o *Options) address() (*Endpoint, error) {
	const flag = "server-kubeconfig"
	if o.serverKubeconfig == "" {
		return endpoint("server", o.server, "server-ca", o.serverCA)
	}
	if o.server != "" || o.serverCA != "" {
		return nil, fmt.Errorf("--%s cannot be set together with --server and --server-ca", flag)
	}
	config, err := clientcmd.LoadFromFile(o.serverKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --%s: %w", flag, err)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.Clusters[context.Cluster] == nil {
		return nil, fmt.Errorf("invalid --%s %q: it has no current context with a cluster", flag, o.serverKubeconfig)
	}
	cluster := config.Clusters[context.Cluster]
	url, err := parseURL(flag, cluster.Server)
	return &Endpoint{URL: url, CA: cluster.CertificateAuthorityData}, err
}

func (o *Options) packages() (*packages.Server, error) {
	const flag = "package-server"
	ca, err := readCA(flag, o.packageServer, "package-server-ca", o.packagesCA)
	if err != nil || o.packageServer == "" {
		return nil, err
	}
	host, port, err := parseServer(o.packageServer)
	return &packages.Server{Host: host, Port: port, CA: ca}, err
}

// readCA reads the file of a flag, which is required with another flag and without effect
// otherwise.
func readCA(flag, value, caFlag, file string) ([]byte, error) {
	switch {
	case value == "" && file == "":
		return nil, nil
	case value == "":
		return nil, fmt.Errorf("--%s requires --%s", caFlag, flag)
	case file == "":
		return nil, fmt.Errorf("--%s requires --%s", flag, caFlag)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --%s: %w", caFlag, err)
	}
	return text, checkCA(caFlag, file, text)
}
