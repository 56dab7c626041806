package packages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// places knows where revisions lie, as a watch on their metadata said last: what was created just now may be missing, and what was deleted
// may be there. Its events come in the order of writes, so when one is known, all before it are. To look costs what is found. It is safe for
// concurrent use.
type places struct {
	mu sync.Mutex
	// watching tells that all that there was when the watch began is known.
	watching  bool
	revisions map[types.NamespacedName]*place
	// at has the revisions by their labels withinLabel: those of the package apart from those inside of it, of which there may be many.
	at map[placeKey]map[*place]bool
	// awaited is closed when the revision of that UID is known. Who created it waits, and nobody else.
	awaited map[types.UID]chan struct{}
	// suspects may not be where they are, and found has a value when there is one.
	suspects map[types.NamespacedName]bool
	found    chan struct{}
}

func newPlaces() *places {
	p := &places{awaited: map[types.UID]chan struct{}{}, found: make(chan struct{}, 1)}
	p.clear()
	return p
}

// clear forgets what is known.
func (p *places) clear() {
	p.revisions, p.at, p.suspects = map[types.NamespacedName]*place{}, map[placeKey]map[*place]bool{}, map[types.NamespacedName]bool{}
}

// placeKey is a package of a repository, or what lies inside of it.
type placeKey struct {
	namespace, label string
	itself           bool
}

// place is where a revision lies.
type place struct {
	name types.NamespacedName
	uid  types.UID
	// since is the resourceVersion at which it was created; 0 if it was there before the watch.
	since uint64
	// clone tells that it was made as the first of its package.
	clone bool
	// untouched tells that nothing of its spec was written since it was created.
	untouched bool
	// outside tells that it lies in a repository outside, where packages may lie in each other.
	outside bool
	created metav1.Time
	// within are its labels withinLabel: true for the package itself.
	within map[string]bool
}

// neighbour is another revision of a package, or of one around or inside of it.
type neighbour struct {
	name string
	uid  types.UID
	// version and created are known if it was listed.
	version string
	created metav1.Time
}

var _ cache.ReflectorStore = (*places)(nil)

// Watch keeps what creations need to know of others, until the context ends. Without it, or before it knows all, each creation lists that.
func (s *Store) Watch(ctx context.Context) {
	all := s.metadata.Resource(storev1alpha1.PackageRevisions)
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return all.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(ctx, o)
		},
	}
	cache.NewReflectorWithOptions(lists, &metav1.PartialObjectMetadata{}, s.places, cache.ReflectorOptions{Name: "places of packages"}).RunWithContext(ctx)
}

func placeOf(obj any) (*place, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("no metadata: %T", obj)
	}
	p := &place{
		name: types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, uid: m.UID,
		untouched: m.Generation <= 1, created: m.CreationTimestamp, within: map[string]bool{},
	}
	_, p.clone = m.Labels[clonedLabel]
	_, p.outside = m.Labels[locatedLabel]
	for label, value := range m.Labels {
		if strings.HasPrefix(label, withinPrefix) {
			p.within[label] = value == itself
		}
	}
	return p, nil
}

// Add implements cache.ReflectorStore, for what was created.
func (p *places) Add(obj any) error {
	added, err := placeOf(obj)
	if err != nil {
		return err
	}
	m, _ := obj.(*metav1.PartialObjectMetadata)
	if added.since, err = strconv.ParseUint(m.ResourceVersion, 10, 64); err != nil {
		return fmt.Errorf("%s: resourceVersion: %w", added.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(added)
	return nil
}

// Update implements cache.ReflectorStore.
func (p *places) Update(obj any) error {
	updated, err := placeOf(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(updated)
	return nil
}

// Delete implements cache.ReflectorStore.
func (p *places) Delete(obj any) error {
	gone, err := placeOf(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(gone.name)
	return nil
}

// Replace implements cache.ReflectorStore.
func (p *places) Replace(list []any, _ string) error {
	there := make([]*place, len(list))
	for i := range list {
		var err error
		if there[i], err = placeOf(list[i]); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.revisions
	p.clear()
	for _, one := range there {
		if known := before[one.name]; known != nil && known.uid == one.uid {
			one.since = known.since
		}
		p.put(one)
	}
	// In any order: only now all that may be in each other's way is known.
	for _, one := range there {
		p.judge(one)
	}
	p.watching = true
	return nil
}

// Resync implements cache.ReflectorStore.
func (p *places) Resync() error { return nil }

func (p *places) set(one *place) {
	if known := p.revisions[one.name]; known != nil {
		if known.uid == one.uid {
			one.since = known.since
		}
		suspect := p.suspects[one.name] && known.uid == one.uid
		p.drop(one.name)
		if suspect {
			p.suspects[one.name] = true
		}
	}
	p.put(one)
	p.judge(one)
}

func (p *places) put(one *place) {
	p.revisions[one.name] = one
	for label, own := range one.within {
		key := placeKey{one.name.Namespace, label, own}
		if p.at[key] == nil {
			p.at[key] = map[*place]bool{}
		}
		p.at[key][one] = true
	}
	if known := p.awaited[one.uid]; known != nil {
		close(known)
		delete(p.awaited, one.uid)
	}
}

func (p *places) drop(name types.NamespacedName) {
	one := p.revisions[name]
	if one == nil {
		return
	}
	delete(p.revisions, name)
	delete(p.suspects, name)
	for label, own := range one.within {
		key := placeKey{name.Namespace, label, own}
		delete(p.at[key], one)
		if len(p.at[key]) == 0 {
			delete(p.at, key)
		}
	}
}

// judge suspects a revision if another is there that it may not be beside. Who created it looks too, so as a rule it is gone soon; but
// who created it may have ended.
func (p *places) judge(one *place) {
	if one.outside {
		return
	}
	before := func(other *place) bool {
		return other != one && (one.since == 0 || other.since < one.since) // one that came later was judged by this one
	}
	for label, own := range one.within {
		for other := range p.at[placeKey{one.name.Namespace, label, !own}] {
			if before(other) {
				p.suspect(one)
				return
			}
		}
		if !own || !one.clone || !one.untouched {
			continue // what somebody went on with is a package like any other
		}
		for other := range p.at[placeKey{one.name.Namespace, label, true}] {
			if before(other) && !one.created.Before(&other.created) {
				p.suspect(one)
				return
			}
		}
	}
}

func (p *places) suspect(one *place) {
	p.suspects[one.name] = true
	select {
	case p.found <- struct{}{}:
	default:
	}
}

// again suspects a revision once more, if it is still there.
func (p *places) again(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.revisions[name]; one != nil {
		p.suspect(one)
	}
}

// sinceOf returns since when two revisions are there; false if that is not known of both.
func (p *places) sinceOf(namespace, a, b string) (sinceA, sinceB uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, other := p.revisions[types.NamespacedName{Namespace: namespace, Name: a}], p.revisions[types.NamespacedName{Namespace: namespace, Name: b}]
	if one == nil || other == nil || one.since == 0 || other.since == 0 {
		return 0, 0, false
	}
	return one.since, other.since, true
}

// takeSuspects returns the suspects, which are forgotten.
func (p *places) takeSuspects() []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Collect(maps.Keys(p.suspects))
	clear(p.suspects)
	return out
}

// look returns the revisions of a package, or those inside of it, without those that were created after a resourceVersion. It is false
// if the watch has not begun.
func (p *places) look(key placeKey, until uint64) ([]neighbour, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []neighbour
	for one := range p.at[key] {
		if one.since <= until {
			out = append(out, neighbour{name: one.name.Name, uid: one.uid})
		}
	}
	return out, p.watching
}

// await waits until a revision that was created is known, so that all are that were created before. It is false if that takes too long.
func (p *places) await(ctx context.Context, name types.NamespacedName, uid types.UID, patience time.Duration) bool {
	p.mu.Lock()
	if !p.watching {
		p.mu.Unlock()
		return false
	}
	if one := p.revisions[name]; one != nil && one.uid == uid {
		p.mu.Unlock()
		return true
	}
	known := make(chan struct{})
	p.awaited[uid] = known
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
	delete(p.awaited, uid)
	return false
}
