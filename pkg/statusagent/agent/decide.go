package agent

import (
	"encoding/json"
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// evidence is the input of decide.
type evidence struct {
	// name is that of the WorkStatus.
	name string
	// holding is the object in the index of works; nil if no work holds it.
	holding *holding
	// kindGone reports whether the WEC is known not to serve the resource.
	kindGone bool
	// read reports whether all objects of the resource were read.
	read bool
	// object is the object; nil if it does not exist.
	object *reported
	// fresh is for how long its controller may still be about to observe the object's last change,
	// and OCM's agent to observe its deletion.
	fresh time.Duration
	// excluded reports whether objects of this kind are not reported.
	excluded bool
	// report is the WorkStatus; nil if it does not exist.
	report *report
}

// verdict is the output of decide: what to write, in the order of the fields. The zero value writes
// nothing.
type verdict struct {
	// remove deletes the WorkStatus.
	remove bool
	// create creates the WorkStatus, without a status: its API server would drop it.
	create *controlv1alpha1.WorkStatus
	// clear removes the status of another object before the report names this one: metadata and
	// status cannot be written at once.
	clear bool
	// amend is a JSON merge patch of labels, annotations and spec.
	amend []byte
	// status is a JSON patch of the status.
	status []byte
	// statusFirst writes the status before amend, which says of which content it is: a status that
	// does not say itself whether it has observed that would look current meanwhile.
	statusFirst bool
	// after is the WorkStatus after these writes, except for UID and resourceVersion. nil with
	// remove.
	after *report
	// reason is the reason of the writes, in metrics.
	reason string
}

func (v verdict) nothing() bool {
	return !v.remove && v.create == nil && !v.clear && v.amend == nil && v.status == nil
}

// decide returns what to write to the WorkStatus.
func decide(in evidence) verdict {
	switch {
	case in.holding == nil || in.holding.ownership == foreign || in.excluded:
		return remove(in, "released")
	case in.holding.ownership == unknown && in.report == nil:
		return verdict{}
	case in.kindGone:
		return remove(in, "kind gone")
	case !in.read:
		return verdict{}
	case in.object == nil && in.holding.ownership == unknown:
		return remove(in, "gone")
	case in.object == nil && (in.report == nil || in.fresh > 0):
		return verdict{}
	case in.object == nil:
		return isGone(in)
	}
	want := &report{source: source(in.holding.ref, in.object), hash: hashOf(in.object.status)}
	want.Name = in.name
	want.Labels = in.holding.labels
	wdses := in.holding.wdses
	if in.holding.ownership == unknown { // until the work is known
		want.Labels, wdses = in.report.Labels, in.report.Annotations[controlv1alpha1.AnnotationWDSUIDs]
	}
	want.Annotations = annotations(in.object, in.report, wdses, in.fresh > 0)

	v := verdict{after: want, reason: "report"}
	switch {
	case in.report == nil:
		v.create = &controlv1alpha1.WorkStatus{
			TypeMeta:   metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "WorkStatus"},
			ObjectMeta: metav1.ObjectMeta{Name: want.Name, Labels: want.Labels, Annotations: want.Annotations},
			Spec:       controlv1alpha1.WorkStatusSpec{SourceRef: want.source},
		}
	case !maps.Equal(in.report.Labels, want.Labels) || !maps.Equal(in.report.Annotations, want.Annotations) || in.report.source != want.source:
		v.amend = amend(in.report, want)
		v.clear = in.report.hash != "" && in.report.hash != want.hash && isAnother(in.report, in.object)
	}
	switch before := in.report; {
	case before == nil && want.hash == "", before != nil && before.hash == want.hash, v.clear && want.hash == "":
	case want.hash == "":
		v.status = []byte(noStatus)
	default:
		// To add a field that exists replaces it.
		v.status = append(append([]byte(`[{"op":"add","path":"/status","value":`), in.object.status...), `}]`...)
	}
	v.statusFirst = v.amend != nil && v.status != nil && !v.clear && in.object.observed == 0 &&
		in.report.Annotations[controlv1alpha1.AnnotationSourceGeneration] != want.Annotations[controlv1alpha1.AnnotationSourceGeneration]
	return v
}

// isAnother reports whether a copy may be another object than the one that was reported: it names
// another object in the WDS, or its generation is a former one.
func isAnother(before *report, obj *reported) bool {
	had, _ := corestatus.ParseSource(before.Annotations[controlv1alpha1.AnnotationSourceGeneration])
	generation, err := strconv.ParseInt(before.Annotations[controlv1alpha1.AnnotationGeneration], 10, 64)
	return had.UID != obj.source.UID || err == nil && obj.Generation < generation
}

// isGone returns what to write about an object that a work holds and that does not exist: somebody
// deleted it in the cluster. OCM's agent creates it again, or finds out that it need not, some time
// later. If the agent has deleted it, it has observed that by now, and no work holds it any more.
func isGone(in evidence) verdict {
	want := &report{source: in.report.source}
	want.Name, want.Labels = in.name, in.holding.labels
	want.Annotations = map[string]string{controlv1alpha1.AnnotationGone: "true"}
	if in.holding.wdses != "" {
		want.Annotations[controlv1alpha1.AnnotationWDSUIDs] = in.holding.wdses
	}
	if source, ok := in.report.Annotations[controlv1alpha1.AnnotationSourceGeneration]; ok {
		want.Annotations[controlv1alpha1.AnnotationSourceGeneration] = source
	}
	v := verdict{after: want, reason: "gone"}
	if !maps.Equal(in.report.Labels, want.Labels) || !maps.Equal(in.report.Annotations, want.Annotations) {
		v.amend = amend(in.report, want)
	}
	if in.report.hash != "" {
		v.status = []byte(noStatus)
	}
	return v
}

// noStatus is the JSON patch that removes a status.
const noStatus = `[{"op":"remove","path":"/status"}]`

// remove deletes a WorkStatus of ours. Others in the mailbox, such as those of another add-on, are
// kept.
func remove(in evidence, reason string) verdict {
	if in.report == nil {
		return verdict{}
	}
	_, labelled := in.report.Labels[controlv1alpha1.LabelWDSUID]
	s := in.report.source
	ref := objref.Ref{Group: s.Group, Resource: s.Resource, Namespace: s.Namespace, Name: s.Name}
	if !labelled && in.name != corestatus.ReportName(ref) {
		return verdict{}
	}
	return verdict{remove: true, reason: reason}
}

func source(ref objref.Ref, obj *reported) controlv1alpha1.SourceRef {
	return controlv1alpha1.SourceRef{
		Group: ref.Group, Version: obj.gvk.Version, Resource: ref.Resource, Kind: obj.gvk.Kind,
		Namespace: ref.Namespace, Name: ref.Name,
	}
}

// annotations returns the annotations of the WorkStatus of an object: how its status was truncated,
// which WDSes deliver it if they are several, of which object in the WDS it is a copy, and which
// generation of the copy has the content of which generation there.
//
// While a change is fresh and the status has not observed it, the previous annotations are kept: so
// an edit costs one write, with the status that observed it, and not another one before. A change
// that is not observed after that is reported. Otherwise an old status would look current, also for
// objects that do not record the generation of their content. A copy of another object is never
// reported as one of the former object.
func annotations(obj *reported, before *report, wdses string, fresh bool) map[string]string {
	values := map[string]string{}
	if wdses != "" {
		values[controlv1alpha1.AnnotationWDSUIDs] = wdses
	}
	if obj.truncated != "" {
		values[controlv1alpha1.AnnotationTruncated] = obj.truncated
	}
	unobserved := obj.observed > 0 && obj.observed < obj.Generation
	var had corestatus.Source
	if before != nil {
		had, _ = corestatus.ParseSource(before.Annotations[controlv1alpha1.AnnotationSourceGeneration])
	}
	same := had.UID == obj.source.UID && (had.Generation > 0) == (obj.source.Generation > 0)
	switch {
	case unobserved && fresh && before != nil && same:
		for _, key := range []string{controlv1alpha1.AnnotationSourceGeneration, controlv1alpha1.AnnotationGeneration} {
			if value, ok := before.Annotations[key]; ok {
				values[key] = value
			}
		}
	default:
		if obj.source.UID != "" {
			values[controlv1alpha1.AnnotationSourceGeneration] = obj.source.String()
		}
		if obj.source.Generation > 0 || unobserved {
			values[controlv1alpha1.AnnotationGeneration] = strconv.FormatInt(obj.Generation, 10)
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}

func amend(before, want *report) []byte {
	metadata := map[string]any{"labels": difference(before.Labels, want.Labels)}
	if changes := difference(before.Annotations, want.Annotations); len(changes) > 0 {
		metadata["annotations"] = changes
	}
	s := want.source
	patch, err := json.Marshal(map[string]any{
		"metadata": metadata,
		"spec": map[string]any{"sourceRef": map[string]any{
			"group": s.Group, "version": s.Version, "resource": s.Resource, "kind": s.Kind, "namespace": s.Namespace, "name": s.Name,
		}},
	})
	if err != nil {
		panic(err) // strings only
	}
	return patch
}

// difference returns the merge patch of a map: the desired values, and null for all other keys
// before.
func difference(before, want map[string]string) map[string]any {
	patch := map[string]any{}
	for key := range before {
		patch[key] = nil
	}
	for key, value := range want {
		patch[key] = value
	}
	return patch
}
