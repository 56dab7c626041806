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
	// fresh is for how long its controller may still be about to observe the object's last change.
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
	// amend is a JSON merge patch of labels, annotations and spec.
	amend []byte
	// status is a JSON patch of the status.
	status []byte
	// after is the WorkStatus after these writes, except for UID and resourceVersion. nil with
	// remove.
	after *report
	// reason is the reason of the writes, in metrics.
	reason string
}

func (v verdict) nothing() bool {
	return !v.remove && v.create == nil && v.amend == nil && v.status == nil
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
	case in.object == nil:
		return remove(in, "gone")
	}
	want := &report{source: source(in.holding.ref, in.object), hash: hashOf(in.object.status)}
	want.Name = in.name
	want.Labels = in.holding.labels
	want.Annotations = annotations(in.object, in.report, in.fresh > 0)
	if in.holding.ownership == unknown {
		want.Labels = in.report.Labels // until the work is known
	}

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
	}
	switch before := in.report; {
	case before == nil && want.hash == "", before != nil && before.hash == want.hash:
	case want.hash == "":
		v.status = []byte(`[{"op":"remove","path":"/status"}]`)
	default:
		// To add a field that exists replaces it.
		v.status = append(append([]byte(`[{"op":"add","path":"/status","value":`), in.object.status...), `}]`...)
	}
	return v
}

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
// and which generation of the copy has the content of which generation in the WDS.
//
// While a change is fresh and the status has not observed it, the previous annotations are kept: so
// an edit costs one write, with the status that observed it, and not another one before. A change
// that is not observed after that is reported. Otherwise an old status would look current, also for
// objects that do not record the generation of their content.
func annotations(obj *reported, before *report, fresh bool) map[string]string {
	values := map[string]string{}
	if obj.truncated != "" {
		values[controlv1alpha1.AnnotationTruncated] = obj.truncated
	}
	unobserved := obj.observed > 0 && obj.observed < obj.Generation
	hadSource := before != nil && before.Annotations[controlv1alpha1.AnnotationSourceGeneration] != ""
	switch {
	case unobserved && fresh && before != nil && hadSource == (obj.sourceGeneration != ""):
		for _, key := range []string{controlv1alpha1.AnnotationSourceGeneration, controlv1alpha1.AnnotationGeneration} {
			if value, ok := before.Annotations[key]; ok {
				values[key] = value
			}
		}
	case obj.sourceGeneration != "":
		values[controlv1alpha1.AnnotationSourceGeneration] = obj.sourceGeneration
		values[controlv1alpha1.AnnotationGeneration] = strconv.FormatInt(obj.Generation, 10)
	case unobserved:
		values[controlv1alpha1.AnnotationGeneration] = strconv.FormatInt(obj.Generation, 10)
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
