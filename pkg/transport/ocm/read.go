package ocm

import (
	"slices"
	"strconv"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// kept is what the informer keeps of a ManifestWork.
type kept struct {
	metav1.ObjectMeta
	work *plan.Work
}

func (k *kept) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns k itself: it is immutable.
func (k *kept) DeepCopyObject() runtime.Object { return k }

func keep(work *workv1.ManifestWork, m *manifests) *kept {
	return &kept{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: work.Namespace, Name: work.Name, UID: work.UID, ResourceVersion: work.ResourceVersion,
		},
		work: read(work, m),
	}
}

func workOf(obj any) *plan.Work {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if k, ok := obj.(*kept); ok {
		return k.work
	}
	return nil
}

// same tells whether nothing differs but the resourceVersion.
func same(a, b *plan.Work) bool {
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	x.Items, y.Items = nil, nil
	return equalWork(&x, &y) && slices.Equal(a.Items, b.Items) && slices.Equal(a.Listed, b.Listed)
}

func equalWork(a, b *plan.Work) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.Created == b.Created && a.Foreign == b.Foreign && a.BindingUID == b.BindingUID && a.Binding == b.Binding &&
		a.Wave == b.Wave && a.Recorded == b.Recorded && a.Actual == b.Actual && a.Deleting == b.Deleting && a.Nudges == b.Nudges
}

// read returns what is to be known of a ManifestWork. A work that was edited by hand beyond recognition is read as far as it
// goes: what differs from what was recorded is put right.
func read(work *workv1.ManifestWork, texts *manifests) *plan.Work {
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
		Deleting:        work.DeletionTimestamp != nil,
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
			Hash: m.hash,
			Bare: m.bare,
			Size: m.size,
		}
		w.Items[i] = item
	}
	readFlags(work, w.Items)
	for i := range w.Items {
		item := &w.Items[i]
		item.Withdrawn = item.Observe && texts.read(work.Spec.Workload.Manifests[i].Raw).withdrawn
		reports.apply(item)
	}
	w.Listed = reports.rest()
	w.Actual = specHash(w.Items, &work.Spec)
	if w.Actual != w.Recorded {
		// Perhaps only the spelling differs from ours: then it is the same.
		for i := range w.Items {
			if raw, err := transform.CanonicalJSON(work.Spec.Workload.Manifests[i].Raw); err == nil {
				w.Items[i].Hash = transform.HashOf(raw)
			}
		}
		w.Actual = specHash(w.Items, &work.Spec)
	}
	if !complete || w.Binding == "" {
		w.Recorded = transform.Hash{} // written again with the next look
	}
	return w
}

// one returns a string equal to s that is shared by all that are equal: the same names are in every mailbox.
func one(s string) string { return unique.Make(s).Value() }

// readKinds reads what writeKinds wrote.
func readKinds(text string) map[schema.GroupKind]string {
	kinds := map[schema.GroupKind]string{}
	for entry := range strings.SplitSeq(text, ",") {
		if kind, resource, ok := strings.Cut(entry, "="); ok {
			kinds[schema.ParseGroupKind(kind)] = resource
		}
	}
	return kinds
}

// writeKinds lists the resource of each kind, as "Deployment.apps=deployments,…", sorted.
func writeKinds(entries []plan.Entry) string {
	var kinds []string
	for i := range entries {
		kind := schema.GroupKind{Group: entries[i].Ref.Group, Kind: entries[i].Kind}
		kinds = append(kinds, kind.String()+"="+entries[i].Ref.Resource)
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ",")
}

// readFlags reads what the rest of the spec says of the objects.
func readFlags(work *workv1.ManifestWork, items []plan.Item) {
	var rules []workv1.OrphaningRule
	if d := work.Spec.DeleteOption; d != nil && d.SelectivelyOrphan != nil {
		rules = d.SelectivelyOrphan.OrphaningRules
	}
	if len(work.Spec.ManifestConfigs)+len(rules) == 0 {
		return // mostly there are none
	}
	positions := make(map[objref.Ref]int, len(items)) // OCM lets no work hold an object twice
	for i := range items {
		positions[items[i].Ref] = i
	}
	flag := func(id *workv1.ResourceIdentifier, set func(*plan.Item)) {
		ref := objref.Ref{Group: id.Group, Resource: id.Resource, Namespace: id.Namespace, Name: id.Name}
		if i, ok := positions[ref]; ok {
			set(&items[i])
		}
	}
	for i := range work.Spec.ManifestConfigs {
		if c := &work.Spec.ManifestConfigs[i]; c.UpdateStrategy != nil {
			flag(&c.ResourceIdentifier, func(item *plan.Item) { item.Options = optionsOf(c.UpdateStrategy) })
		}
	}
	for i := range rules {
		id := workv1.ResourceIdentifier(rules[i])
		flag(&id, func(item *plan.Item) { item.Orphan = true })
	}
}

// optionsOf reads what strategyOf wrote.
func optionsOf(strategy *workv1.UpdateStrategy) (o plan.Options) {
	switch strategy.Type {
	case workv1.UpdateStrategyTypeReadOnly:
		o.Observe = true
	case workv1.UpdateStrategyTypeCreateOnly:
		o.CreateOnly = true
	case workv1.UpdateStrategyTypeServerSideApply:
		o.ServerSide = true
		if apply := strategy.ServerSideApply; apply != nil {
			o.Force = apply.Force
			for _, ignored := range apply.IgnoreFields {
				o.IgnoredFields = strings.Join(ignored.JSONPaths, "\n")
			}
		}
	case workv1.UpdateStrategyTypeUpdate:
	}
	return o
}

// reports is what the cluster said last of the manifests of a work, at whatever generation.
type reports struct {
	work  *workv1.ManifestWork
	index map[reportKey]int // into the manifests that the cluster lists
	held  []bool            // which of those the work still holds
	from  int64             // the generation from which on they prove something
}

type reportKey struct {
	kind            schema.GroupKind
	namespace, name string
}

// maxMessage bounds what is kept of a cluster's error text.
const maxMessage = 1024

func readReports(work *workv1.ManifestWork) *reports {
	manifests := work.Status.ResourceStatus.Manifests
	r := &reports{work: work, index: make(map[reportKey]int, len(manifests)), held: make([]bool, len(manifests))}
	r.from, _ = strconv.ParseInt(work.Annotations[controlv1alpha1.AnnotationReportsFrom], 10, 64)
	for i := range manifests {
		m := &manifests[i].ResourceMeta
		r.index[reportKey{schema.GroupKind{Group: m.Group, Kind: m.Kind}, m.Namespace, m.Name}] = i
	}
	return r
}

// apply fills in what the cluster said of an item.
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
	item.Reported = applied.ObservedGeneration >= r.from && (applied.Status == metav1.ConditionTrue || item.Withdrawn)
	switch {
	case applied.ObservedGeneration != r.work.Generation:
	case applied.Status == metav1.ConditionTrue:
		item.State = plan.Applied
		item.Since = applied.LastTransitionTime.Unix()
	default:
		item.State = plan.Failed
		item.Reason = one(applied.Reason)
		item.Since = applied.LastTransitionTime.Unix()
		item.Message = strings.Clone(applied.Message[:min(len(applied.Message), maxMessage)])
	}
}

// rest returns what the cluster lists that the work does not hold any more: mostly nothing.
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
