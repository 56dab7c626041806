package reports

import (
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/logging"
)

// byKey is the index of WorkStatuses by the object that they are about and their cluster.
const byKey = "key"

// syncPoll is how often a starting informer is asked whether its handler has seen everything.
const syncPoll = 10 * time.Millisecond

// Key identifies a report.
type Key struct {
	// Ref is the object.
	Ref objref.Ref
	// Cluster reports on it.
	Cluster string
}

// String names the report.
func (k Key) String() string { return k.Cluster + ": " + k.Ref.String() }

// Report is what a cluster says of an object.
type Report struct {
	corestatus.Report
	// Updated is when its status last changed; for an object without one, when it was first reported. The API server of the
	// ITS keeps it, in whole seconds. Zero if it does not tell.
	Updated time.Time
	// Version changes with Status and Updated, and not with what else the WorkStatus says: an agent writes the generations of an
	// edit before the status that observed it, and the first is no news to whoever reads statuses.
	Version string
}

// Listener is told of what was read. It is called by the goroutine that reads an inventory, and must not block.
type Listener interface {
	// OnReport says that the report came, went or changed.
	OnReport(key Key)
	// OnReportsRead says that one more inventory was read whole.
	OnReportsRead()
}

// Reader holds the reports of all inventories. It is safe for concurrent use.
type Reader struct {
	inventories map[string]inventory
	listeners   []Listener
	activity    *activity
}

type inventory struct {
	informer   cache.SharedIndexInformer
	registered cache.ResourceEventHandlerRegistration
}

// New returns a Reader of the reports on objects of one WDS, that reads nothing until Run. The clients lead to the ITSes, by name.
func New(clients map[string]*client.Client, wds types.UID) (*Reader, error) {
	if len(clients) == 0 || wds == "" {
		return nil, errors.New("reports: an ITS and the UID of the WDS are required")
	}
	r := &Reader{inventories: map[string]inventory{}, activity: newActivity()}
	selector := labels.SelectorFromSet(labels.Set{controlv1alpha1.LabelWDSUID: string(wds)}).String()
	for name, itsClient := range clients {
		informer, err := client.NewInformer(selected{itsClient, selector}, &controlv1alpha1.WorkStatus{}, cache.Indexers{byKey: keyIndex})
		if err != nil {
			return nil, fmt.Errorf("build informer for WorkStatuses of %s: %w", name, err)
		}
		if err := informer.SetTransform(reduce); err != nil {
			return nil, fmt.Errorf("build informer for WorkStatuses of %s: %w", name, err)
		}
		registered, err := informer.AddEventHandler(handler(r.changed))
		if err != nil {
			return nil, fmt.Errorf("watch WorkStatuses of %s: %w", name, err)
		}
		if _, err := informer.AddEventHandler(r.activity.handler()); err != nil {
			return nil, fmt.Errorf("watch WorkStatuses of %s: %w", name, err)
		}
		r.inventories[name] = inventory{informer: informer, registered: registered}
	}
	return r, nil
}

// AddListener has another be told. Call it before Run.
func (r *Reader) AddListener(listener Listener) { r.listeners = append(r.listeners, listener) }

// Run reads the inventories until the context ends.
func (r *Reader) Run(ctx context.Context) error {
	defer lastReport.Add(r.activity.values)()
	var running sync.WaitGroup
	for name, its := range r.inventories {
		running.Go(func() { its.informer.RunWithContext(ctx) })
		running.Go(func() {
			if wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) {
				return its.registered.HasSynced(), nil
			}) == nil {
				klog.FromContext(ctx).V(2).Info("Read WorkStatuses", logging.Space, name)
				for _, listener := range r.listeners {
					listener.OnReportsRead()
				}
			}
		})
	}
	running.Wait()
	return nil
}

// Ready tells which inventories were not read yet, nil if none.
func (r *Reader) Ready() error {
	if missing := r.unsynced(); len(missing) > 0 {
		return fmt.Errorf("WorkStatuses of %s not read yet", strings.Join(missing, ", "))
	}
	return nil
}

// complete tells whether all inventories were read whole. It is asked for each report, and makes nothing.
func (r *Reader) complete() bool {
	for _, its := range r.inventories {
		if !its.registered.HasSynced() {
			return false
		}
	}
	return true
}

// unsynced returns the names of the inventories that were not read whole yet, sorted.
func (r *Reader) unsynced() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.inventories)) {
		if !r.inventories[name].registered.HasSynced() {
			names = append(names, name)
		}
	}
	return names
}

// Get returns what the cluster says of the object, as core/status.Evidence wants it: nil for nothing, and then known tells
// whether it is sure that there is nothing. It decodes the status, which is the caller's.
func (r *Reader) Get(ref objref.Ref, cluster string) (report *Report, known bool) {
	ws, known := r.find(ref, cluster)
	if ws == nil {
		return nil, known
	}
	report = &Report{Updated: updated(ws), Version: versionOf(ws)}
	report.Generation = generationOf(ws)
	report.Source, _ = corestatus.ParseSource(ws.Annotations[controlv1alpha1.AnnotationSourceGeneration])
	if raw := ws.Status; raw != nil && len(raw.Raw) > 0 {
		// Numbers become int64 where they can, as in objects that are read from an API server.
		if err := json.Unmarshal(raw.Raw, &report.Status); err != nil {
			return nil, false
		}
	}
	return report, true
}

// Version returns the Version of the report that Get would return, "" for none. It costs a look at an index, and a hash.
func (r *Reader) Version(ref objref.Ref, cluster string) (version string, known bool) {
	ws, known := r.find(ref, cluster)
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

func (r *Reader) find(ref objref.Ref, cluster string) (ws *controlv1alpha1.WorkStatus, known bool) {
	// Asked before the index is: what has synced by now is in the index below.
	complete := r.complete()
	var found []*controlv1alpha1.WorkStatus
	for _, its := range r.inventories {
		items, err := its.informer.GetIndexer().ByIndex(byKey, Key{ref, cluster}.String())
		if err != nil {
			return nil, false // no such index: cannot be
		}
		for _, item := range items {
			if ws, ok := item.(*controlv1alpha1.WorkStatus); ok {
				found = append(found, ws)
			}
		}
	}
	if len(found) > 1 {
		// Somebody wrote another one by hand, until the agent removes it: the agent's counts.
		name := corestatus.ReportName(ref)
		found = slices.DeleteFunc(found, func(ws *controlv1alpha1.WorkStatus) bool { return ws.Name != name })
		if len(found) != 1 {
			return nil, false // two inventories have a cluster of this name
		}
	}
	if len(found) == 0 {
		return nil, complete
	}
	return found[0], true
}

func (r *Reader) changed(key Key) {
	for _, listener := range r.listeners {
		listener.OnReport(key)
	}
}

// handler tells of the reports that changed.
func handler(changed func(Key)) cache.ResourceEventHandler {
	tell := func(obj any) (Key, bool) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		ws, ok := obj.(*controlv1alpha1.WorkStatus)
		if !ok {
			return Key{}, false
		}
		key := keyOf(ws)
		changed(key)
		return key, true
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(obj) },
		DeleteFunc: func(obj any) { tell(obj) },
		UpdateFunc: func(before, after any) {
			old, okOld := before.(*controlv1alpha1.WorkStatus)
			current, okCurrent := after.(*controlv1alpha1.WorkStatus)
			if !okOld || !okCurrent || old.ResourceVersion == current.ResourceVersion {
				return
			}
			if key, ok := tell(after); ok && keyOf(old) != key {
				tell(before) // it is about another object now
			}
		},
	}
}

func keyIndex(obj any) ([]string, error) {
	ws, ok := obj.(*controlv1alpha1.WorkStatus)
	if !ok {
		return nil, fmt.Errorf("index %T", obj)
	}
	return []string{keyOf(ws).String()}, nil
}

func keyOf(ws *controlv1alpha1.WorkStatus) Key {
	source := ws.Spec.SourceRef
	return Key{
		Ref:     objref.Ref{Group: source.Group, Resource: source.Resource, Namespace: source.Namespace, Name: source.Name},
		Cluster: ws.Namespace,
	}
}

// selected reads the WorkStatuses with certain labels, of all mailboxes.
type selected struct {
	client   *client.Client
	selector string
}

// List implements what an informer needs.
func (s selected) List(ctx context.Context, options metav1.ListOptions) (*controlv1alpha1.WorkStatusList, error) {
	options.LabelSelector = s.selector
	return s.client.WorkStatuses(metav1.NamespaceAll).List(ctx, options)
}

// Watch implements what an informer needs.
func (s selected) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = s.selector
	return s.client.WorkStatuses(metav1.NamespaceAll).Watch(ctx, options)
}
