package agent

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

func TestDecide(t *testing.T) {
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	name := corestatus.ReportName(ref)
	labels := map[string]string{controlv1alpha1.LabelWDSUID: "u", controlv1alpha1.LabelWDSName: "wds1"}
	source := controlv1alpha1.SourceRef{
		Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "web", Name: "nginx",
	}
	held := func(o ownership) *holding {
		h := &holding{ref: ref, ownership: o}
		if o == ours {
			h.labels = labels
		}
		return h
	}
	shared := held(ours)
	shared.wdses = "u,v"
	wdses := func(uids string) func(*report) {
		return func(r *report) { r.Annotations = map[string]string{controlv1alpha1.AnnotationWDSUIDs: uids} }
	}
	object := func(status string) *reported {
		r := &reported{gvk: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, applied: true}
		if status != "" {
			r.status = []byte(status)
		}
		return r
	}
	existing := func(status string, change func(*report)) *report {
		r := &report{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "x", Labels: labels}, source: source}
		if status != "" {
			r.hash = hashOf([]byte(status))
		}
		if change != nil {
			change(r)
		}
		return r
	}
	// A copy of that generation, whose status has observed another one.
	sourced := func(generation int64, source string, observed int64) *reported {
		r := object(`{"a":1}`)
		r.Generation, r.observed = generation, observed
		r.source, _ = corestatus.ParseSource(source)
		return r
	}
	another := object("")
	another.source, _ = corestatus.ParseSource("0/v")
	generations := func(source, generation string) map[string]string {
		return map[string]string{controlv1alpha1.AnnotationSourceGeneration: source, controlv1alpha1.AnnotationGeneration: generation}
	}
	amendment := func(annotations string) string {
		return `{"metadata":{"annotations":{` + annotations + `},` +
			`"labels":{"starling.io/wds-uid":"u","transport.kubestellar.io/originWdsName":"wds1"}},` +
			`"spec":{"sourceRef":{"group":"apps","kind":"Deployment","name":"nginx","namespace":"web","resource":"deployments","version":"v1"}}}`
	}
	// What is written, in short.
	type writes struct {
		Remove, Create bool
		Annotations    map[string]string // of a new one
		Clear          bool
		Amend, Status  string
		StatusFirst    bool
		Reason         string
	}
	const addStatus = `[{"op":"add","path":"/status","value":{"a":1}}]`
	for name, tc := range map[string]struct {
		in   evidence
		want writes
	}{
		"New": {
			in:   evidence{holding: held(ours), read: true, object: object(`{"a":1}`)},
			want: writes{Create: true, Status: addStatus, Reason: "report"},
		},
		"NewWithoutStatus": {
			in:   evidence{holding: held(ours), read: true, object: object("")},
			want: writes{Create: true, Reason: "report"},
		},
		"NewWithEmptyStatus": {
			in:   evidence{holding: held(ours), read: true, object: object(`{}`)},
			want: writes{Create: true, Status: `[{"op":"add","path":"/status","value":{}}]`, Reason: "report"},
		},
		"Same": {
			in:   evidence{holding: held(ours), read: true, object: object(`{"a":1}`), report: existing(`{"a":1}`, nil)},
			want: writes{Reason: "report"},
		},
		"Changed": {
			in:   evidence{holding: held(ours), read: true, object: object(`{"a":1}`), report: existing(`{"a":2}`, nil)},
			want: writes{Status: addStatus, Reason: "report"},
		},
		"StatusRemoved": {
			in:   evidence{holding: held(ours), read: true, object: object(""), report: existing(`{"a":2}`, nil)},
			want: writes{Status: `[{"op":"remove","path":"/status"}]`, Reason: "report"},
		},
		"LabelLost": {
			in: evidence{holding: held(ours), read: true, object: object(""), report: existing("", func(r *report) { r.Labels = nil })},
			want: writes{
				Amend: `{"metadata":{"labels":{"starling.io/wds-uid":"u","transport.kubestellar.io/originWdsName":"wds1"}},` +
					`"spec":{"sourceRef":{"group":"apps","kind":"Deployment","name":"nginx","namespace":"web","resource":"deployments","version":"v1"}}}`,
				Reason: "report",
			},
		},
		"OfSeveralWDSes": {
			in:   evidence{holding: shared, read: true, object: object("")},
			want: writes{Create: true, Annotations: map[string]string{controlv1alpha1.AnnotationWDSUIDs: "u,v"}, Reason: "report"},
		},
		"OfOtherWDSes": {
			in:   evidence{holding: shared, read: true, object: object(""), report: existing("", wdses("u,w"))},
			want: writes{Amend: amendment(`"starling.io/wds-uids":"u,v"`), Reason: "report"},
		},
		"OfOneWDSNow": {
			in:   evidence{holding: held(ours), read: true, object: object(""), report: existing("", wdses("u,v"))},
			want: writes{Amend: amendment(`"starling.io/wds-uids":null`), Reason: "report"},
		},
		"OfSeveralWDSesAndUnknown": {
			in:   evidence{holding: held(unknown), read: true, object: object(`{"a":1}`), report: existing("", wdses("u,v"))},
			want: writes{Status: addStatus, Reason: "report"},
		},
		"TruncatedNew": {
			in: evidence{holding: held(ours), read: true, object: func() *reported {
				r := object(`{"a":1}`)
				r.truncated = "cut"
				return r
			}()},
			want: writes{Create: true, Annotations: map[string]string{controlv1alpha1.AnnotationTruncated: "cut"}, Status: addStatus, Reason: "report"},
		},
		"NoLongerTruncated": {
			in: evidence{holding: held(ours), read: true, object: object(`{"a":1}`), report: existing(`{"a":2}`, func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationTruncated: "cut"}
			})},
			want: writes{
				Amend: `{"metadata":{"annotations":{"starling.io/truncated":null},` +
					`"labels":{"starling.io/wds-uid":"u","transport.kubestellar.io/originWdsName":"wds1"}},` +
					`"spec":{"sourceRef":{"group":"apps","kind":"Deployment","name":"nginx","namespace":"web","resource":"deployments","version":"v1"}}}`,
				Status: addStatus, Reason: "report",
			},
		},
		"SourceOfANewReport": {
			in:   evidence{holding: held(ours), read: true, object: sourced(7, "3/u", 6)},
			want: writes{Create: true, Annotations: generations("3/u", "7"), Status: addStatus, Reason: "report"},
		},
		"SourceNotReportedBefore": {
			in:   evidence{holding: held(ours), read: true, object: sourced(7, "3/u", 6), report: existing(`{"a":1}`, nil)},
			want: writes{Amend: amendment(`"starling.io/generation":"7","starling.io/source-generation":"3/u"`), Reason: "report"},
		},
		"SourceNotObservedYet": {
			in: evidence{holding: held(ours), read: true, fresh: notice, object: sourced(7, "3/u", 6), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = generations("2/u", "6")
			})},
			want: writes{Reason: "report"},
		},
		"SourceNotObserved": {
			in: evidence{holding: held(ours), read: true, object: sourced(7, "3/u", 6), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = generations("2/u", "6")
			})},
			want: writes{Amend: amendment(`"starling.io/generation":"7","starling.io/source-generation":"3/u"`), Reason: "report"},
		},
		"NotObservedYet": {
			in:   evidence{holding: held(ours), read: true, fresh: notice, object: sourced(7, "", 6), report: existing(`{"a":1}`, nil)},
			want: writes{Reason: "report"},
		},
		"NotObserved": {
			in:   evidence{holding: held(ours), read: true, object: sourced(7, "", 6), report: existing(`{"a":1}`, nil)},
			want: writes{Amend: amendment(`"starling.io/generation":"7"`), Reason: "report"},
		},
		"EditedAgainAndNotObserved": {
			in: evidence{holding: held(ours), read: true, fresh: notice, object: sourced(8, "", 6), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationGeneration: "7"}
			})},
			want: writes{Reason: "report"},
		},
		"ObservedLater": {
			in: evidence{holding: held(ours), read: true, object: sourced(7, "", 7), report: existing(`{"a":2}`, func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationGeneration: "7"}
			})},
			want: writes{Amend: amendment(`"starling.io/generation":null`), Status: addStatus, Reason: "report"},
		},
		"SourceObserved": {
			in: evidence{holding: held(ours), read: true, object: sourced(7, "3/u", 7), report: existing(`{"a":2}`, func(r *report) {
				r.Annotations = generations("2/u", "6")
			})},
			want: writes{Amend: amendment(`"starling.io/generation":"7","starling.io/source-generation":"3/u"`), Status: addStatus, Reason: "report"},
		},
		"SourceWithoutChangeInTheCluster": {
			in: evidence{holding: held(ours), read: true, object: sourced(7, "4/u", 7), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = generations("3/u", "7")
			})},
			want: writes{Amend: amendment(`"starling.io/generation":"7","starling.io/source-generation":"4/u"`), Reason: "report"},
		},
		"SourceOfAKindWithoutObservedGeneration": {
			in: evidence{holding: held(ours), read: true, object: sourced(8, "4/u", 0), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = generations("3/u", "7")
			})},
			want: writes{Amend: amendment(`"starling.io/generation":"8","starling.io/source-generation":"4/u"`), Reason: "report"},
		},
		"SourceIsAnotherObject": { // a status that its controller has not observed is not that of the former object
			in: evidence{holding: held(ours), read: true, fresh: notice, object: sourced(7, "1/v", 6), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = generations("2/u", "6")
			})},
			want: writes{Amend: amendment(`"starling.io/generation":"7","starling.io/source-generation":"1/v"`), Reason: "report"},
		},
		"SourceWithoutGeneration": { // an edit is no reason to write
			in: evidence{holding: held(ours), read: true, object: sourced(7, "0/u", 0), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationSourceGeneration: "0/u"}
			})},
			want: writes{Reason: "report"},
		},
		"SourceIsAnotherObjectWithoutGeneration": {
			in: evidence{holding: held(ours), read: true, object: sourced(7, "0/v", 7), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationSourceGeneration: "0/u"}
			})},
			want: writes{Amend: amendment(`"starling.io/source-generation":"0/v"`), Reason: "report"},
		},
		"SourceIsAnotherObjectWithAnotherStatus": { // the former status is not that of the new object, not for a moment
			in: evidence{holding: held(ours), read: true, object: sourced(7, "0/v", 7), report: existing(`{"a":2}`, func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationSourceGeneration: "0/u"}
			})},
			want: writes{Clear: true, Amend: amendment(`"starling.io/source-generation":"0/v"`), Status: addStatus, Reason: "report"},
		},
		"SourceIsAnotherObjectWithoutStatus": {
			in: evidence{holding: held(ours), read: true, object: another, report: existing(`{"a":2}`, func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationSourceGeneration: "0/u"}
			})},
			want: writes{Clear: true, Amend: amendment(`"starling.io/source-generation":"0/v"`), Reason: "report"},
		},
		"CopyIsAnotherObject": { // somebody deleted it in the cluster, and OCM's agent has created it again
			in: evidence{holding: held(ours), read: true, object: sourced(1, "3/u", 0), report: existing(`{"a":2}`, func(r *report) {
				r.Annotations = generations("3/u", "7")
			})},
			want: writes{Clear: true, Amend: amendment(`"starling.io/generation":"1","starling.io/source-generation":"3/u"`), Status: addStatus, Reason: "report"},
		},
		"SourceEditedWithAnotherStatus": { // the object had its former status with the new content, too
			in: evidence{holding: held(ours), read: true, object: sourced(8, "4/u", 0), report: existing(`{"a":2}`, func(r *report) {
				r.Annotations = generations("3/u", "7")
			})},
			want: writes{Amend: amendment(`"starling.io/generation":"8","starling.io/source-generation":"4/u"`), Status: addStatus, StatusFirst: true, Reason: "report"},
		},
		"SourceNoLongerReported": {
			in: evidence{holding: held(ours), read: true, object: sourced(7, "", 7), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = generations("3/u", "7")
			})},
			want: writes{Amend: amendment(`"starling.io/generation":null,"starling.io/source-generation":null`), Reason: "report"},
		},
		"SourceSame": {
			in: evidence{holding: held(ours), read: true, object: sourced(7, "3/u", 7), report: existing(`{"a":1}`, func(r *report) {
				r.Annotations = generations("3/u", "7")
			})},
			want: writes{Reason: "report"},
		},
		"SpecEdited": {
			in: evidence{holding: held(ours), read: true, object: object(""), report: existing("", func(r *report) { r.source.Name = "other" })},
			want: writes{
				Amend: `{"metadata":{"labels":{"starling.io/wds-uid":"u","transport.kubestellar.io/originWdsName":"wds1"}},` +
					`"spec":{"sourceRef":{"group":"apps","kind":"Deployment","name":"nginx","namespace":"web","resource":"deployments","version":"v1"}}}`,
				Reason: "report",
			},
		},
		"ObjectGone": {
			in: evidence{holding: held(ours), read: true, report: existing(`{"a":1}`, nil)},
			want: writes{
				Amend: amendment(`"starling.io/gone":"true"`), Status: `[{"op":"remove","path":"/status"}]`, Reason: "gone",
			},
		},
		"ObjectGoneWithGenerations": {
			in: evidence{holding: held(ours), read: true, report: existing("", func(r *report) { r.Annotations = generations("3/u", "7") })},
			want: writes{
				Amend: amendment(`"starling.io/generation":null,"starling.io/gone":"true","starling.io/source-generation":"3/u"`), Reason: "gone",
			},
		},
		"ObjectGoneThatIsShared": {
			in:   evidence{holding: shared, read: true, report: existing("", wdses("u,v"))},
			want: writes{Amend: amendment(`"starling.io/gone":"true","starling.io/wds-uids":"u,v"`), Reason: "gone"},
		},
		"ObjectGoneAMomentAgo": { // if it was removed, no work holds it soon
			in: evidence{holding: held(ours), read: true, fresh: notice, report: existing(`{"a":1}`, nil)},
		},
		"ObjectGoneAndReported": {
			in: evidence{holding: held(ours), read: true, report: existing("", func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationGone: "true"}
			})},
			want: writes{Reason: "gone"},
		},
		"ObjectIsBack": {
			in: evidence{holding: held(ours), read: true, object: object(`{"a":1}`), report: existing("", func(r *report) {
				r.Annotations = map[string]string{controlv1alpha1.AnnotationGone: "true"}
			})},
			want: writes{Amend: amendment(`"starling.io/gone":null`), Status: addStatus, Reason: "report"},
		},
		"ObjectGoneAndUnreported": {in: evidence{holding: held(ours), read: true}},
		"KindGone": {
			in:   evidence{holding: held(ours), kindGone: true, report: existing(`{"a":2}`, nil)},
			want: writes{Remove: true, Reason: "kind gone"},
		},
		"KindGoneAndUnreported": {in: evidence{holding: held(ours), kindGone: true}},
		"NotReadYet":            {in: evidence{holding: held(ours), report: existing(`{"a":2}`, nil)}},
		"Released": {
			in:   evidence{report: existing("", nil)},
			want: writes{Remove: true, Reason: "released"},
		},
		"ReleasedAndUnreported": {},
		"OnlyForeignWorks": {
			in:   evidence{holding: held(foreign), read: true, object: object(""), report: existing("", nil)},
			want: writes{Remove: true, Reason: "released"},
		},
		"WorkNotObservedAndUnreported": {in: evidence{holding: held(unknown), read: true, object: object(`{"a":1}`)}},
		"WorkNotObserved": {
			in:   evidence{holding: held(unknown), read: true, object: object(`{"a":1}`), report: existing(`{"a":2}`, nil)},
			want: writes{Status: addStatus, Reason: "report"},
		},
		"WorkNotObservedAndObjectGone": {
			in:   evidence{holding: held(unknown), read: true, report: existing("", nil)},
			want: writes{Remove: true, Reason: "gone"},
		},
		"Excluded": {
			in:   evidence{holding: held(ours), read: true, object: object(""), excluded: true, report: existing("", nil)},
			want: writes{Remove: true, Reason: "released"},
		},
		"ReportOfOthersIsKept": {
			in: evidence{name: "stranger", report: existing("", func(r *report) { r.Name, r.Labels = "stranger", nil })},
		},
		"LabeledReportWithOtherNameIsDeleted": {
			in:   evidence{name: "forged", report: existing("", func(r *report) { r.Name = "forged" })},
			want: writes{Remove: true, Reason: "released"},
		},
		"OursWithoutLabelIsDeleted": {
			in:   evidence{report: existing("", func(r *report) { r.Labels = nil })},
			want: writes{Remove: true, Reason: "released"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.in.name == "" {
				tc.in.name = corestatus.ReportName(ref)
			}
			v := decide(tc.in)
			got := writes{Remove: v.remove, Create: v.create != nil, Clear: v.clear, Amend: string(v.amend), Status: string(v.status), StatusFirst: v.statusFirst, Reason: v.reason}
			if v.create != nil {
				got.Annotations = v.create.Annotations
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decide (-want +got):\n%s", diff)
			}
			if v.status != nil && !json.Valid(v.status) {
				t.Errorf("status patch is no JSON: %s", v.status)
			}
			// What was decided is stable.
			if v.after != nil {
				again := tc.in
				again.report = v.after
				if v := decide(again); !v.nothing() {
					t.Errorf("decided again: %+v", v)
				}
			}
		})
	}
}
