package binding

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

const (
	// betweenSets is the least time between two writes of the Bindings of a policy. Changes are
	// collected meanwhile.
	betweenSets = 100 * time.Millisecond
	// betweenVersions is the same if only versions of objects changed: nothing waits for those.
	betweenVersions = time.Second
)

// memory is what one sync leaves for later ones, by policy. It is safe for concurrent use.
type memory struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// specs are the policies as the index has them.
	specs   map[string]spec
	results map[string]remembered
	// wrote is when a Binding of the policy was written last.
	wrote map[string]time.Time
	// deleted are the Bindings that were deleted, by their names: a cache may still show them
	// without a deletion timestamp.
	deleted map[string]types.UID
	// waiters has the policies that wait for the Bindings of a policy; waitsFor is the same from
	// their side.
	waiters  map[string]map[string]bool
	waitsFor map[string][]string
	// events counts what happened to policies that others may wait for; touched has when that was
	// last, by that count.
	events  uint64
	touched map[string]uint64
	// syncing are the policies of which a sync is running. interested are those that would have
	// needed to know its result.
	syncing    map[string]bool
	interested map[string]map[string]bool
}

// remembered is what the last sync of a policy found.
type remembered struct {
	// upToDate identifies a state in which the Bindings were as they should be, so that another
	// sync needs no computation.
	upToDate string
	// allowed is a loss that was allowed and may be half written. Several Bindings are not written
	// at once, and the rest of the change must not be blocked again.
	allowed       *corebinding.Loss
	missingSince  time.Time
	retainedSince map[objref.Ref]time.Time
}

// spec is a policy that the index has.
type spec struct {
	version versionOf
	// at is the count of events when the index had it.
	at       uint64
	compiled *match.Policy // nil if the policy is invalid or being deleted
	invalid  []string
}

// versionOf distinguishes states of one policy.
type versionOf struct {
	uid        string
	generation int64
	deleting   bool
}

func versionOfPolicy(p metav1.Object) versionOf {
	return versionOf{uid: string(p.GetUID()), generation: p.GetGeneration(), deleting: p.GetDeletionTimestamp() != nil}
}

func newMemory(c clock.PassiveClock) *memory {
	return &memory{
		clock: c, specs: map[string]spec{}, results: map[string]remembered{}, wrote: map[string]time.Time{}, deleted: map[string]types.UID{},
		waiters: map[string]map[string]bool{}, waitsFor: map[string][]string{}, touched: map[string]uint64{},
		syncing: map[string]bool{}, interested: map[string]map[string]bool{},
	}
}

// stateOf identifies a state of a policy's selection and of its Bindings.
func stateOf(revision uint64, bindings []*controlv1alpha1.Binding) string {
	var state strings.Builder
	fmt.Fprintf(&state, "%d", revision)
	for _, b := range bindings {
		fmt.Fprintf(&state, " %s %d", b.UID, b.Generation)
	}
	return state.String()
}

func (m *memory) spec(name string) (spec, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.specs[name]
	return known, ok
}

func (m *memory) setSpec(name string, s spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events++
	s.at = m.events
	m.specs[name] = s
}

// unseen returns which of the policies, as the API server has them, the index did not have yet at
// that count of events. Those that are being deleted select nothing.
func (m *memory) unseen(policies map[string]versionOf, events uint64) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name, version := range policies {
		if known := m.specs[name]; !version.deleting && (known.version != version || known.at > events) {
			names = append(names, name)
		}
	}
	return names
}

// isReached reports whether another policy than that one could select objects of the resource.
func (m *memory) isReached(gr schema.GroupResource, but string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.specs {
		if name != but && s.compiled != nil && s.compiled.Reaches(gr) {
			return true
		}
	}
	return false
}

func (m *memory) of(name string) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results[name]
}

func (m *memory) update(name string, change func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.results[name]
	change(&r)
	m.results[name] = r
}

// allow remembers a loss that is allowed and about to be written; nil for no more.
func (m *memory) allow(name string, loss *corebinding.Loss) {
	m.update(name, func(r *remembered) {
		if loss == nil || r.allowed == nil || !loss.Within(r.allowed) {
			r.allowed = loss
		}
	})
}

func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.specs, name)
	delete(m.results, name)
	delete(m.wrote, name)
	m.wait(name, nil)
}

// setWrote notes that a Binding of the policy was written now.
func (m *memory) setWrote(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrote[name] = m.clock.Now()
}

// until returns how long a change of the policy's Bindings must wait, so that it is betweenSets or
// betweenVersions after the last one; 0 after a quiet time.
func (m *memory) until(name string, between time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.wrote[name]
	if !ok {
		return 0
	}
	return max(0, between-m.clock.Since(last))
}

func (m *memory) wasDeleted(b *controlv1alpha1.Binding) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deleted[b.Name] == b.UID
}

func (m *memory) setDeleted(name string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uid == "" {
		delete(m.deleted, name)
	} else {
		m.deleted[name] = uid
	}
}

// begin says that a sync of the policy begins.
func (m *memory) begin(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncing[name] = true
}

// end says that the sync of the policy has ended. It returns the policies that were interested in
// it.
func (m *memory) end(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.syncing, name)
	interested := m.interested[name]
	delete(m.interested, name)
	return slices.Collect(maps.Keys(interested))
}

// isSyncing reports whether a sync of the policy is running.
func (m *memory) isSyncing(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.syncing[name]
}

// now returns the count of events.
func (m *memory) now() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events
}

// touch notes that a policy, what it selects or its Bindings changed. It returns the policies that
// wait for it.
func (m *memory) touch(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events++
	m.touched[name] = m.events
	return slices.Collect(maps.Keys(m.waiters[name]))
}

// waitFor stores for which policies one waits, and in the end of which syncs it is interested. It
// reports whether something of that happened since it was gathered.
func (m *memory) waitFor(name string, others, syncing []string, gathered uint64) (happened bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wait(name, others)
	for _, other := range others {
		happened = happened || m.touched[other] > gathered
	}
	for _, other := range syncing {
		if !m.syncing[other] {
			happened = true
			continue
		}
		addTo(m.interested, other, name)
	}
	return happened
}

func (m *memory) wait(name string, others []string) {
	for _, other := range m.waitsFor[name] {
		delete(m.waiters[other], name)
		if len(m.waiters[other]) == 0 {
			delete(m.waiters, other)
		}
	}
	delete(m.waitsFor, name)
	if len(others) == 0 {
		return
	}
	m.waitsFor[name] = others
	for _, other := range others {
		addTo(m.waiters, other, name)
	}
}

func addTo(sets map[string]map[string]bool, of, name string) {
	if sets[of] == nil {
		sets[of] = map[string]bool{}
	}
	sets[of][name] = true
}
