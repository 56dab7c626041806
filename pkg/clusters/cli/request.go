package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/install/ocm"
)

// request is what the administrator of a cluster asks for.
type request struct {
	// name is the name of the cluster in the hub.
	name string
	// image is that of the agent.
	image string
	// rights are those of the agent. If empty, they are as they are, or all in a new cluster.
	rights ocm.WorkRights
	// server is the URL of the hub for the cluster. If empty, it is what the hub publishes, or
	// otherwise what the user's kubeconfig has.
	server string
}

func (r *request) validate() error {
	if problems := validation.IsDNS1123Label(r.name); len(problems) > 0 {
		return fmt.Errorf("invalid --name %q: %s", r.name, problems[0])
	}
	if r.image == "" {
		return errors.New("--image must not be empty")
	}
	if u, err := url.Parse(r.server); r.server != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("invalid --hub-server %q: must be https://HOST[:PORT][/PATH]", r.server)
	}
	return nil
}

// address is where a cluster finds the hub.
type address struct {
	server, serverName string
	ca                 []byte
}

// hubAddress returns where the cluster finds the hub, given the kubeconfig that the hub publishes,
// which may be empty, and how the user connects to the hub.
func hubAddress(r *request, published string, own *rest.Config) (address, error) {
	a := address{server: own.Host, serverName: own.ServerName, ca: own.CAData}
	if published != "" {
		config, err := clientcmd.Load([]byte(published))
		if err != nil {
			return a, fmt.Errorf("read the address that the hub publishes in ConfigMap kube-public/cluster-info: %w", err)
		}
		for _, cluster := range config.Clusters {
			a = address{server: cluster.Server, serverName: cluster.TLSServerName, ca: cluster.CertificateAuthorityData}
		}
	}
	if r.server != "" {
		a.server = r.server
	}
	u, err := url.Parse(a.server)
	if err != nil {
		return a, fmt.Errorf("read the address of the hub: %w", err)
	}
	if host := u.Hostname(); host == "localhost" || net.ParseIP(host).IsLoopback() {
		return a, fmt.Errorf("the hub is at %s for you, where the cluster cannot reach it: set --hub-server to its URL for clusters", a.server)
	}
	return a, nil
}

// kubeconfig returns a kubeconfig with a token.
func (a address) kubeconfig(token string) ([]byte, error) {
	const name = "hub"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: a.server, TLSServerName: a.serverName, CertificateAuthorityData: a.ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// observed is what is known of the cluster before it is changed.
type observed struct {
	// operator is true if OCM's operator is installed, which runs an agent of its own.
	operator bool
	// agentName is the name with which an agent runs, or "". hub is the URL of its hub, or "".
	agentName, hub string
	// rights are those of the agent, or "" if it is not installed.
	rights ocm.WorkRights
}

// workRights returns the rights that the agent gets. Without a request, they do not change: a
// command that only changes the image must not give the agent more rights.
func workRights(requested, observed ocm.WorkRights) ocm.WorkRights {
	return cmp.Or(requested, observed, ocm.WorkRightsAll)
}

// check returns an error if another agent runs in the cluster: its works would be lost.
func check(r *request, a address, o observed) error {
	var problems []string
	if o.operator {
		problems = append(problems, "OCM's operator is installed in it and runs an agent: remove it with `clusteradm unjoin`, or let the cluster join with clusteradm")
	}
	if o.agentName != "" && o.agentName != r.name {
		problems = append(problems, fmt.Sprintf("it has joined as %q: use --name %s", o.agentName, o.agentName))
	}
	if o.hub != "" && o.hub != a.server {
		problems = append(problems, fmt.Sprintf("it has joined the hub at %s: delete Namespace open-cluster-management-agent in it first", o.hub))
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return fmt.Errorf("nothing was changed in the cluster: %s", strings.Join(problems, "; "))
}
