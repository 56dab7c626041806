package packagewatch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
)

// clients makes typed clients.
type clients struct {
	config *rest.Config
	scheme *runtime.Scheme
	codec  runtime.ParameterCodec
}

func newClients(wds *rest.Config) (*clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1alpha1.AddToScheme, configv1alpha2.AddToScheme, storev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return &clients{config: wds, scheme: scheme, codec: runtime.NewParameterCodec(scheme)}, nil
}

type object interface {
	runtime.Object
	metav1.Object
}

// pointer is what generics need to make an object of a type.
type pointer[T any] interface {
	*T
	object
}

// listPointer is the same for a list.
type listPointer[T any] interface {
	*T
	runtime.Object
}

// namespaced returns the client for the objects of one kind in a namespace, or in all.
type namespaced[O object, L runtime.Object] func(namespace string) *gentype.ClientWithList[O, L]

// kindOf makes clients for one kind.
func kindOf[P pointer[T], LP listPointer[L], T, L any](c *clients, resource schema.GroupVersionResource) (namespaced[P, LP], error) {
	typed, err := client.NewREST(c.config, c.scheme, resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	return func(namespace string) *gentype.ClientWithList[P, LP] {
		return gentype.NewClientWithList(resource.Resource, typed, c.codec, namespace, func() P { return P(new(T)) }, func() LP { return LP(new(L)) })
	}, nil
}
