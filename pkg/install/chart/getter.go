package chart

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// getter gives Helm clients of a space.
type getter struct {
	config    *rest.Config
	discovery discovery.CachedDiscoveryInterface
}

func newGetter(config *rest.Config) (*getter, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &getter{config: config, discovery: memory.NewMemCacheClient(client)}, nil
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
func (g *getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

// ToRESTMapper implements genericclioptions.RESTClientGetter.
func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	return restmapper.NewDeferredDiscoveryRESTMapper(g.discovery), nil
}

// ToRawKubeConfigLoader implements genericclioptions.RESTClientGetter. Helm takes the default
// namespace from it, and nothing else: its clients come from ToRESTConfig.
func (*getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: Namespace}}
	return clientcmd.NewNonInteractiveClientConfig(*clientcmdapi.NewConfig(), "", overrides, nil)
}
