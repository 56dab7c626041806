package transport

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// store holds what a Plugin told of its space: works by Binding and mailbox, and destinations. It is safe for concurrent use.
type store struct {
	mu           sync.RWMutex
	synced       bool
	works        map[types.UID]map[string]mailbox // ours
	at           map[string]map[types.UID]int     // how many works of each Binding are in a mailbox
	foreign      map[string]*others               // those of other WDSes, by mailbox
	destinations map[string]Destination
}

// mailbox is the works of one Binding in one mailbox, by name.
type mailbox map[string]*plan.Work

func newStore() *store {
	return &store{works: map[types.UID]map[string]mailbox{}, at: map[string]map[types.UID]int{}, foreign: map[string]*others{}, destinations: map[string]Destination{}}
}

func (s *store) setSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
}

func (s *store) hasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// setWork replaces before by after. A work that was edited to belong to another Binding, or WDS, leaves its old place.
func (s *store) setWork(before, after *plan.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before != nil && before.Foreign != (plan.WDS{}) {
		s.setForeign(before.Mailbox, before.Name, nil)
	} else if before != nil {
		mailboxes := s.works[before.BindingUID]
		if _, there := mailboxes[before.Mailbox][before.Name]; there {
			s.count(before.Mailbox, before.BindingUID, -1)
		}
		delete(mailboxes[before.Mailbox], before.Name)
		if len(mailboxes[before.Mailbox]) == 0 {
			delete(mailboxes, before.Mailbox)
		}
		if len(mailboxes) == 0 {
			delete(s.works, before.BindingUID)
		}
	}
	if after == nil {
		return
	}
	if after.Foreign != (plan.WDS{}) {
		s.setForeign(after.Mailbox, after.Name, after)
		return
	}
	mailboxes := s.works[after.BindingUID]
	if mailboxes == nil {
		mailboxes = map[string]mailbox{}
		s.works[after.BindingUID] = mailboxes
	}
	if mailboxes[after.Mailbox] == nil {
		mailboxes[after.Mailbox] = mailbox{}
	}
	if _, there := mailboxes[after.Mailbox][after.Name]; !there {
		s.count(after.Mailbox, after.BindingUID, 1)
	}
	mailboxes[after.Mailbox][after.Name] = after
}

// count counts the works of a Binding in a mailbox. The lock is held.
func (s *store) count(mailbox string, binding types.UID, change int) {
	if s.at[mailbox] == nil {
		s.at[mailbox] = map[types.UID]int{}
	}
	if s.at[mailbox][binding] += change; s.at[mailbox][binding] == 0 {
		delete(s.at[mailbox], binding)
	}
	if len(s.at[mailbox]) == 0 {
		delete(s.at, mailbox)
	}
}

// bindingsAt returns the UIDs of the Bindings that have works in a mailbox, in no order.
func (s *store) bindingsAt(mailbox string) []types.UID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.at[mailbox]))
}

// setDestination returns what the destination was before, nil if it was not known.
func (s *store) setDestination(name string, d *Destination) (before *Destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.destinations[name]; ok {
		before = &known
	}
	if d == nil {
		delete(s.destinations, name)
	} else {
		s.destinations[name] = *d
	}
	return before
}

func (s *store) destination(name string) (Destination, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.destinations[name]
	return d, ok
}

// of returns the works of a Binding in one mailbox, in no order.
func (s *store) of(binding types.UID, name string) []*plan.Work {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.works[binding][name]))
}

// mailboxes returns the names of the mailboxes that hold works of a Binding, in no order.
func (s *store) mailboxes(binding types.UID) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.works[binding]))
}

// has tells whether the mailbox holds works of the Binding.
func (s *store) has(binding types.UID, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.works[binding][name]) > 0
}

// bindings returns the UIDs of all Bindings that have works, in no order.
func (s *store) bindings() []types.UID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.works))
}

// example returns one of the works of a Binding, nil if it has none.
func (s *store) example(binding types.UID) *plan.Work {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, works := range s.works[binding] {
		for _, work := range works {
			return work
		}
	}
	return nil
}

// expectations remember our own writes until the Plugin has told of them: until then a plan would be made on what is no more.
// Writing on it would do no harm, since writes are guarded; it would only fail.
type expectations struct {
	mu      sync.Mutex
	pending map[Key]map[string]expectation // by name of the work
}

type expectation struct {
	uid        types.UID
	generation int64
	nudges     int
	verb       plan.Verb
	until      time.Time
}

// patience is how long an expectation is waited for. A watch that lost an event, or is that late, heals by itself; meanwhile
// a guarded write on an old view is better than none.
const patience = 10 * time.Second

func (e *expectations) expect(key Key, a *plan.Action, r Receipt, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending == nil {
		e.pending = map[Key]map[string]expectation{}
	}
	if e.pending[key] == nil {
		e.pending[key] = map[string]expectation{}
	}
	e.pending[key][a.Name] = expectation{
		uid: r.UID, generation: r.Generation, nudges: a.Nudges, verb: a.Verb, until: now.Add(patience),
	}
}

// unmet tells whether some write of ours is not seen in these works yet. It forgets what was seen.
func (e *expectations) unmet(key Key, works []*plan.Work, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	pending := e.pending[key]
	maps.DeleteFunc(pending, func(name string, want expectation) bool {
		if now.After(want.until) {
			return true
		}
		i := slices.IndexFunc(works, func(w *plan.Work) bool { return w.Name == name })
		switch {
		case i < 0:
			return want.verb != plan.Create // what is gone will not change any more; what was created is still to be seen
		case want.verb == plan.Delete:
			return works[i].Deleting
		}
		return works[i].UID != want.uid || works[i].Generation >= want.generation && works[i].Nudges >= want.nudges
	})
	if len(pending) == 0 {
		delete(e.pending, key)
	}
	return len(pending) > 0
}

// writings remember the last write to each work, to tell an edit by somebody else from a space that changes what is written:
// an admission webhook, say. The first is put right; the second would be put right for ever.
type writings struct {
	mu   sync.Mutex
	last map[types.UID]writing
}

// writing is a write and what it came to.
type writing struct {
	generation int64
	recorded   transform.Hash
	// after sums up what the work was to hold, with the options.
	after uint64
}

func (w *writings) note(r Receipt, a *plan.Action) {
	if r.Recorded == (transform.Hash{}) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.UID]writing{}
	}
	w.last[r.UID] = writing{generation: r.Generation, recorded: r.Recorded, after: sum(a.After)}
}

func (w *writings) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, uid)
}

// sift takes out the actions that would write once more what was written to that very generation of a work, and says so.
func (w *writings) sift(actions []plan.Action) (kept []plan.Action, texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept = slices.DeleteFunc(actions, func(a plan.Action) bool {
		last, ok := w.last[a.UID]
		futile := ok && a.Verb == plan.Patch && a.Reason == plan.ReasonRepair &&
			last.generation == a.Generation && last.recorded == a.Recorded && last.after == sum(a.After)
		if futile {
			texts = append(texts, "work "+a.Name+": the space changes what is written to it")
		}
		return futile
	})
	return kept, texts
}

// sum sums up what a work holds after a write.
func sum(entries []plan.Entry) uint64 {
	h := fnv.New64a()
	for i := range entries {
		e := &entries[i]
		_, _ = h.Write(e.Hash[:])
		_, _ = fmt.Fprint(h, e.Ref, e.Options)
	}
	return h.Sum64()
}
