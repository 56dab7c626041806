package statusreports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
)

// refused has the mailboxes that hold more than is read of one cluster.
var refused = metrics.NewClusterGauge("starling_status_reports_refused",
	"WorkStatuses in the mailbox of a cluster that are ignored, because it has more, or larger ones, than are read of one cluster.")

// lastReport has when clusters reported.
var lastReport = metrics.NewClusterGauge("starling_status_last_report_timestamp_seconds",
	"When a cluster last reported a status, in seconds since 1970, by the clock of the API server of its ITS.")

// Key identifies a report.
type Key struct {
	// Ref is the object.
	Ref objref.Ref
	// Cluster reports on it.
	Cluster string
}

// String names the report.
func (k Key) String() string { return k.Cluster + ": " + k.Ref.String() }

// Report is the report of a cluster on an object.
type Report struct {
	corestatus.Report
	// Updated is when its status last changed; for an object without one, when it was first
	// reported. It is the time of the API server of the ITS, in whole seconds, or zero if that does
	// not record it.
	Updated time.Time
	// Version changes with Status and Updated, and not with the rest of the WorkStatus: an agent
	// writes the generations of an edit before the status that observed it, and a reader of
	// statuses need not process the first of these writes.
	Version string
}

// Listener receives changes. It is called by the goroutine that reads an ITS, and must not block.
type Listener interface {
	// OnReport reports that a report was added, changed or deleted.
	OnReport(key Key)
	// OnReportsRead reports that one more ITS has synced.
	OnReportsRead()
}

// Clusters says which ITS has a cluster. *clusters.Reader is one. It does not block.
type Clusters interface {
	// Home returns the name of the ITS whose cluster the name stands for, if it is Accepted.
	Home(cluster string) (its string, state inventory.State)
	// OnChange adds a handler for the names of clusters that may have another home now, and for ""
	// when an ITS has synced.
	OnChange(handler func(cluster string))
}

// Reader holds the reports in all ITSes. It is safe for concurrent use.
//
// Only the mailbox in the ITS that has the cluster counts: another ITS may have a cluster of the
// same name, and its users must not report for this one.
type Reader struct {
	spaces    map[string]*mailboxes.Store[controlv1alpha1.WorkStatus]
	clients   map[string]*client.Client
	wds       types.UID
	clusters  Clusters
	listeners []Listener

	mu sync.Mutex
	// homes are the ITSes of clusters, as the listeners know them.
	homes map[string]string
}

// New returns a Reader of the reports on objects of one WDS. It reads nothing until Run. The
// clients are those of the ITSes, by the names that Clusters has for them.
func New(clients map[string]*client.Client, wds types.UID, clusters Clusters) (*Reader, error) {
	if len(clients) == 0 || wds == "" || clusters == nil {
		return nil, errors.New("reports: an ITS, the UID of the WDS and the clusters are required")
	}
	r := newReader(clusters)
	r.clients, r.wds = clients, wds
	for name := range clients {
		r.add(name, mailboxes.DefaultLimits())
	}
	return r, nil
}

func newReader(clusters Clusters) *Reader {
	return &Reader{spaces: map[string]*mailboxes.Store[controlv1alpha1.WorkStatus]{}, clusters: clusters, homes: map[string]string{}}
}

// add adds an ITS.
func (r *Reader) add(its string, limits mailboxes.Limits) *mailboxes.Store[controlv1alpha1.WorkStatus] {
	r.spaces[its] = mailboxes.New(mailboxes.Config[controlv1alpha1.WorkStatus]{WDS: r.wds, Limits: limits, Reduce: reduced, Changed: r.changed, Listed: r.read})
	return r.spaces[its]
}

// Run reads the ITSes until the context ends. The Listeners receive changes.
func (r *Reader) Run(ctx context.Context, listeners ...Listener) error {
	r.listeners = listeners
	r.clusters.OnChange(r.moved)
	defer lastReport.Add(r.lastReports)()
	defer refused.Add(r.refusals)()
	var running sync.WaitGroup
	for name, itsClient := range r.clients {
		running.Go(func() { r.spaces[name].Run(ctx, itsClient) })
	}
	running.Wait()
	return nil
}

// Ready returns an error that names the ITSes that have not synced, nil if all have.
func (r *Reader) Ready() error {
	var missing []string
	for name, its := range r.spaces {
		if !its.HasSynced() {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("not synced yet: WorkStatuses of %s", strings.Join(missing, ", "))
}

// Get returns the report of the cluster on the object with that UID, or nil; then known reports
// whether it is certain that there is none. It decodes the status, which the caller owns.
func (r *Reader) Get(ref objref.Ref, uid types.UID, cluster string) (report *Report, known bool) {
	ws, known := r.find(ref, uid, cluster)
	if ws == nil {
		return nil, known
	}
	read, err := Read(ws)
	if err != nil {
		return nil, false
	}
	return &Report{Report: *read, Updated: updated(ws), Version: versionOf(ws)}, true
}

// Read returns what a WorkStatus reports. The error says that its status is no object.
func Read(ws *controlv1alpha1.WorkStatus) (*corestatus.Report, error) {
	report := &corestatus.Report{Source: SourceOf(ws), Gone: IsGone(ws)}
	if n, err := strconv.ParseInt(ws.Annotations[controlv1alpha1.AnnotationGeneration], 10, 64); err == nil {
		report.Generation = max(0, n)
	}
	if raw := ws.Status; raw != nil && len(raw.Raw) > 0 {
		// Numbers become int64 where they can, as in objects that are read from an API server.
		if err := json.Unmarshal(raw.Raw, &report.Status); err != nil {
			return nil, fmt.Errorf("read status of WorkStatus %q: %w", ws.Name, err)
		}
	}
	return report, nil
}

// Version returns the Version of the report that Get would return, "" for none. It costs an index
// lookup and a hash.
func (r *Reader) Version(ref objref.Ref, uid types.UID, cluster string) (version string, known bool) {
	ws, known := r.find(ref, uid, cluster)
	if ws == nil {
		return "", known
	}
	return versionOf(ws), true
}

func versionOf(ws *controlv1alpha1.WorkStatus) string {
	sum := fnv.New64a()
	if ws.Status != nil {
		_, _ = sum.Write(ws.Status.Raw) // a hash takes everything
	}
	return string(ws.UID) + "/" + strconv.FormatInt(updated(ws).Unix(), 36) + "/" + strconv.FormatUint(sum.Sum64(), 36)
}

// find returns the WorkStatus about the copy of the object with that UID. One about a former object
// of that name, or about a copy that is gone, says that there is no such copy.
func (r *Reader) find(ref objref.Ref, uid types.UID, cluster string) (ws *controlv1alpha1.WorkStatus, known bool) {
	home, state := r.clusters.Home(cluster)
	if state != inventory.Accepted {
		return nil, state != inventory.Unknown
	}
	its := r.spaces[home]
	if its == nil {
		return nil, false // no such ITS: cannot be
	}
	ws, known = its.Get(ref, cluster)
	if ws != nil && (IsGone(ws) || !corestatus.IsOf(SourceOf(ws).UID, uid)) {
		return nil, true
	}
	return ws, known
}

// IsGone reports whether a WorkStatus says that the cluster has no copy of the object any more.
func IsGone(ws *controlv1alpha1.WorkStatus) bool {
	return ws.Annotations[controlv1alpha1.AnnotationGone] == "true"
}

// SourceOf returns of which object a WorkStatus is, and of which content.
func SourceOf(ws *controlv1alpha1.WorkStatus) corestatus.Source {
	source, _ := corestatus.ParseSource(ws.Annotations[controlv1alpha1.AnnotationSourceGeneration])
	return source
}

// changed notifies of a WorkStatus that was added (before is nil), changed or deleted (after is
// nil).
func (r *Reader) changed(before, after *controlv1alpha1.WorkStatus) {
	key := keyOf(cmp.Or(after, before)) // its name follows from it, so that both have the same
	for _, listener := range r.listeners {
		listener.OnReport(key)
	}
}

// read notifies of an ITS that was read.
func (r *Reader) read() {
	for _, listener := range r.listeners {
		listener.OnReportsRead()
	}
}

// moved notifies of all reports on a cluster that another ITS has now.
func (r *Reader) moved(cluster string) {
	if cluster == "" {
		r.read()
		return
	}
	home, _ := r.clusters.Home(cluster)
	r.mu.Lock()
	same := r.homes[cluster] == home
	if home == "" {
		delete(r.homes, cluster)
	} else {
		r.homes[cluster] = home
	}
	r.mu.Unlock()
	if same {
		return
	}
	for _, its := range r.spaces {
		for _, ws := range its.Of(cluster) {
			r.changed(nil, ws)
		}
	}
	r.read() // an object that was not reported may be known not to be reported now
}

// lastReports returns when each cluster last reported, in seconds since 1970.
func (r *Reader) lastReports() map[string]float64 {
	return r.values(func(box mailboxes.Summary) (float64, bool) { return float64(box.Last.Unix()), box.Kept > 0 })
}

// refusals returns how many WorkStatuses of each cluster are ignored, of those that have some.
func (r *Reader) refusals() map[string]float64 {
	return r.values(func(box mailboxes.Summary) (float64, bool) { return float64(box.Refused), box.Refused > 0 })
}

// values returns a value of each cluster, of the mailbox in its ITS.
func (r *Reader) values(value func(mailboxes.Summary) (float64, bool)) map[string]float64 {
	values := map[string]float64{}
	for name, its := range r.spaces {
		maps.Copy(values, its.Values(func(cluster string, box mailboxes.Summary) (float64, bool) {
			if home, state := r.clusters.Home(cluster); state != inventory.Accepted || home != name {
				return 0, false
			}
			return value(box)
		}))
	}
	return values
}

func keyOf(ws *controlv1alpha1.WorkStatus) Key {
	return Key{Ref: mailboxes.RefOf(ws), Cluster: ws.Namespace}
}
