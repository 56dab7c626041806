package apiserver

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

	generated "github.com/starlinghq/starling/api/generated/openapi"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/pkg/version"
)

// Config has the dependencies and limits of the server.
type Config struct {
	// Done is closed when the server shuts down. It ends all watches.
	Done <-chan struct{}
	// Ready is called when the server has the CA of the aggregator's client certificate, and the
	// Store has read which packages exist. Clients that connect earlier are not asked for a
	// certificate, and stay anonymous as long as the connection lasts; and concurrent creations
	// that exclude each other may all fail.
	Ready func()
	// Store implements the operations.
	Store *store.Store
	// Kubeconfig is for the API server that authenticates and authorizes users. Empty uses the
	// service account of the pod.
	Kubeconfig string
	// Serving has the address and the certificate.
	Serving *genericoptions.SecureServingOptions
	// RequestTimeout bounds each request except watches.
	RequestTimeout time.Duration
	// MaxRequest bounds the body of a request in bytes.
	MaxRequest int64
	// MaxList bounds the files in one response in bytes.
	MaxList int
	// InFlight and MutatingInFlight bound the number of concurrent requests.
	InFlight, MutatingInFlight int
}

// Why the server is not ready.
var (
	errNoClientCA = errors.New("the CA of the aggregator's client certificate is not loaded yet")
	errNotRead    = errors.New("it is not read yet which packages exist")
)

// readyPollInterval is the time between two checks whether the server is ready.
const readyPollInterval = 50 * time.Millisecond

// New returns a server that is ready to run.
func New(c Config) (*genericapiserver.GenericAPIServer, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme)
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.Serializer = withoutProtobuf{codecs}
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.RequestTimeout = c.RequestTimeout
	config.MaxRequestBodyBytes = c.MaxRequest
	config.MaxRequestsInFlight, config.MaxMutatingRequestsInFlight = c.InFlight, c.MutatingInFlight
	config.EnableProfiling = false
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(markTableRequests(handler), c)
	}
	namer := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generated.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generated.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "Starling package-server", version.Get()
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "Starling package-server", version.Get()

	// The aggregator sends the requests of all users over one connection.
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
	hasCA := func(*http.Request) error {
		if h := config.Authentication.RequestHeaderConfig; h != nil && len(h.CAContentProvider.CurrentCABundleContent()) == 0 {
			return errNoClientCA
		}
		return nil
	}
	hasRead := func(*http.Request) error {
		if !c.Store.LayoutIsRead() {
			return errNotRead
		}
		return nil
	}
	config.AddReadyzChecks(healthz.NamedCheck("request-header-ca", hasCA), healthz.NamedCheck("packages", hasRead))

	server, err := config.Complete().New("package-server", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	err = server.AddPostStartHook("ready", func(hook genericapiserver.PostStartHookContext) error {
		go func() { // a hook must return
			err := wait.PollUntilContextCancel(hook.Context, readyPollInterval, true, func(context.Context) (bool, error) {
				return hasCA(nil) == nil && hasRead(nil) == nil, nil
			})
			if err == nil {
				c.Ready()
			}
		}()
		return nil
	})
	if err != nil {
		return nil, err
	}
	revisions := &revisions{revisionKind, c.Store, c.Done, config.Authorization.Authorizer}
	group := genericapiserver.NewDefaultAPIGroupInfo(porchv1alpha1.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.NegotiatedSerializer = withoutProtobuf{codecs}
	group.VersionedResourcesStorageMap[porchv1alpha1.GroupVersion.Version] = map[string]rest.Storage{
		"packagerevisions":          revisions,
		"packagerevisions/approval": &approval{revisionKind, revisions},
		"packagerevisionresources":  &resources{resourcesKind, c.Store, c.MaxList, config.Authorization.Authorizer},
		"packages":                  &porchPackages{packageKind, c.Store, c.Done},
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("install %s: %w", porchv1alpha1.GroupVersion, err)
	}
	return server, nil
}

// withoutProtobuf does not offer protobuf, because our kinds have no protobuf form. Otherwise
// clients that prefer it, such as the namespace controller, would receive an error instead of JSON.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
