package agent

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// ownership is the relation of Starling to an object.
type ownership int

const (
	// foreign: no work delivers it, or only works that are known not to be Starling's.
	foreign ownership = iota
	// unknown: works hold it that were not observed in the mailbox, and none of Starling's delivers
	// it.
	unknown
	// ours: a work of Starling delivers it.
	ours
)

// holding is an object in the index.
type holding struct {
	ref       objref.Ref
	ownership ownership
	// labels are those of the object's WorkStatus, and wdses its AnnotationWDSUIDs; set if
	// ownership is ours.
	labels map[string]string
	wdses  string
}

// index joins the AppliedManifestWorks of the WEC with the ManifestWorks of the mailbox: which
// works hold which objects. It is safe for concurrent use. Methods that change it return the names
// of the affected WorkStatuses.
type index struct {
	excluded corestatus.Excluded

	mu sync.RWMutex
	// works are the ManifestWorks of the mailbox by name.
	works map[string]work
	// applied are the AppliedManifestWorks by name.
	applied map[string]applied
	// objects are the objects that are held, and names their WorkStatuses.
	objects map[objref.Ref]*heldObject
	names   map[string]objref.Ref
}

type (
	work struct {
		// labels are those that WorkStatuses get; empty if the work is not Starling's.
		labels map[string]string
		// claims are objects that the work does not deliver. The cluster lists them nevertheless.
		claims  corestatus.Claims
		created metav1.Time
	}
	applied struct {
		work string
		// versions are the objects that it holds, with the version through which each was applied.
		versions map[objref.Ref]string
		// abandoned: OCM's agent did not find the ManifestWork on the hub, and is about to delete
		// the objects.
		abandoned bool
	}
	heldObject struct {
		name string
		// by are the names of the AppliedManifestWorks that hold it; never empty.
		by map[string]struct{}
	}
)

func newIndex(excluded corestatus.Excluded) *index {
	return &index{
		excluded: excluded,
		works:    map[string]work{}, applied: map[string]applied{},
		objects: map[objref.Ref]*heldObject{}, names: map[string]objref.Ref{},
	}
}

// setWork adds or updates a ManifestWork of the mailbox.
func (x *index) setWork(obj metav1.Object) []string {
	w := work{created: obj.GetCreationTimestamp(), claims: corestatus.Claims(obj.GetAnnotations()[controlv1alpha1.AnnotationClaims])}
	if _, isOurs := obj.GetLabels()[controlv1alpha1.LabelWDSUID]; isOurs {
		w.labels = pick(obj.GetLabels(), copiedLabels)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if before, ok := x.works[obj.GetName()]; ok && maps.Equal(before.labels, w.labels) && before.claims == w.claims && before.created.Equal(&w.created) {
		return nil
	}
	x.works[obj.GetName()] = w
	return x.heldThrough(obj.GetName())
}

// deleteWork removes a deleted ManifestWork.
func (x *index) deleteWork(name string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.works, name)
	return x.heldThrough(name)
}

// setApplied adds or updates an AppliedManifestWork.
func (x *index) setApplied(obj *workv1.AppliedManifestWork) []string {
	now := applied{
		work: obj.Spec.ManifestWorkName, versions: map[objref.Ref]string{}, abandoned: obj.Status.EvictionStartTime != nil,
	}
	for _, r := range obj.Status.AppliedResources {
		ref := objref.Ref{Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}
		if r.Resource != "" && r.Version != "" && r.Name != "" && !x.excluded.Resource(ref.GroupResource()) {
			now.versions[ref] = r.Version
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.applied[obj.Name]
	x.applied[obj.Name] = now
	var changed []string
	for ref := range before.versions {
		if _, still := now.versions[ref]; !still {
			changed = append(changed, x.release(obj.Name, ref))
		}
	}
	for ref, version := range now.versions {
		switch was, already := before.versions[ref]; {
		case !already:
			changed = append(changed, x.hold(obj.Name, ref))
		case was != version:
			changed = append(changed, x.objects[ref].name) // it may have to be watched in another version
		}
	}
	return changed
}

// deleteApplied removes a deleted AppliedManifestWork.
func (x *index) deleteApplied(name string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var changed []string
	for ref := range x.applied[name].versions {
		changed = append(changed, x.release(name, ref))
	}
	delete(x.applied, name)
	return changed
}

// abandoned returns the number of works that the cluster still holds and the hub does not have.
func (x *index) abandoned() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := 0
	for _, a := range x.applied {
		if a.abandoned {
			n++
		}
	}
	return n
}

// lookup returns the object whose WorkStatus has that name; false if no work holds such an object.
func (x *index) lookup(name string) (holding, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ref, ok := x.names[name]
	if !ok {
		return holding{}, false
	}
	h := holding{ref: ref, ownership: foreign}
	var first work
	var wdses []string
	for by := range x.objects[ref].by {
		w, seen := x.works[x.applied[by].work]
		switch {
		case !seen && h.ownership == foreign:
			h.ownership = unknown
		case !seen || len(w.labels) == 0 || w.claims.Has(name):
		default:
			if h.ownership != ours || older(w, first) {
				h.ownership, first = ours, w
			}
			wdses = append(wdses, w.labels[controlv1alpha1.LabelWDSUID])
		}
	}
	h.labels = first.labels
	slices.Sort(wdses)
	if wdses = slices.Compact(wdses); len(wdses) > 1 {
		h.labels = maps.Clone(h.labels)
		h.labels[controlv1alpha1.LabelWDSUID] = controlv1alpha1.SeveralWDSes
		h.wdses = strings.Join(wdses, ",")
	}
	return h, true
}

// name returns the name of the WorkStatus of an object that is held.
func (x *index) name(ref objref.Ref) (string, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	o, ok := x.objects[ref]
	if !ok {
		return "", false
	}
	return o.name, true
}

// all returns the names of the WorkStatuses of all objects of a resource that works hold, or of all
// objects if it is empty.
func (x *index) all(gr schema.GroupResource) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var names []string
	for ref, o := range x.objects {
		if gr.Empty() || ref.GroupResource() == gr {
			names = append(names, o.name)
		}
	}
	return names
}

// wanted returns the resources of our objects, and of those that may be ours: their works were not
// observed, and objects of the resource are reported. Of several versions it returns the newest.
func (x *index) wanted(reported map[schema.GroupResource]struct{}) map[schema.GroupResource]dynamicinformer.Resource {
	x.mu.RLock()
	defer x.mu.RUnlock()
	resources := map[schema.GroupResource]dynamicinformer.Resource{}
	for _, a := range x.applied {
		w, seen := x.works[a.work]
		if seen && len(w.labels) == 0 {
			continue
		}
		for ref, v := range a.versions {
			gr := ref.GroupResource()
			if _, some := reported[gr]; !seen && !some {
				continue
			}
			if before, ok := resources[gr]; !ok || version.CompareKubeAwareVersionStrings(v, before.Version) > 0 {
				resources[gr] = dynamicinformer.Resource{GroupVersionResource: gr.WithVersion(v)}
			}
		}
	}
	return resources
}

func (x *index) heldThrough(workName string) []string {
	var names []string
	for _, a := range x.applied {
		if a.work == workName {
			for ref := range a.versions {
				names = append(names, x.objects[ref].name)
			}
		}
	}
	return names
}

func (x *index) hold(by string, ref objref.Ref) string {
	o := x.objects[ref]
	if o == nil {
		o = &heldObject{name: corestatus.ReportName(ref), by: map[string]struct{}{}}
		x.objects[ref] = o
		x.names[o.name] = ref
	}
	o.by[by] = struct{}{}
	return o.name
}

func (x *index) release(by string, ref objref.Ref) string {
	o := x.objects[ref]
	delete(o.by, by)
	if len(o.by) == 0 {
		delete(x.objects, ref)
		delete(x.names, o.name)
	}
	return o.name
}

// copiedLabels are the labels that a WorkStatus copies from its work.
var copiedLabels = []string{controlv1alpha1.LabelWDSUID, controlv1alpha1.LabelWDSName}

// older orders works, and those of one second by their labels, so that the same one is chosen every
// time.
func older(a, b work) bool {
	if !a.created.Equal(&b.created) {
		return a.created.Before(&b.created)
	}
	return slices.CompareFunc(copiedLabels, copiedLabels, func(key, _ string) int {
		return cmp.Compare(a.labels[key], b.labels[key])
	}) < 0
}
