package mailboxes

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/logging"
)

// Config is what a Store is made of. The functions that receive changes are called one after the
// other, by the goroutine that reads, and must not block.
type Config[T any] struct {
	// WDS is the WDS whose reports count.
	WDS    types.UID
	Limits Limits
	// Reduce returns what is kept of a WorkStatus. It must not keep the WorkStatus itself.
	Reduce func(*controlv1alpha1.WorkStatus) Kept[T]
	// Changed receives what is kept of a WorkStatus: before is nil if it was added, after if it is
	// not kept any more.
	Changed func(before, after *T)
	// Listed is called when everything was listed, after the changes.
	Listed func()
	// Partial, if set, receives whether only a part of a cluster is kept: before the first change
	// that follows from it, and after the last one.
	Partial func(cluster string, partial bool)
	// NotServed, if set, is called when the ITS answers that it does not serve WorkStatuses.
	NotServed func()
}

// Store has what is kept of the WorkStatuses of one ITS: of those that count, and within the
// limits. It is a cache.ReflectorStore, and safe for concurrent use.
//
// WorkStatuses beyond the limits are refused: they are counted, and not kept. From then on what is
// kept of the cluster is a part, and whether there is a report that is not kept is unknown. That
// ends when a list finds nothing to refuse, at most once in refillPeriod: a cluster that goes
// beyond the limits and back all the time costs its readers no more.
type Store[T any] struct {
	config Config[T]
	// refill receives a value when another list could find more reports of a cluster.
	refill chan struct{}

	mu       sync.Mutex
	synced   bool
	clusters map[string]*mailbox[T]
}

var _ cache.ReflectorStore = &Store[int]{}

// New returns an empty Store.
func New[T any](config Config[T]) *Store[T] {
	if config.Partial == nil {
		config.Partial = func(string, bool) {}
	}
	if config.NotServed == nil {
		config.NotServed = func() {}
	}
	return &Store[T]{config: config, refill: make(chan struct{}, 1), clusters: map[string]*mailbox[T]{}}
}

// Get returns what is kept of the report of the cluster on the object, or nil; then known reports
// whether it is certain that there is none. It costs an index lookup and a hash.
func (s *Store[T]) Get(ref objref.Ref, cluster string) (value *T, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box := s.clusters[cluster]
	if box == nil {
		return nil, s.synced
	}
	value = box.reports[corestatus.ReportName(ref)].value
	return value, value != nil || s.synced && !box.partial
}

// HasSynced reports whether all WorkStatuses that existed at the start were read.
func (s *Store[T]) HasSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// Of returns what is kept of a cluster, in no order.
func (s *Store[T]) Of(cluster string) []*T {
	s.mu.Lock()
	defer s.mu.Unlock()
	box := s.clusters[cluster]
	if box == nil {
		return nil
	}
	values := make([]*T, 0, len(box.reports))
	for _, report := range box.reports {
		values = append(values, report.value)
	}
	return values
}

// Summary describes the mailbox of a cluster.
type Summary struct {
	// Kept and Refused are numbers of WorkStatuses.
	Kept, Refused int
	// Last is when the status of one that was kept last changed.
	Last time.Time
}

// Values returns what value returns of each mailbox that has WorkStatuses, and for which it has a
// value.
func (s *Store[T]) Values(value func(cluster string, box Summary) (float64, bool)) map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := map[string]float64{}
	for cluster, box := range s.clusters {
		if v, ok := value(cluster, Summary{Kept: len(box.reports), Refused: box.refused, Last: box.last}); ok {
			values[cluster] = v
		}
	}
	return values
}

// Refused returns the number of WorkStatuses of each cluster that are refused, of those that have
// some.
func (s *Store[T]) Refused() map[string]float64 {
	return s.Values(func(_ string, box Summary) (float64, bool) { return float64(box.Refused), box.Refused > 0 })
}

// Add implements cache.ReflectorStore.
func (s *Store[T]) Add(obj any) error {
	if ws, ok := obj.(*controlv1alpha1.WorkStatus); ok {
		s.set(ws, true)
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (s *Store[T]) Update(obj any) error {
	if ws, ok := obj.(*controlv1alpha1.WorkStatus); ok {
		s.set(ws, false)
	}
	return nil
}

// set adds or updates a WorkStatus. One that was neither kept nor is new was refused before.
func (s *Store[T]) set(ws *controlv1alpha1.WorkStatus, added bool) {
	kept := s.config.reduce(ws)
	s.mu.Lock()
	b := boxOf(s.clusters, ws.Namespace)
	wasPartial := b.partial
	if _, known := b.reports[ws.Name]; !known && !added {
		b.drop(ws, &s.config)
	}
	before, after := b.put(ws, kept, s.config.Limits)
	s.signal(b)
	s.log(ws.Namespace, b)
	isPartial := b.partial
	s.mu.Unlock()
	if isPartial && !wasPartial {
		s.config.Partial(ws.Namespace, true)
	}
	s.notify(before, after)
}

// Delete implements cache.ReflectorStore.
func (s *Store[T]) Delete(obj any) error {
	ws, ok := obj.(*controlv1alpha1.WorkStatus)
	if !ok {
		return nil
	}
	s.mu.Lock()
	b := boxOf(s.clusters, ws.Namespace)
	before := b.take(ws.Name)
	if before.value == nil {
		b.drop(ws, &s.config)
	}
	s.signal(b)
	if len(b.reports)+b.refused == 0 && !b.partial {
		delete(s.clusters, ws.Namespace) // for example when the cluster was detached
	}
	s.mu.Unlock()
	s.notify(before, entry[T]{})
	return nil
}

// Replace implements cache.ReflectorStore. Each object is a listing, or a WorkStatus.
func (s *Store[T]) Replace(objects []any, _ string) error {
	after := map[string]*mailbox[T]{}
	for _, obj := range objects {
		switch o := obj.(type) {
		case *listing[T]:
			after = o.clusters
		case *controlv1alpha1.WorkStatus:
			boxOf(after, o.Namespace).put(o, s.config.reduce(o), s.config.Limits)
		}
	}
	s.mu.Lock()
	before := s.clusters
	s.clusters, s.synced = after, true
	for cluster, b := range after {
		b.logged = before[cluster] != nil && before[cluster].logged
		s.log(cluster, b)
	}
	s.mu.Unlock()
	// Only the goroutine that reads changes mailboxes, so that they can be compared here.
	for cluster, b := range after {
		if b.partial && (before[cluster] == nil || !before[cluster].partial) {
			s.config.Partial(cluster, true)
		}
	}
	s.compare(before, after)
	for cluster, b := range before {
		if b.partial && (after[cluster] == nil || !after[cluster].partial) {
			s.config.Partial(cluster, false)
		}
	}
	s.config.Listed()
	return nil
}

// compare notifies of what differs between mailboxes.
func (s *Store[T]) compare(before, after map[string]*mailbox[T]) {
	for cluster, b := range after {
		for name, report := range b.reports {
			var old entry[T]
			if before[cluster] != nil {
				old = before[cluster].reports[name]
			}
			s.notify(old, report)
		}
	}
	for cluster, b := range before {
		for name, old := range b.reports {
			if after[cluster] == nil || after[cluster].reports[name].value == nil {
				s.notify(old, entry[T]{})
			}
		}
	}
}

// Resync implements cache.ReflectorStore.
func (s *Store[T]) Resync() error { return nil }

// signal requests a list if it could find more. The caller holds the mutex.
func (s *Store[T]) signal(b *mailbox[T]) {
	if !b.worthListing(s.config.Limits) {
		return
	}
	select {
	case s.refill <- struct{}{}:
	default: // requested already
	}
}

func (s *Store[T]) notify(before, after entry[T]) {
	if before.value == nil && after.value == nil || before.value != nil && after.value != nil && before.version == after.version {
		return
	}
	s.config.Changed(before.value, after.value)
}

// log logs once that reports of a cluster are refused. The caller holds the mutex.
func (s *Store[T]) log(cluster string, b *mailbox[T]) {
	if b.refused == 0 || b.logged {
		return
	}
	b.logged = true
	klog.Background().Info("A mailbox has more WorkStatuses than are read of one cluster; those beyond are ignored",
		logging.Cluster, cluster, "maxReports", s.config.Limits.Reports, "maxBytes", s.config.Limits.Bytes)
}
