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

// evidence is all that decide looks at.
type evidence struct {
	// name is that of the WorkStatus.
	name string
	// holding is what the works say of the object; nil if none holds it.
	holding *holding
	// kindGone tells whether the WEC is known not to serve the resource.
	kindGone bool
	// read tells whether all objects of the resource were read.
	read bool
	// object is the object; nil if it is not there.
	object *reported
	// fresh is for how long the object's last change is so new that its controller may just be about to take notice.
	fresh time.Duration
	// excluded tells whether the object's kind is not to be reported.
	excluded bool
	// report is the WorkStatus; nil if it is not there.
	report *report
}

// verdict is what decide decided: what to write, in the order of the fields. The zero value writes nothing.
type verdict struct {
	// remove deletes the WorkStatus.
	remove bool
	// create creates the WorkStatus, without a status: its API server would drop it.
	create *controlv1alpha1.WorkStatus
	// amend is a JSON merge patch of labels, annotations and spec.
	amend []byte
	// status is a JSON patch of the status.
	status []byte
	// after is the WorkStatus as it is after that, but for UID and resourceVersion. nil with remove.
	after *report
	// reason is a short word that says why.
	reason string
}

func (v verdict) nothing() bool {
	return !v.remove && v.create == nil && v.amend == nil && v.status == nil
}

// decide tells what becomes of the WorkStatus of that name.
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
		want.Labels = in.report.Labels // until it is known whose it is
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
		// Adding what is there replaces it whole.
		v.status = append(append([]byte(`[{"op":"add","path":"/status","value":`), in.object.status...), `}]`...)
	}
	return v
}

// remove deletes a WorkStatus of ours. Others in the mailbox, those of another add-on, are left alone.
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

// annotations are what the WorkStatus of an object says besides: how its status was shortened, and which generation of the copy
// has the content of which generation in the WDS.
//
// While a change is fresh and the status does not speak of it, it is left at what was said before: so an edit costs one write when it
// was observed, with the status, and not one more before. What is not observed after that is told, or a status of the past would pass
// for one of the present, also of objects that do not say which content they have.
func annotations(obj *reported, before *report, fresh bool) map[string]string {
	said := map[string]string{}
	if obj.truncated != "" {
		said[controlv1alpha1.AnnotationTruncated] = obj.truncated
	}
	unnoticed := obj.observed > 0 && obj.observed < obj.Generation
	saidSource := before != nil && before.Annotations[controlv1alpha1.AnnotationSourceGeneration] != ""
	switch {
	case unnoticed && fresh && before != nil && saidSource == (obj.sourceGeneration != ""):
		for _, key := range []string{controlv1alpha1.AnnotationSourceGeneration, controlv1alpha1.AnnotationGeneration} {
			if value, ok := before.Annotations[key]; ok {
				said[key] = value
			}
		}
	case obj.sourceGeneration != "":
		said[controlv1alpha1.AnnotationSourceGeneration] = obj.sourceGeneration
		said[controlv1alpha1.AnnotationGeneration] = strconv.FormatInt(obj.Generation, 10)
	case unnoticed:
		said[controlv1alpha1.AnnotationGeneration] = strconv.FormatInt(obj.Generation, 10)
	}
	if len(said) == 0 {
		return nil
	}
	return said
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

// difference returns, for a merge patch, all that is wanted, and null for what else was there before.
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
