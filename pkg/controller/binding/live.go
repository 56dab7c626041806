package binding

import (
	"context"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// Live reads from the API server of the WDS, for the rare moment when a cache is not enough. It is
// safe for concurrent use.
type Live interface {
	// CatchUp blocks until these stores show what exists now, or the context ends: then it returns
	// an error.
	CatchUp(ctx context.Context, policies, bindings cache.Store) error
	// Bindings reads those of a policy.
	Bindings(ctx context.Context, policy *controlv1alpha1.BindingPolicy) ([]*controlv1alpha1.Binding, error)
	// Version reads the resourceVersion of a Binding or a BindingPolicy, "" if there is none of
	// that name.
	Version(ctx context.Context, of schema.GroupVersionResource, name string) (string, error)
	// Policies reads the versions of all BindingPolicies, by name. Shared: do not change them.
	Policies(ctx context.Context) (map[string]versionOf, error)
	// Labels reads those of objects of one resource, of which there are about total. Objects that
	// do not exist are missing.
	Labels(ctx context.Context, r dynamicinformer.Resource, refs []objref.Ref, total int) (map[objref.Ref]map[string]string, error)
}

// live is the Live of a WDS.
type live struct {
	control  *client.Client
	metadata metadata.Interface
	policies *shared[map[string]versionOf]
}

func newLive(control *client.Client, metadata metadata.Interface) *live {
	return &live{control: control, metadata: metadata, policies: newShared[map[string]versionOf]()}
}

// CatchUp implements Live.
func (l *live) CatchUp(ctx context.Context, policies, bindings cache.Store) error {
	if err := client.CatchUpStore(ctx, l.metadata.Resource(controlv1alpha1.BindingPolicies).List, policies); err != nil {
		return err
	}
	return client.CatchUpStore(ctx, l.metadata.Resource(controlv1alpha1.Bindings).List, bindings)
}

// Bindings implements Live.
func (l *live) Bindings(ctx context.Context, policy *controlv1alpha1.BindingPolicy) ([]*controlv1alpha1.Binding, error) {
	list, err := l.control.Bindings().List(ctx, metav1.ListOptions{LabelSelector: controlv1alpha1.LabelOverflowOf + "=" + string(policy.UID)})
	if err != nil {
		return nil, err
	}
	found := make([]*controlv1alpha1.Binding, 0, len(list.Items)+1)
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	first, err := l.control.Bindings().Get(ctx, policy.Name, metav1.GetOptions{})
	if ignoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil {
		found = append(found, first)
	}
	return slices.DeleteFunc(found, func(b *controlv1alpha1.Binding) bool { return !corebinding.OwnedBy(b, string(policy.UID)) }), nil
}

// Version implements Live.
func (l *live) Version(ctx context.Context, of schema.GroupVersionResource, name string) (string, error) {
	found, err := l.metadata.Resource(of).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return found.ResourceVersion, nil
}

// Policies implements Live. When many policies are synced at once, one read serves several.
func (l *live) Policies(ctx context.Context) (map[string]versionOf, error) {
	return l.policies.read(ctx, func() (map[string]versionOf, error) {
		versions := map[string]versionOf{}
		err := client.ReadEach(ctx, l.metadata.Resource(controlv1alpha1.BindingPolicies).List, metav1.ListOptions{}, func(m *metav1.PartialObjectMetadata) {
			versions[m.Name] = versionOfPolicy(m)
		})
		return versions, err
	})
}

// Labels implements Live.
func (l *live) Labels(ctx context.Context, r dynamicinformer.Resource, refs []objref.Ref, total int) (map[objref.Ref]map[string]string, error) {
	labels := map[objref.Ref]map[string]string{}
	names := namesIn(refs)
	requests := 0
	for _, names := range names {
		requests += client.CountReads(names)
	}
	if requests > client.CountPages(total) {
		wanted := make(map[objref.Ref]bool, len(refs))
		for _, ref := range refs {
			wanted[ref] = true
		}
		err := client.ReadEach(ctx, l.metadata.Resource(r.GroupVersionResource).List, metav1.ListOptions{}, func(m *metav1.PartialObjectMetadata) {
			if ref := objref.New(r.GroupResource(), m.Namespace, m.Name); wanted[ref] {
				labels[ref] = m.Labels
			}
		})
		return labels, err
	}
	for namespace, names := range names {
		found, err := client.ReadLabels(ctx, l.metadata.Resource(r.GroupVersionResource).Namespace(namespace).List, names)
		if err != nil {
			return nil, err
		}
		for name, of := range found {
			labels[objref.New(r.GroupResource(), namespace, name)] = of
		}
	}
	return labels, nil
}

func namesIn(refs []objref.Ref) map[string][]string {
	names := map[string][]string{}
	for _, ref := range refs {
		names[ref.Namespace] = append(names[ref.Namespace], ref.Name)
	}
	return names
}

// shared shares what is read between those who want to read at the same time. Each receives what
// was read after it called.
type shared[T any] struct {
	called atomic.Uint64
	// turn holds what was read last. Who takes it may read.
	turn chan lastRead[T]
}

type lastRead[T any] struct {
	// begun is the number of calls when it began; 0 for none.
	begun uint64
	value T
}

func newShared[T any]() *shared[T] {
	s := &shared[T]{turn: make(chan lastRead[T], 1)}
	s.turn <- lastRead[T]{}
	return s
}

func (s *shared[T]) read(ctx context.Context, read func() (T, error)) (T, error) {
	call := s.called.Add(1)
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case last := <-s.turn:
		defer func() { s.turn <- last }()
		if last.begun >= call {
			return last.value, nil
		}
		begun := s.called.Load()
		value, err := read()
		if err == nil {
			last = lastRead[T]{begun, value}
		}
		return value, err
	}
}
