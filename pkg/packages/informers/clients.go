package informers

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

type object interface {
	runtime.Object
	metav1.Object
}

// pointer is the constraint for creating an object of type T.
type pointer[T any] interface {
	*T
	object
}

// listPointer is the same for a list.
type listPointer[T any] interface {
	*T
	runtime.Object
}

// clientFunc returns the client for the objects of one kind in a namespace, or with "" in all.
type clientFunc[O object, L runtime.Object] func(namespace string) *gentype.ClientWithList[O, L]

func newClient[O pointer[T], L listPointer[TL], T, TL any](wds *rest.Config, resource schema.GroupVersionResource) (clientFunc[O, L], error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1alpha1.AddToScheme, configv1alpha2.AddToScheme, storev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	typed, err := client.NewREST(wds, scheme, resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	codec := runtime.NewParameterCodec(scheme)
	return func(namespace string) *gentype.ClientWithList[O, L] {
		return gentype.NewClientWithList(resource.Resource, typed, codec, namespace, func() O { return new(T) }, func() L { return new(TL) })
	}, nil
}
