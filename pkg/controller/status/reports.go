package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// byObject is the index of WorkStatuses by the object that they are about.
const byObject = "object"

// syncPoll is how often a starting informer is asked whether its handler has seen everything.
const syncPoll = 10 * time.Millisecond

// reports are what the clusters of all inventories say of the objects of one WDS, by object and cluster. Each inventory is
// read for itself: one that cannot be reached leaves the others alone.
type reports struct {
	inventories map[string]inventory
}

type inventory struct {
	informer   cache.SharedIndexInformer
	registered cache.ResourceEventHandlerRegistration
}

func newReports(clients map[string]*client.Client, wds types.UID, changed func(objref.Ref)) (*reports, error) {
	r := &reports{inventories: map[string]inventory{}}
	selector := labels.SelectorFromSet(labels.Set{controlv1alpha1.LabelWDSUID: string(wds)}).String()
	for name, itsClient := range clients {
		informer, err := client.NewInformer(selected{itsClient, selector}, &controlv1alpha1.WorkStatus{}, cache.Indexers{byObject: objectIndex})
		if err != nil {
			return nil, fmt.Errorf("build informer for WorkStatuses of %s: %w", name, err)
		}
		registered, err := informer.AddEventHandler(handler(changed))
		if err != nil {
			return nil, fmt.Errorf("watch WorkStatuses of %s: %w", name, err)
		}
		r.inventories[name] = inventory{informer: informer, registered: registered}
	}
	return r, nil
}

// run reads the inventories until the context ends, and calls synced each time that one of them was read whole.
func (r *reports) run(ctx context.Context, synced func()) {
	var running sync.WaitGroup
	for name, its := range r.inventories {
		running.Go(func() { its.informer.RunWithContext(ctx) })
		running.Go(func() {
			if wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) {
				return its.registered.HasSynced(), nil
			}) == nil {
				klog.FromContext(ctx).V(2).Info("Read WorkStatuses", logging.Space, name)
				synced()
			}
		})
	}
	running.Wait()
}

// unsynced returns the names of the inventories that were not read whole yet, sorted.
func (r *reports) unsynced() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.inventories)) {
		if !r.inventories[name].registered.HasSynced() {
			names = append(names, name)
		}
	}
	return names
}

// get returns what the cluster says of the object, as core/status.Evidence wants it.
func (r *reports) get(ref objref.Ref, cluster string) (*corestatus.Report, bool) {
	// Asked before the index is: what has synced by now is in the index below.
	complete := len(r.unsynced()) == 0
	var found []*controlv1alpha1.WorkStatus
	for _, its := range r.inventories {
		items, err := its.informer.GetIndexer().ByIndex(byObject, ref.String())
		if err != nil {
			return nil, false // no such index: cannot be
		}
		for _, item := range items {
			if ws, ok := item.(*controlv1alpha1.WorkStatus); ok && ws.Namespace == cluster {
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
	report := &corestatus.Report{}
	if raw := found[0].Status; raw != nil && len(raw.Raw) > 0 {
		// Numbers become int64 where they can, as in objects that are read from an API server.
		if err := json.Unmarshal(raw.Raw, &report.Status); err != nil {
			return nil, false
		}
	}
	return report, true
}

// handler tells of the objects whose reports changed.
func handler(changed func(objref.Ref)) cache.ResourceEventHandler {
	tell := func(obj any) (objref.Ref, bool) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		ws, ok := obj.(*controlv1alpha1.WorkStatus)
		if !ok {
			return objref.Ref{}, false
		}
		ref := refOf(ws)
		changed(ref)
		return ref, true
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
			if ref, ok := tell(after); ok && refOf(old) != ref {
				tell(before) // it is about another object now
			}
		},
	}
}

func objectIndex(obj any) ([]string, error) {
	ws, ok := obj.(*controlv1alpha1.WorkStatus)
	if !ok {
		return nil, fmt.Errorf("index %T", obj)
	}
	return []string{refOf(ws).String()}, nil
}

func refOf(ws *controlv1alpha1.WorkStatus) objref.Ref {
	source := ws.Spec.SourceRef
	return objref.Ref{Group: source.Group, Resource: source.Resource, Namespace: source.Namespace, Name: source.Name}
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
