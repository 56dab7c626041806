// Package client has typed clients and informers that read the objects of control.kubestellar.io.
// Package writer writes them. The users of other groups create their clients with NewREST.
package client

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// Client reads objects of control.kubestellar.io in one space. It is safe for concurrent use.
type Client struct {
	rest  rest.Interface
	codec runtime.ParameterCodec
}

// New returns a Client for the space that config connects to.
func New(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := controlv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	restClient, err := NewREST(config, scheme, controlv1alpha1.GroupVersion)
	if err != nil {
		return nil, err
	}
	return &Client{rest: restClient, codec: runtime.NewParameterCodec(scheme)}, nil
}

// BindingPolicies reads BindingPolicies of a WDS.
func (c *Client) BindingPolicies() *gentype.ClientWithList[*controlv1alpha1.BindingPolicy, *controlv1alpha1.BindingPolicyList] {
	return gentype.NewClientWithList(controlv1alpha1.BindingPolicies.Resource, c.rest, c.codec, "",
		func() *controlv1alpha1.BindingPolicy { return &controlv1alpha1.BindingPolicy{} },
		func() *controlv1alpha1.BindingPolicyList { return &controlv1alpha1.BindingPolicyList{} })
}

// Bindings reads Bindings of a WDS.
func (c *Client) Bindings() *gentype.ClientWithList[*controlv1alpha1.Binding, *controlv1alpha1.BindingList] {
	return gentype.NewClientWithList(controlv1alpha1.Bindings.Resource, c.rest, c.codec, "",
		func() *controlv1alpha1.Binding { return &controlv1alpha1.Binding{} },
		func() *controlv1alpha1.BindingList { return &controlv1alpha1.BindingList{} })
}

// CustomTransforms reads CustomTransforms of a WDS.
func (c *Client) CustomTransforms() *gentype.ClientWithList[*controlv1alpha1.CustomTransform, *controlv1alpha1.CustomTransformList] {
	return gentype.NewClientWithList(controlv1alpha1.CustomTransforms.Resource, c.rest, c.codec, "",
		func() *controlv1alpha1.CustomTransform { return &controlv1alpha1.CustomTransform{} },
		func() *controlv1alpha1.CustomTransformList { return &controlv1alpha1.CustomTransformList{} })
}

// StatusCollectors reads StatusCollectors of a WDS.
func (c *Client) StatusCollectors() *gentype.ClientWithList[*controlv1alpha1.StatusCollector, *controlv1alpha1.StatusCollectorList] {
	return gentype.NewClientWithList(controlv1alpha1.StatusCollectors.Resource, c.rest, c.codec, "",
		func() *controlv1alpha1.StatusCollector { return &controlv1alpha1.StatusCollector{} },
		func() *controlv1alpha1.StatusCollectorList { return &controlv1alpha1.StatusCollectorList{} })
}

// CombinedStatuses reads CombinedStatuses of a WDS, of all namespaces.
func (c *Client) CombinedStatuses() *gentype.ClientWithList[*controlv1alpha1.CombinedStatus, *controlv1alpha1.CombinedStatusList] {
	return gentype.NewClientWithList(controlv1alpha1.CombinedStatuses.Resource, c.rest, c.codec, metav1.NamespaceAll,
		func() *controlv1alpha1.CombinedStatus { return &controlv1alpha1.CombinedStatus{} },
		func() *controlv1alpha1.CombinedStatusList { return &controlv1alpha1.CombinedStatusList{} })
}

// WorkStatuses reads WorkStatuses of an ITS: those in one mailbox, or in all mailboxes if mailbox
// is "".
func (c *Client) WorkStatuses(mailbox string) *gentype.ClientWithList[*controlv1alpha1.WorkStatus, *controlv1alpha1.WorkStatusList] {
	return gentype.NewClientWithList(controlv1alpha1.WorkStatuses.Resource, c.rest, c.codec, mailbox,
		func() *controlv1alpha1.WorkStatus { return &controlv1alpha1.WorkStatus{} },
		func() *controlv1alpha1.WorkStatusList { return &controlv1alpha1.WorkStatusList{} })
}

// lister has the methods of a typed client that an informer needs.
type lister[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer for all objects that the client reads. It indexes them by
// namespace, removes their managedFields, and never resyncs. It is not started. Its objects are
// shared: copy an object before you change it.
//
// The example is an object of the informer's type, as in NewInformer(c.Bindings(), &Binding{},
// nil).
func NewInformer[L runtime.Object](client lister[L], example runtime.Object, indexers cache.Indexers) (cache.SharedIndexInformer, error) {
	const never time.Duration = 0
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}
	all := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	maps.Copy(all, indexers)
	informer := cache.NewSharedIndexInformer(listWatch, example, never, all)
	if err := informer.SetTransform(StripManagedFields); err != nil {
		return nil, err
	}
	return informer, nil
}

// StripManagedFields is a transform for informers. It saves memory: managedFields are often the
// largest part of an object, and no decision depends on them.
func StripManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
