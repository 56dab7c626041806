package placement

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Index holds the published Placements, which Bindings list which object, and where the content of
// each Binding comes from. A Gatherer changes it. It is safe for concurrent use, and calls nothing
// while its lock is held, except the function given to View.
type Index struct {
	bindings cache.Indexer
	held     atomic.Pointer[parsedHolds] // what Held parsed last

	mu         sync.Mutex
	placements map[string]*Placement
	// listed has the Bindings that list an object. listings is its inverse: the objects of the
	// Binding's Placement, and those that are being read for the next one.
	listed   nested.Map[objref.Ref, string, struct{}]
	listings nested.Map[string, objref.Ref, struct{}]
	// shared are the objects that several Bindings list.
	shared map[objref.Ref]struct{}
	// at has the Bindings of the Placements of each destination. unplaced are those that list
	// objects and have no Placement, or a provisional one: they may deliver anywhere.
	at       nested.Map[string, string, struct{}]
	unplaced map[string]struct{}
	// sources are by the UIDs of all Bindings that exist; see SourceOf.
	sources map[types.UID]string
	// withPackages is the number of Bindings with packages. Where nobody uses packages, all
	// Bindings have one source.
	withPackages int
}

// Indexes of the informer on Bindings: by their destinations, and by the UID of their policy.
const (
	byDestination = "destination"
	byPolicy      = "policy"
)

// Indexers are those that the informer on Bindings needs.
func Indexers() cache.Indexers {
	return cache.Indexers{byDestination: func(obj any) ([]string, error) {
		binding, ok := obj.(*controlv1alpha1.Binding)
		if !ok {
			return nil, fmt.Errorf("the informer holds a %T", obj)
		}
		clusters := make([]string, len(binding.Spec.Destinations))
		for i, d := range binding.Spec.Destinations {
			clusters[i] = d.ClusterID
		}
		return clusters, nil
	}, byPolicy: func(obj any) ([]string, error) {
		if binding, ok := obj.(*controlv1alpha1.Binding); ok && policyOf(binding) != "" {
			return []string{string(policyOf(binding))}, nil
		}
		return nil, nil
	}}
}

// NewIndex returns an empty Index. bindings is the store of the informer on Bindings, which has the
// Indexers.
func NewIndex(bindings cache.Indexer) *Index {
	return &Index{
		bindings:   bindings,
		placements: map[string]*Placement{},
		shared:     map[objref.Ref]struct{}{},
		unplaced:   map[string]struct{}{},
		sources:    map[types.UID]string{},
	}
}

// Binding returns a Binding from the informer, nil if it does not exist. It must not be changed.
func (x *Index) Binding(name string) (*controlv1alpha1.Binding, error) {
	obj, exists, err := x.bindings.GetByKey(name)
	if err != nil || !exists {
		return nil, err
	}
	binding, ok := obj.(*controlv1alpha1.Binding)
	if !ok {
		return nil, fmt.Errorf("the informer holds a %T", obj)
	}
	return binding, nil
}

// Bindings returns all Bindings that the informer holds, in no order. They must not be changed.
func (x *Index) Bindings() []*controlv1alpha1.Binding { return bindingsOf(x.bindings.List()) }

// BindingsAt returns those of the Bindings that the informer holds that have this destination, in
// no order. They must not be changed.
func (x *Index) BindingsAt(destination string) []*controlv1alpha1.Binding {
	objs, err := x.bindings.ByIndex(byDestination, destination)
	if err != nil {
		panic(err) // there is no such index
	}
	return bindingsOf(objs)
}

// Beside returns the Bindings of a policy but for one, in no order: a policy that lists too much
// for one Binding has several. They must not be changed.
func (x *Index) Beside(policy types.UID, but string) []*controlv1alpha1.Binding {
	objs, err := x.bindings.ByIndex(byPolicy, string(policy))
	if err != nil {
		panic(err) // there is no such index
	}
	return slices.DeleteFunc(bindingsOf(objs), func(b *controlv1alpha1.Binding) bool { return b.Name == but })
}

func bindingsOf(objs []any) []*controlv1alpha1.Binding {
	found := make([]*controlv1alpha1.Binding, 0, len(objs))
	for _, obj := range objs {
		if binding, ok := obj.(*controlv1alpha1.Binding); ok {
			found = append(found, binding)
		}
	}
	return found
}

// Get returns the Placement of a Binding, nil if it is not known.
func (x *Index) Get(name string) *Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.placements[name]
}

// All returns all Placements, in no order.
func (x *Index) All() []*Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.placements))
}

// Listing returns the names of the Bindings that list an object, in no order.
func (x *Index) Listing(ref objref.Ref) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.listed[ref]))
}

// NoteBinding records that a Binding was created (before is nil), changed, or deleted (after is
// nil).
func (x *Index) NoteBinding(before, after *controlv1alpha1.Binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	set := func(uid types.UID, source string) {
		x.withPackages += int(Step(x.sources[uid] != "", source != ""))
		x.sources[uid] = source
	}
	if before != nil && (after == nil || before.UID != after.UID) {
		set(before.UID, "")
		delete(x.sources, before.UID)
	}
	if after != nil {
		set(after.UID, SourceOf(after))
	}
}

// List records that a Binding lists these objects.
func (x *Index) List(name string, objects iter.Seq[objref.Ref]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for ref := range objects {
		x.listed.Set(ref, name, struct{}{})
		x.listings.Set(name, ref, struct{}{})
		if len(x.listed[ref]) > 1 {
			x.shared[ref] = struct{}{}
		}
	}
	x.locate(name, x.placements[name], x.placements[name])
}

// locate records where a Binding may deliver, when its Placement changes. Either may be nil. The
// lock is held.
func (x *Index) locate(name string, before, after *Placement) {
	if before != after {
		for d := range cmp.Or(before, &Placement{}).Destinations {
			x.at.Delete(d, name)
		}
		for d := range cmp.Or(after, &Placement{}).Destinations {
			x.at.Set(d, name, struct{}{})
		}
	}
	if len(x.listings[name]) > 0 && (after == nil || after.Provisional) {
		x.unplaced[name] = struct{}{}
	} else {
		delete(x.unplaced, name)
	}
}

// Unplace forgets all Placements, and returns how many there were. The Bindings list their objects
// still, and may deliver them anywhere.
func (x *Index) Unplace() (count int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	count = len(x.placements)
	for name, p := range x.placements {
		delete(x.placements, name)
		x.locate(name, p, nil)
	}
	return count
}

// Publication is what follows from publishing a Placement.
type Publication struct {
	// Before is the Placement until then, nil if there was none.
	Before *Placement
	// Unlisted are the objects that no Binding lists any more.
	Unlisted map[objref.Ref]bool
}

// Publish makes p the Placement of a Binding; nil removes it. Objects that are listed, but are not
// in p, are listed no more.
func (x *Index) Publish(name string, p *Placement) Publication {
	x.mu.Lock()
	defer x.mu.Unlock()
	done := Publication{Before: x.placements[name], Unlisted: map[objref.Ref]bool{}}
	if p == nil {
		delete(x.placements, name)
		p = &Placement{}
	} else {
		x.placements[name] = p
	}
	for ref := range x.listings[name] {
		if _, still := p.Objects[ref]; still {
			continue
		}
		x.listings.Delete(name, ref)
		x.listed.Delete(ref, name)
		switch len(x.listed[ref]) {
		case 0:
			done.Unlisted[ref] = true
		case 1:
			delete(x.shared, ref)
		}
	}
	x.locate(name, done.Before, x.placements[name])
	return done
}
