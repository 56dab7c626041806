package localfleet

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/spaces"
)

// addContext adds a cluster, a user and a context with the name of the space.
func (f *Fleet) addContext(config *clientcmdapi.Config, space string, user *clientcmdapi.AuthInfo) {
	config.Clusters[space] = &clientcmdapi.Cluster{Server: f.serverURL(space), CertificateAuthority: f.pki(space).crt("ca")}
	config.AuthInfos[space] = user
	config.Contexts[space] = &clientcmdapi.Context{Cluster: space, AuthInfo: space}
}

// saveKubeconfig writes a kubeconfig with the content of the files that it names, so that it can be
// moved.
func saveKubeconfig(path string, config *clientcmdapi.Config) error {
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return fmt.Errorf("create kubeconfig %q: %w", path, err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// writeKubeconfig writes the kubeconfig with which a component of the space home connects to a
// space. The file is in the directory of home. Its one context has the name of the space.
func (f *Fleet) writeKubeconfig(home, space, component string, user *clientcmdapi.AuthInfo) error {
	config := clientcmdapi.NewConfig()
	f.addContext(config, space, user)
	config.CurrentContext = space
	return saveKubeconfig(f.layout.ComponentKubeconfig(home, component), config)
}

// certificate returns the user in a kubeconfig who has a client certificate of that name. "admin"
// is the user of the fleet, who is the only administrator of the space.
func (f *Fleet) certificate(space, name string) *clientcmdapi.AuthInfo {
	p := f.pki(space)
	return &clientcmdapi.AuthInfo{ClientCertificate: p.crt(name), ClientKey: p.key(name)}
}

// writeUserKubeconfig writes the user's kubeconfig, in which the contexts of ITSes are marked. It
// keeps the current context of an existing one.
func (f *Fleet) writeUserKubeconfig() error {
	path := f.layout.Kubeconfig()
	config := clientcmdapi.NewConfig()
	for _, s := range f.state.Spaces() {
		f.addContext(config, s, f.certificate(s, "admin"))
	}
	for _, its := range f.state.ITS {
		spaces.MarkITS(config.Contexts[its])
	}
	if old, err := clientcmd.LoadFromFile(path); err == nil && config.Contexts[old.CurrentContext] != nil {
		config.CurrentContext = old.CurrentContext
	} else if len(f.state.WDS) > 0 {
		config.CurrentContext = f.state.WDS[0]
	}
	return saveKubeconfig(path, config)
}

// apiTimeout is much longer than an API server needs to respond. No command watches objects.
const apiTimeout = time.Minute

// adminConfig returns the user's client configuration for a space.
func (f *Fleet) adminConfig(space string) *rest.Config {
	p := f.pki(space)
	return &rest.Config{
		Host: f.serverURL(space),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: p.crt("ca"), CertFile: p.crt("admin"), KeyFile: p.key("admin"),
		},
		QPS: 200, Burst: 400,
		// No command waits forever for an API server that does not respond.
		Timeout:   apiTimeout,
		UserAgent: "starling",
	}
}

// pki returns the certificates of a space, or those of etcd if the space is "".
func (f *Fleet) pki(space string) pkiDir { return pkiDir{dir: f.layout.PKI(space), now: f.clock.Now()} }

// serverURL returns the URL of the API server of a space.
func (f *Fleet) serverURL(space string) string {
	return "https://" + f.state.address(componentName(space, programAPIServer))
}
