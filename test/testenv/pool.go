package testenv

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Pool lends fleets to the tests of a package that need one of their own. What a test leaves in the
// spaces is deleted when it ends, which takes a fraction of what another fleet takes to start. So
// the tests must not end programs of a fleet, nor change objects that they did not create. The
// package's TestMain calls Main.
type Pool struct {
	// Options name the spaces, and have no packages: published ones cannot be deleted.
	Options Options
	// Prepare creates what each test is to find.
	Prepare func(testing.TB, *Fleet)

	mu   sync.Mutex
	free []*lent
}

// lent is a fleet of a pool.
type lent struct {
	*Fleet
	// had are the objects that it had when it was prepared, by space, with their generations.
	had map[string]map[types.UID]int64
}

// pooled are the fleets of all pools of a test binary.
var pooled struct { //nolint:gochecknoglobals // a test binary has one TestMain
	sync.Mutex
	fleets []*Fleet
}

// Lend returns a fleet that no other test has until this one ends.
func (p *Pool) Lend(t testing.TB) *Fleet {
	t.Helper()
	f := p.take()
	if f == nil {
		f = p.start(t)
	}
	t.Cleanup(func() {
		defer f.dumpIfFailed(t)
		if t.Failed() {
			return // it may hold anything
		}
		for space, had := range f.had {
			f.Space(t, space).empty(t, had)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, f)
	})
	return f.Fleet
}

func (p *Pool) take() (free *lent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) > 0 {
		free, p.free = p.free[0], p.free[1:]
	}
	return free
}

func (p *Pool) start(t testing.TB) *lent {
	t.Helper()
	fleet, err := start(p.Options)
	if err != nil {
		t.Fatal(err)
	}
	pooled.Lock()
	pooled.fleets = append(pooled.fleets, fleet)
	pooled.Unlock()
	p.Prepare(t, fleet)
	f := &lent{Fleet: fleet, had: map[string]map[types.UID]int64{}}
	for _, name := range p.Options.Spaces {
		had := map[types.UID]int64{}
		if err := fleet.Space(t, name).each(t, func(_ metadata.ResourceInterface, obj *metav1.PartialObjectMetadata) error {
			had[obj.UID] = obj.Generation
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f.had[name] = had
	}
	return f
}

// empty deletes all objects but those, whatever finalizers they have, and blocks until they are
// gone. It fails the test if one of those is gone or has another generation.
func (s *Space) empty(t testing.TB, but map[types.UID]int64) {
	t.Helper()
	Eventually(t, Patience, func() (bool, string) {
		left, changed := sets.New[string](), maps.Clone(but)
		err := s.each(t, func(objects metadata.ResourceInterface, obj *metav1.PartialObjectMetadata) error {
			switch generation, had := but[obj.UID]; {
			case !had:
				left.Insert(obj.Kind + " " + obj.Namespace + "/" + obj.Name)
				return release(context.WithoutCancel(t.Context()), objects, obj)
			case generation == obj.Generation:
				delete(changed, obj.UID)
			}
			return nil
		})
		if err == nil && len(changed) > 0 {
			t.Fatalf("%s: the test has changed objects of the pool: %v", s.Name, changed)
		}
		return err == nil && len(left) == 0, fmt.Sprintf("left: %q (%v)", sets.List(left), err)
	})
}

// release deletes an object. Its finalizers go first, but for a CustomResourceDefinition, whose
// only one has the server delete the objects of its kind.
//
// The server can forget such a deletion for minutes: it ends its attempts when a write of its own
// conflicts with what it has just written, and that has changed nothing but the condition
// Terminating, after which it does not begin again (crd_finalizer.go of
// k8s.io/apiextensions-apiserver). Any other change makes it try again.
func release(ctx context.Context, objects metadata.ResourceInterface, obj *metav1.PartialObjectMetadata) error {
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if obj.Kind == "CustomResourceDefinition" {
		patch = tryAgain()
	}
	if obj.Kind != "CustomResourceDefinition" && len(obj.Finalizers) > 0 || isForgotten(obj.DeletionTimestamp) {
		_, err := objects.Patch(ctx, obj.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if obj.DeletionTimestamp != nil {
		return nil
	}
	err := objects.Delete(ctx, obj.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(obj.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// isForgotten reports whether an API server may have forgotten a deletion that has begun. The time
// is a back-off: until it is over, each other change would make the server's own writes conflict.
func isForgotten(begun *metav1.Time) bool {
	return begun != nil && time.Since(begun.Time) > 5*time.Second
}

// tryAgain returns the patch that makes an API server try a deletion again.
func tryAgain() []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{"tried-again":%q}}}`, time.Now())
}

// DeleteKind deletes a CustomResourceDefinition, if it exists, and blocks until it is gone: release
// says why that can take more than a request.
func DeleteKind(t testing.TB, client dynamic.Interface, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also at the end of a test
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	Eventually(t, Patience, func() (bool, string) {
		crd, err := crds.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, ""
		case err != nil:
		case crd.GetDeletionTimestamp() == nil:
			err = crds.Delete(ctx, name, metav1.DeleteOptions{})
		case isForgotten(crd.GetDeletionTimestamp()):
			_, err = crds.Patch(ctx, name, types.MergePatchType, tryAgain(), metav1.PatchOptions{})
		}
		return false, fmt.Sprintf("%s is still there (%v)", name, err)
	})
}

// each calls a function for each object of the space that somebody wrote, with a client for the
// objects of its kind and Namespace.
func (s *Space) each(t testing.TB, do func(metadata.ResourceInterface, *metav1.PartialObjectMetadata) error) error {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return err
	}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range list.APIResources {
			if writtenByServers(resource.Kind) {
				continue
			}
			of := objects.Resource(version.WithResource(resource.Name))
			found, err := of.List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // it is not served any more
			}
			if err != nil {
				return err
			}
			for i := range found.Items {
				obj := &found.Items[i]
				obj.Kind = resource.Kind
				if isCopied(obj) {
					continue
				}
				if err := do(of.Namespace(obj.Namespace), obj); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// writtenByServers: what servers write at any time, and what follows from
// CustomResourceDefinitions.
func writtenByServers(kind string) bool {
	switch kind {
	case "APIService", "Event", "Lease":
		return true
	}
	return false
}

// isCopied: what controllers of Kubernetes create in each Namespace, again when it is deleted.
func isCopied(obj *metav1.PartialObjectMetadata) bool {
	return obj.Kind == "ConfigMap" && obj.Name == "kube-root-ca.crt" || obj.Kind == "ServiceAccount" && obj.Name == "default"
}
