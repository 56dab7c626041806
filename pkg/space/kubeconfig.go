package space

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials are what a kubeconfig holds of a user.
type credentials struct {
	certFile, keyFile string
	token             string
}

// addContext adds cluster, user and context of one name. The content of the files is copied in: a
// kubeconfig can be moved.
func addContext(cfg *clientcmdapi.Config, name, server, caFile string, c credentials) error {
	cluster := clientcmdapi.NewCluster()
	cluster.Server = server
	user := clientcmdapi.NewAuthInfo()
	user.Token = c.token
	for path, into := range map[string]*[]byte{
		caFile: &cluster.CertificateAuthorityData, c.certFile: &user.ClientCertificateData, c.keyFile: &user.ClientKeyData,
	} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("make kubeconfig of %s: %w", name, err)
		}
		*into = data
	}
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = name, name
	cfg.Clusters[name], cfg.AuthInfos[name], cfg.Contexts[name] = cluster, user, context
	return nil
}

func writeKubeconfig(path string, cfg *clientcmdapi.Config) error {
	data, err := clientcmd.Write(*cfg)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// writeComponentKubeconfig writes the kubeconfig with which a component reaches a space. Its one
// context is named after the space.
func (f *Fleet) writeComponentKubeconfig(space, component string, c credentials) error {
	return f.writeForeignKubeconfig(space, space, component, c)
}

// writeForeignKubeconfig writes the kubeconfig with which a component of one space reaches another,
// into the directory of the former.
func (f *Fleet) writeForeignKubeconfig(home, space, component string, c credentials) error {
	cfg := newConfig()
	if err := addContext(cfg, space, f.serverURL(space), f.pki(space).crt("ca"), c); err != nil {
		return err
	}
	cfg.CurrentContext = space
	return writeKubeconfig(f.layout.ComponentKubeconfig(home, component), cfg)
}

// adminCredentials are those of the user, who alone is an administrator.
func (f *Fleet) adminCredentials(space string) credentials {
	p := f.pki(space)
	return credentials{certFile: p.crt("admin"), keyFile: p.key("admin")}
}

// writeKubeconfig writes the user's kubeconfig. The current context that the user chose stays.
func (f *Fleet) writeKubeconfig() error {
	path := f.layout.Kubeconfig()
	cfg := newConfig()
	for _, s := range f.state.Spaces() {
		if err := addContext(cfg, s, f.serverURL(s), f.pki(s).crt("ca"), f.adminCredentials(s)); err != nil {
			return err
		}
	}
	if old, err := clientcmd.LoadFromFile(path); err == nil && cfg.Contexts[old.CurrentContext] != nil {
		cfg.CurrentContext = old.CurrentContext
	} else if len(f.state.WDS) > 0 {
		cfg.CurrentContext = f.state.WDS[0]
	}
	return writeKubeconfig(path, cfg)
}

// adminConfig returns a client configuration of the user for a space.
func (f *Fleet) adminConfig(space string) *rest.Config {
	p := f.pki(space)
	return &rest.Config{
		Host: f.serverURL(space),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: p.crt("ca"), CertFile: p.crt("admin"), KeyFile: p.key("admin"),
		},
		QPS: 200, Burst: 400,
		UserAgent: "starling",
	}
}

func (f *Fleet) pki(space string) pkiDir { return pkiDir{dir: f.layout.PKI(space), now: f.clock.Now()} }

// serverURL is the address of the API server of a space. Its port was chosen before.
func (f *Fleet) serverURL(space string) string {
	return fmt.Sprintf("https://%s:%d", loopback, f.state.Ports[componentName(space, programAPIServer)])
}

func newConfig() *clientcmdapi.Config { return clientcmdapi.NewConfig() }
