package works

import (
	"slices"
	"strconv"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Read returns a ManifestWork as a plan.Work of our WDS. A work that was edited by hand beyond
// recognition is read as far as possible: what differs from what was recorded is corrected.
func Read(work *workv1.ManifestWork, texts *Manifests) *plan.Work {
	w := &plan.Work{
		Mailbox:         one(work.Namespace),
		Name:            work.Name,
		UID:             work.UID,
		ResourceVersion: work.ResourceVersion,
		Generation:      work.Generation,
		Created:         work.CreationTimestamp.Unix(),
		BindingUID:      types.UID(one(work.Labels[controlv1alpha1.LabelBindingUID])),
		Binding:         one(work.Annotations[controlv1alpha1.AnnotationBinding]),
		Wave:            packing.WaveSecond,
		Begun:           slices.Contains(work.Finalizers, workv1.ManifestWorkFinalizer),
		Deleting:        work.DeletionTimestamp != nil,
		Restored:        one(work.Annotations[controlv1alpha1.AnnotationRestored]),
		Items:           make([]plan.Item, len(work.Spec.Workload.Manifests)),
	}
	if work.Labels[controlv1alpha1.LabelWave] == strconv.Itoa(packing.WaveFirst) {
		w.Wave = packing.WaveFirst
	}
	w.Nudges, _ = strconv.Atoi(work.Labels[controlv1alpha1.LabelNudge])
	w.Recorded, _ = transform.ParseHash(work.Annotations[controlv1alpha1.AnnotationContentHash])

	kinds := readKinds(work.Annotations[controlv1alpha1.AnnotationKinds])
	reports := readReports(work)
	complete := true
	for i := range work.Spec.Workload.Manifests {
		m := texts.read(work.Spec.Workload.Manifests[i].Raw)
		kind := m.kind.GroupKind()
		resource, ok := kinds[kind]
		if !ok {
			complete = false
			guess, _ := meta.UnsafeGuessKindToResource(m.kind)
			resource = guess.Resource
		}
		item := plan.Item{
			Ref:  objref.Ref{Group: kind.Group, Resource: one(resource), Namespace: m.namespace, Name: m.name},
			Kind: kind.Kind, Version: m.kind.Version,
			Source: m.source,
			Hash:   m.hash,
			Bare:   m.bare,
			Size:   m.size,
		}
		w.Items[i] = item
	}
	readOptions(work, w.Items)
	for i := range w.Items {
		item := &w.Items[i]
		item.Withdrawn = item.Observe && texts.read(work.Spec.Workload.Manifests[i].Raw).withdrawn
		reports.apply(item)
	}
	w.Listed = reports.rest()
	w.Behind = reports.unread
	w.Left = readLeft(work.Annotations[controlv1alpha1.AnnotationLeft], w.Listed, w.Behind)
	w.Actual = Hash(w.Items, &work.Spec)
	if w.Actual != w.Recorded {
		// Perhaps only the encoding differs from ours: then the content is the same.
		for i := range w.Items {
			if raw, err := transform.CanonicalJSON(work.Spec.Workload.Manifests[i].Raw); err == nil {
				w.Items[i].Hash = transform.HashOf(raw)
			}
		}
		w.Actual = Hash(w.Items, &work.Spec)
	}
	if !complete || w.Binding == "" {
		w.Recorded = transform.Hash{} // written again with the next delivery
	}
	w.Unmarked = work.Annotations[controlv1alpha1.AnnotationClaims] !=
		claims(w.Items, func(i *plan.Item) (objref.Ref, bool) { return i.Ref, i.Claim() })
	return w
}

// one returns a string equal to s that is shared by all equal strings: the same names are in every
// mailbox.
func one(s string) string { return unique.Make(s).Value() }

// readOptions reads the options of the objects from the rest of the spec.
func readOptions(work *workv1.ManifestWork, items []plan.Item) {
	var rules []workv1.OrphaningRule
	if d := work.Spec.DeleteOption; d != nil && d.SelectivelyOrphan != nil {
		rules = d.SelectivelyOrphan.OrphaningRules
	}
	strategies := map[objref.Ref]plan.Options{}
	for i := range work.Spec.ManifestConfigs {
		c := &work.Spec.ManifestConfigs[i]
		ref := refOf(c.ResourceIdentifier)
		if _, known := strategies[ref]; !known && c.UpdateStrategy != nil {
			strategies[ref] = stageOf(c.FeedbackRules, optionsOf(c.UpdateStrategy))
		}
	}
	orphans := make(map[objref.Ref]bool, len(rules))
	for i := range rules {
		orphans[refOf(workv1.ResourceIdentifier(rules[i]))] = true
	}
	for i := range items {
		item := &items[i]
		options, single := strategies[item.Ref]
		if !single {
			var usual bool
			if options, usual = strategies[objref.New(item.Ref.GroupResource(), all, all)]; !usual {
				options.Update = true // OCM's default
			}
		}
		options.Orphan = orphans[item.Ref]
		item.Options = options
		if options.Stage.Target != (transform.Hash{}) {
			item.Bare = options.Stage.Target
		}
	}
}

// reports is what the cluster reported last of the manifests of a work, at whatever generation.
type reports struct {
	work  *workv1.ManifestWork
	index map[reportKey]int // into the manifests that the cluster lists
	held  []bool            // which of those are still in the work
	from  int64             // the generation from which on they prove something
	// unread: the agent could not read all of the manifests; see plan.Item.Unread.
	unread bool
}

type reportKey struct {
	kind            schema.GroupKind
	namespace, name string
}

// MaxMessage bounds the error text of a cluster, in bytes.
const MaxMessage = 1024

func readReports(work *workv1.ManifestWork) *reports {
	manifests := work.Status.ResourceStatus.Manifests
	r := &reports{work: work, index: make(map[reportKey]int, len(manifests)), held: make([]bool, len(manifests))}
	r.from, _ = strconv.ParseInt(work.Annotations[controlv1alpha1.AnnotationReportsFrom], 10, 64)
	for i := range manifests {
		m := &manifests[i].ResourceMeta
		r.index[reportKey{schema.GroupKind{Group: m.Group, Kind: m.Kind}, m.Namespace, m.Name}] = i
		applied := meta.FindStatusCondition(manifests[i].Conditions, workv1.ManifestApplied)
		r.unread = r.unread || applied != nil && applied.Status != metav1.ConditionTrue && plan.UnreadFor(schema.GroupResource{Group: m.Group, Resource: m.Resource}, applied.Message) ||
			meta.IsStatusConditionPresentAndEqual(manifests[i].Conditions, workv1.ManifestAvailable, metav1.ConditionUnknown) // of an object that is only read
	}
	return r
}

// apply fills in what the cluster reported of an item.
func (r *reports) apply(item *plan.Item) {
	i, listed := r.index[reportKey{schema.GroupKind{Group: item.Ref.Group, Kind: item.Kind}, item.Ref.Namespace, item.Ref.Name}]
	if !listed {
		return
	}
	r.held[i] = true
	applied := meta.FindStatusCondition(r.work.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestApplied)
	if applied == nil {
		return
	}
	item.Seen = true
	if item.Stage.Begun {
		readObject(item, &r.work.Status.ResourceStatus.Manifests[i])
	}
	item.Reported = applied.ObservedGeneration >= r.from && (applied.Status == metav1.ConditionTrue || item.Withdrawn) && !r.unread
	switch {
	case applied.ObservedGeneration != r.work.Generation:
	case applied.Status == metav1.ConditionTrue:
		item.State = plan.Applied
		item.Since = applied.LastTransitionTime.Unix()
	default:
		item.State = plan.Failed
		item.Reason = one(applied.Reason)
		item.Since = applied.LastTransitionTime.Unix()
		item.Immutable = plan.IsImmutable(applied.Message) // the reason may be at the end of a long text
		item.Message = strings.Clone(applied.Message[:min(len(applied.Message), MaxMessage)])
	}
}

// readObject fills in which object an item is in the cluster.
func readObject(item *plan.Item, m *workv1.ManifestCondition) {
	name := item.StageText()
	for i := range m.StatusFeedbacks.Values {
		if v := &m.StatusFeedbacks.Values[i]; v.Name == name && v.Value.String != nil {
			item.UID = one(*v.Value.String)
		}
	}
	available := meta.FindStatusCondition(m.Conditions, workv1.ManifestAvailable)
	item.Missing = available != nil && available.Status == metav1.ConditionFalse
	item.Unreadable = available != nil && available.Status == metav1.ConditionUnknown ||
		meta.IsStatusConditionFalse(m.Conditions, "StatusFeedbackSynced")
}

// rest returns the objects that the cluster lists, but the work does not contain any more: mostly
// none.
func (r *reports) rest() []objref.Ref {
	var refs []objref.Ref
	for i, held := range r.held {
		if m := &r.work.Status.ResourceStatus.Manifests[i].ResourceMeta; !held {
			refs = append(refs, objref.Ref{
				Group: one(m.Group), Resource: one(m.Resource), Namespace: one(m.Namespace), Name: strings.Clone(m.Name),
			})
		}
	}
	return refs
}

// Foreign returns the WDS that a work belongs to, the zero WDS if that is ours.
func Foreign(work *workv1.ManifestWork, ours types.UID) plan.WDS {
	uid := work.Labels[controlv1alpha1.LabelWDSUID]
	if uid == string(ours) {
		return plan.WDS{}
	}
	if uid == "" { // a label without a value identifies no WDS
		uid = "unknown"
	}
	return plan.WDS{UID: types.UID(one(uid)), Name: one(work.Labels[controlv1alpha1.LabelWDSName])}
}
