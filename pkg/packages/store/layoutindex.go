package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// layoutIndex is an index of the paths of all packages. A watch on metadata fills it: a revision
// that was created just now may be missing, and a deleted one may still be present. Events arrive
// in the order of writes. When a revision is in the index, all earlier ones are too. A lookup costs
// as much as its result. It is safe for concurrent use.
type layoutIndex struct {
	mu sync.Mutex
	// synced is true when the first list of the watch was received.
	synced    bool
	revisions map[types.NamespacedName]*layoutEntry
	// byLabel has the revisions by their labels withinLabel. Revisions of the package itself have
	// another key than those of packages within it, of which there may be many.
	byLabel map[layoutKey]map[*layoutEntry]bool
	// waiters has channels that are closed when the revision with that UID arrives. Only the
	// request that created it waits.
	waiters map[types.UID]chan struct{}
	// suspects are revisions that may conflict with others. The channel suspected has a value if
	// there is one.
	suspects  map[types.NamespacedName]bool
	suspected chan struct{}
}

func newLayoutIndex() *layoutIndex {
	p := &layoutIndex{waiters: map[types.UID]chan struct{}{}, suspected: make(chan struct{}, 1)}
	p.clear()
	return p
}

// clear removes all entries.
func (p *layoutIndex) clear() {
	p.revisions, p.byLabel, p.suspects = map[types.NamespacedName]*layoutEntry{}, map[layoutKey]map[*layoutEntry]bool{}, map[types.NamespacedName]bool{}
}

// layoutKey is a package path in a repository, or (if self is false) all packages within that path.
type layoutKey struct {
	namespace, label string
	self             bool
}

// layoutEntry is a revision in the index.
type layoutEntry struct {
	name types.NamespacedName
	uid  types.UID
	// createdVersion is the resourceVersion at which it was created, or 0 if it existed before the
	// watch.
	createdVersion uint64
	// clone is true if it was created as the first revision of its package.
	clone bool
	// unmodified is true if its spec was not written since it was created.
	unmodified bool
	// external is true if it was imported. In git, packages may be within each other.
	external bool
	created  metav1.Time
	// within has its labels withinLabel; the value is true for the package itself.
	within map[string]bool
}

// neighbour is another revision of the same package, or of a package around or within it.
type neighbour struct {
	name string
	uid  types.UID
	// version and created are set if the revision was listed.
	version string
	created metav1.Time
}

var _ cache.ReflectorStore = (*layoutIndex)(nil)

func layoutEntryOf(obj any) (*layoutEntry, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T, want metadata", obj)
	}
	p := &layoutEntry{
		name: types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, uid: m.UID,
		unmodified: m.Generation <= 1, created: m.CreationTimestamp, within: map[string]bool{},
	}
	_, p.clone = m.Labels[clonedLabel]
	_, p.external = m.Labels[lockLabel]
	for label, value := range m.Labels {
		if strings.HasPrefix(label, withinPrefix) {
			p.within[label] = value == selfValue
		}
	}
	return p, nil
}

// Add implements cache.ReflectorStore. It is called for revisions that were created during the
// watch.
func (p *layoutIndex) Add(obj any) error { return p.observe(obj, true) }

// Update implements cache.ReflectorStore.
func (p *layoutIndex) Update(obj any) error { return p.observe(obj, false) }

func (p *layoutIndex) observe(obj any, created bool) error {
	one, err := layoutEntryOf(obj)
	if err != nil {
		return err
	}
	if created {
		m, _ := obj.(*metav1.PartialObjectMetadata)
		if one.createdVersion, err = strconv.ParseUint(m.ResourceVersion, 10, 64); err != nil {
			return fmt.Errorf("%s: resourceVersion: %w", one.name, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upsert(one)
	return nil
}

// Delete implements cache.ReflectorStore.
func (p *layoutIndex) Delete(obj any) error {
	gone, err := layoutEntryOf(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(gone.name)
	return nil
}

// Replace implements cache.ReflectorStore.
func (p *layoutIndex) Replace(list []any, _ string) error {
	there := make([]*layoutEntry, len(list))
	for i := range list {
		var err error
		if there[i], err = layoutEntryOf(list[i]); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.revisions
	p.clear()
	for _, one := range there {
		if known := before[one.name]; known != nil && known.uid == one.uid {
			one.createdVersion = known.createdVersion
		}
		p.insert(one)
	}
	// Entries are evaluated only after all were inserted, because their order is arbitrary.
	for _, one := range there {
		p.evaluate(one)
	}
	p.synced = true
	return nil
}

// Resync implements cache.ReflectorStore.
func (p *layoutIndex) Resync() error { return nil }

func (p *layoutIndex) upsert(one *layoutEntry) {
	if known := p.revisions[one.name]; known != nil {
		if known.uid == one.uid {
			one.createdVersion = known.createdVersion
		}
		suspect := p.suspects[one.name] && known.uid == one.uid
		p.remove(one.name)
		if suspect {
			p.suspects[one.name] = true
		}
	}
	p.insert(one)
	p.evaluate(one)
}

func (p *layoutIndex) insert(one *layoutEntry) {
	p.revisions[one.name] = one
	for label, own := range one.within {
		key := layoutKey{one.name.Namespace, label, own}
		if p.byLabel[key] == nil {
			p.byLabel[key] = map[*layoutEntry]bool{}
		}
		p.byLabel[key][one] = true
	}
	if known := p.waiters[one.uid]; known != nil {
		close(known)
		delete(p.waiters, one.uid)
	}
}

func (p *layoutIndex) remove(name types.NamespacedName) {
	one := p.revisions[name]
	if one == nil {
		return
	}
	delete(p.revisions, name)
	delete(p.suspects, name)
	for label, own := range one.within {
		key := layoutKey{name.Namespace, label, own}
		delete(p.byLabel[key], one)
		if len(p.byLabel[key]) == 0 {
			delete(p.byLabel, key)
		}
	}
}

// evaluate suspects a revision that conflicts with another one. The request that created it checks
// that too and usually deletes it soon, but the request may have ended early.
func (p *layoutIndex) evaluate(one *layoutEntry) {
	if one.external {
		return
	}
	before := func(other *layoutEntry) bool {
		return other != one && (one.createdVersion == 0 || other.createdVersion < one.createdVersion) // a later one was evaluated when it arrived
	}
	for label, own := range one.within {
		for other := range p.byLabel[layoutKey{one.name.Namespace, label, !own}] {
			if before(other) {
				p.suspect(one)
				return
			}
		}
		if !own || !one.clone || !one.unmodified {
			continue // an edited draft is a package like any other
		}
		for other := range p.byLabel[layoutKey{one.name.Namespace, label, true}] {
			if before(other) && !one.created.Before(&other.created) {
				p.suspect(one)
				return
			}
		}
	}
}

func (p *layoutIndex) suspect(one *layoutEntry) {
	p.suspects[one.name] = true
	select {
	case p.suspected <- struct{}{}:
	default:
	}
}

// suspectAgain suspects a revision once more if it still exists.
func (p *layoutIndex) suspectAgain(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.revisions[name]; one != nil {
		p.suspect(one)
	}
}

// creationVersions returns the resourceVersions at which two revisions were created. It returns
// false if one of them is unknown.
func (p *layoutIndex) creationVersions(namespace, a, b string) (sinceA, sinceB uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, other := p.revisions[types.NamespacedName{Namespace: namespace, Name: a}], p.revisions[types.NamespacedName{Namespace: namespace, Name: b}]
	if one == nil || other == nil || one.createdVersion == 0 || other.createdVersion == 0 {
		return 0, 0, false
	}
	return one.createdVersion, other.createdVersion, true
}

// takeSuspects returns the suspects, sorted, and removes them from the set.
func (p *layoutIndex) takeSuspects() []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.SortedFunc(maps.Keys(p.suspects), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	clear(p.suspects)
	return out
}

// find returns the revisions of a package, or those of packages within it, except revisions created
// after a resourceVersion. It returns false if the index has not synced.
func (p *layoutIndex) find(key layoutKey, until uint64) ([]neighbour, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []neighbour
	for one := range p.byLabel[key] {
		if one.createdVersion <= until {
			out = append(out, neighbour{name: one.name.Name, uid: one.uid})
		}
	}
	return out, p.synced
}

// waitFor blocks until a created revision is in the index. All revisions that were created before
// are then in it as well. It returns false after the timeout.
func (p *layoutIndex) waitFor(ctx context.Context, name types.NamespacedName, uid types.UID, patience time.Duration) bool {
	p.mu.Lock()
	if !p.synced {
		p.mu.Unlock()
		return false
	}
	if one := p.revisions[name]; one != nil && one.uid == uid {
		p.mu.Unlock()
		return true
	}
	known := make(chan struct{})
	p.waiters[uid] = known
	p.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-known:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, uid)
	return false
}
