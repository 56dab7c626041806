package statusreports

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/logging"
)

// Bounds of what is kept of one cluster. Who may write into one mailbox must not be able to use up
// the memory that the reports of all clusters share. Ten thousand objects with a status of 6 KiB
// reach neither.
const (
	maxReports = 20_000
	maxBytes   = 64 << 20
)

// limits bound what is kept of one cluster.
type limits struct{ reports, bytes int }

// mailboxes are the WorkStatuses of one ITS, as far as they count and within the limits. It is the
// store of a reflector, and safe for concurrent use.
//
// WorkStatuses beyond the limits are refused: they are counted, and not kept. As long as a mailbox
// has some, whether it has a report that is not kept is unknown.
type mailboxes struct {
	limits limits
	// changed receives each WorkStatus that was added (before is nil), changed or deleted (after is
	// nil), replaced one replacement of everything, after its changes. They must not block.
	changed  func(before, after *controlv1alpha1.WorkStatus)
	replaced func()
	// refill receives a value when a mailbox with refused WorkStatuses has room again.
	refill chan struct{}

	mu       sync.Mutex
	synced   bool
	clusters map[string]*mailbox
	// listed are the mailboxes of the list that is about to replace all.
	listed map[string]*mailbox
}

// mailbox is what is kept of one cluster.
type mailbox struct {
	reports map[string]*controlv1alpha1.WorkStatus
	bytes   int
	refused int
	// last is when the status of a report last changed.
	last time.Time
	// logged reports whether it was logged that reports are refused.
	logged bool
}

var _ cache.ReflectorStore = &mailboxes{}

func newMailboxes(limits limits, changed func(before, after *controlv1alpha1.WorkStatus), replaced func()) *mailboxes {
	return &mailboxes{
		limits: limits, changed: changed, replaced: replaced, refill: make(chan struct{}, 1), clusters: map[string]*mailbox{},
	}
}

// get returns the report of the cluster on the object, or nil; then known reports whether it is
// certain that there is none.
func (m *mailboxes) get(ref objref.Ref, cluster string) (ws *controlv1alpha1.WorkStatus, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	box := m.clusters[cluster]
	if box == nil {
		return nil, m.synced
	}
	ws = box.reports[corestatus.ReportName(ref)]
	return ws, ws != nil || m.synced && box.refused == 0
}

// hasSynced reports whether all WorkStatuses that existed at the start were read.
func (m *mailboxes) hasSynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// of returns the reports of a cluster.
func (m *mailboxes) of(cluster string) []*controlv1alpha1.WorkStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	box := m.clusters[cluster]
	if box == nil {
		return nil
	}
	reports := make([]*controlv1alpha1.WorkStatus, 0, len(box.reports))
	for _, ws := range box.reports {
		reports = append(reports, ws)
	}
	return reports
}

// values returns what value returns of each mailbox that holds or refuses reports, and for which
// it has a value.
func (m *mailboxes) values(value func(cluster string, box *mailbox) (float64, bool)) map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := map[string]float64{}
	for cluster, box := range m.clusters {
		if v, ok := value(cluster, box); ok {
			values[cluster] = v
		}
	}
	return values
}

// counts reports whether a WorkStatus is a report: agents name it after its object. Another one
// with our labels was written by somebody else, and the agent deletes it.
func counts(ws *controlv1alpha1.WorkStatus) bool {
	return ws.Name == corestatus.ReportName(keyOf(ws).Ref)
}

// sizeOf returns about how many bytes of memory a reduced WorkStatus takes beside a constant.
func sizeOf(ws *controlv1alpha1.WorkStatus) int {
	source := ws.Spec.SourceRef
	size := len(source.Group) + len(source.Version) + len(source.Resource) + len(source.Kind) + len(source.Namespace) + 2*len(source.Name)
	for _, value := range ws.Annotations {
		size += len(value)
	}
	if ws.Status != nil {
		size += len(ws.Status.Raw)
	}
	return size
}

// put adds or updates a reduced WorkStatus. It returns the one that was kept before, and whether
// the new one is kept.
func (b *mailbox) put(ws *controlv1alpha1.WorkStatus, limits limits) (before *controlv1alpha1.WorkStatus, kept bool) {
	before = b.take(ws.Name)
	if !counts(ws) {
		return before, false
	}
	size := sizeOf(ws)
	if len(b.reports) >= limits.reports || b.bytes+size > limits.bytes {
		b.refused++
		return before, false
	}
	b.reports[ws.Name] = ws
	b.bytes += size
	if at := updated(ws); b.last.Before(at) {
		b.last = at
	}
	return before, true
}

// take removes a WorkStatus, and returns it; nil if it is not kept.
func (b *mailbox) take(name string) *controlv1alpha1.WorkStatus {
	before := b.reports[name]
	if before != nil {
		delete(b.reports, name)
		b.bytes -= sizeOf(before)
	}
	return before
}

// hasRoom reports whether the mailbox refused reports, and has room for a part of them.
func (b *mailbox) hasRoom(limits limits) bool {
	const part = 10
	return b.refused > 0 && len(b.reports) <= limits.reports-limits.reports/part && b.bytes <= limits.bytes-limits.bytes/part
}

// box returns the mailbox of a cluster in a map, to which it is added.
func box(in map[string]*mailbox, cluster string) *mailbox {
	b := in[cluster]
	if b == nil {
		b = &mailbox{reports: map[string]*controlv1alpha1.WorkStatus{}}
		in[cluster] = b
	}
	return b
}

// Add implements cache.ReflectorStore.
func (m *mailboxes) Add(obj any) error { return m.set(obj, true) }

// Update implements cache.ReflectorStore.
func (m *mailboxes) Update(obj any) error { return m.set(obj, false) }

// set adds or updates a WorkStatus. One that was neither kept nor is new was refused before.
func (m *mailboxes) set(obj any, added bool) error {
	ws := reduced(obj)
	if ws == nil {
		return nil
	}
	m.mu.Lock()
	b := box(m.clusters, ws.Namespace)
	wasRefused := b.refused > 0
	before, kept := b.put(ws, m.limits)
	if before == nil && !added && wasRefused && counts(ws) {
		b.refused--
	}
	m.signal(b)
	m.log(ws.Namespace, b)
	m.mu.Unlock()
	if !kept {
		ws = nil
	}
	m.notify(before, ws)
	return nil
}

// Delete implements cache.ReflectorStore.
func (m *mailboxes) Delete(obj any) error {
	ws := reduced(obj)
	if ws == nil {
		return nil
	}
	m.mu.Lock()
	b := box(m.clusters, ws.Namespace)
	before := b.take(ws.Name)
	if before == nil && b.refused > 0 && counts(ws) {
		b.refused--
	}
	m.signal(b)
	if len(b.reports)+b.refused == 0 {
		delete(m.clusters, ws.Namespace) // for example when the cluster was detached
	}
	m.mu.Unlock()
	m.notify(before, nil)
	return nil
}

// list collects one page of a list that Replace will be called for. What is beyond the limits is
// not returned: so a list needs no more memory than what is kept.
func (m *mailboxes) list(page []controlv1alpha1.WorkStatus, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first {
		m.listed = map[string]*mailbox{}
	}
	for i := range page {
		ws := reduced(&page[i])
		box(m.listed, ws.Namespace).put(ws, m.limits)
	}
}

// Replace implements cache.ReflectorStore. It uses what list collected.
func (m *mailboxes) Replace([]any, string) error {
	m.mu.Lock()
	before, after := m.clusters, m.listed
	m.clusters, m.listed, m.synced = after, nil, true
	for cluster, b := range after {
		b.logged = before[cluster] != nil && before[cluster].logged
		m.log(cluster, b)
	}
	m.mu.Unlock()
	for cluster, b := range after {
		for name, ws := range b.reports {
			var old *controlv1alpha1.WorkStatus
			if before[cluster] != nil {
				old = before[cluster].reports[name]
			}
			m.notify(old, ws)
		}
	}
	for cluster, b := range before {
		for name, old := range b.reports {
			if after[cluster] == nil || after[cluster].reports[name] == nil {
				m.notify(old, nil)
			}
		}
	}
	m.replaced()
	return nil
}

// Resync implements cache.ReflectorStore.
func (m *mailboxes) Resync() error { return nil }

// signal requests a list if the mailbox has room again. The caller holds the mutex.
func (m *mailboxes) signal(b *mailbox) {
	if !b.hasRoom(m.limits) {
		return
	}
	select {
	case m.refill <- struct{}{}:
	default: // requested already
	}
}

func (m *mailboxes) notify(before, after *controlv1alpha1.WorkStatus) {
	if before == nil && after == nil || before != nil && after != nil && before.ResourceVersion == after.ResourceVersion {
		return
	}
	m.changed(before, after)
}

// log logs once that reports of a cluster are refused. The caller holds the mutex.
func (m *mailboxes) log(cluster string, b *mailbox) {
	if b.refused == 0 || b.logged {
		return
	}
	b.logged = true
	klog.Background().Info("A mailbox has more WorkStatuses than are read of one cluster; those beyond are ignored",
		logging.Cluster, cluster, "maxReports", m.limits.reports, "maxBytes", m.limits.bytes)
}
