package packageserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages"
	generated "github.com/starlinghq/starling/pkg/packageserver/openapi"
	"github.com/starlinghq/starling/pkg/version"
)

// Config says how to serve.
type Config struct {
	// Done is closed when the server shall end: watches end then, and nobody waits for them.
	Done <-chan struct{}
	// Ready is called when the server knows whom the aggregator's certificate is from: who connects before is asked for none, and is nobody
	// as long as the connection lasts.
	Ready func()
	// Store carries out what is asked.
	Store *packages.Store
	// Kubeconfig leads to the API server that says who somebody is and what they may; empty in a pod.
	Kubeconfig string
	// Serving is where, and with what certificate.
	Serving *genericoptions.SecureServingOptions
	// RequestTimeout bounds a request that is no watch.
	RequestTimeout time.Duration
	// MaxRequest bounds the body of a request in bytes.
	MaxRequest int64
	// MaxList bounds the files in one answer in bytes.
	MaxList int
	// InFlight and MutatingInFlight bound the requests that are worked on at once.
	InFlight, MutatingInFlight int
}

// lookEvery is how often it is looked whether the server is ready.
const lookEvery = 50 * time.Millisecond

// New returns a server that is ready to run.
func New(c Config) (*genericapiserver.GenericAPIServer, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme)
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.Serializer = textOnly{codecs}
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.RequestTimeout = c.RequestTimeout
	config.MaxRequestBodyBytes = c.MaxRequest
	config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = c.InFlight, c.MutatingInFlight
	config.EnableProfiling = false
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(noteTables(handler), c)
	}
	namer := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generated.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generated.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "Starling package-server", version.Get()
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "Starling package-server", version.Get()

	// Many requests of many users come over one connection from the aggregator.
	c.Serving.HTTP2MaxStreamsPerConnection = 1000
	authentication, authorization := genericoptions.NewDelegatingAuthenticationOptions(), genericoptions.NewDelegatingAuthorizationOptions()
	authentication.RemoteKubeConfigFile, authorization.RemoteKubeConfigFile = c.Kubeconfig, c.Kubeconfig
	serving := c.Serving.WithLoopback()
	if errs := serving.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if err := serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	if err := authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	if err := authorization.ApplyTo(&config.Authorization); err != nil {
		return nil, fmt.Errorf("set up authorization: %w", err)
	}
	knows := func() error {
		if h := config.Authentication.RequestHeaderConfig; h != nil && len(h.CAContentProvider.CurrentCABundleContent()) == 0 {
			return errors.New("the certificates of whom the aggregator's is from are not read yet")
		}
		return nil
	}
	config.AddReadyzChecks(healthz.NamedCheck("request-header-ca", func(*http.Request) error { return knows() }))

	server, err := config.Complete().New("package-server", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	err = server.AddPostStartHook("ready", func(hook genericapiserver.PostStartHookContext) error {
		go func() { // a hook must end
			err := wait.PollUntilContextCancel(hook.Context, lookEvery, true, func(context.Context) (bool, error) { return knows() == nil, nil })
			if err == nil {
				c.Ready()
			}
		}()
		return nil
	})
	if err != nil {
		return nil, err
	}
	revisions := newRevisions(c.Store, c.Done)
	group := genericapiserver.NewDefaultAPIGroupInfo(porchv1alpha1.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.NegotiatedSerializer = textOnly{codecs}
	group.VersionedResourcesStorageMap[porchv1alpha1.GroupVersion.Version] = map[string]rest.Storage{
		"packagerevisions":          revisions,
		"packagerevisions/approval": &approval{revisions},
		"packagerevisionresources":  newResources(c.Store, c.MaxList),
		"packages":                  newPackages(c.Store, c.Done),
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("install %s: %w", porchv1alpha1.GroupVersion, err)
	}
	return server, nil
}

// textOnly offers no protobuf: our kinds have no such form, and who prefers it, as the namespace controller does, would be sent an error
// instead of JSON.
type textOnly struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s textOnly) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
