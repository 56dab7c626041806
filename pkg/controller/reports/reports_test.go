package reports

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

func TestReportsGet(t *testing.T) {
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	name := corestatus.ReportName(ref)
	ws := func(cluster, name, status string) *controlv1alpha1.WorkStatus {
		obj := &controlv1alpha1.WorkStatus{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name},
			Spec: controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{
				Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name,
			}},
		}
		if status != "" {
			obj.Status = &runtime.RawExtension{Raw: []byte(status)}
		}
		return obj
	}
	other := ws("c1", "x", `{"a":9}`)
	other.Spec.SourceRef.Namespace = "shop"
	sourced := ws("c1", name, `{"a":1}`)
	sourced.Annotations = map[string]string{controlv1alpha1.AnnotationGeneration: "7", controlv1alpha1.AnnotationSourceGeneration: "3/u"}
	forged := ws("c1", name, `{"a":1}`)
	forged.Annotations = map[string]string{controlv1alpha1.AnnotationGeneration: "-7", controlv1alpha1.AnnotationSourceGeneration: "x"}
	one := &Report{Report: corestatus.Report{Status: map[string]any{"a": int64(1)}}}

	type its struct {
		items    []*controlv1alpha1.WorkStatus
		unsynced bool
	}
	for caseName, tc := range map[string]struct {
		inventories map[string]its
		want        *Report
		wantKnown   bool
	}{
		"Reported": {inventories: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}}}, want: one, wantKnown: true},
		"Generations": {
			inventories: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{sourced}}},
			want:        &Report{Report: corestatus.Report{Status: map[string]any{"a": int64(1)}, Generation: 7, Source: corestatus.Source{UID: "u", Generation: 3}}}, wantKnown: true,
		},
		"NoGenerations":   {inventories: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{forged}}}, want: one, wantKnown: true},
		"WithoutStatus":   {inventories: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, "")}}}, want: &Report{}, wantKnown: true},
		"NotReported":     {inventories: map[string]its{"its1": {}}, wantKnown: true},
		"OtherCluster":    {inventories: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c10", name, `{"a":1}`)}}}, wantKnown: true},
		"SameNameInOther": {inventories: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{other}}}, wantKnown: true},
		"NotRead":         {inventories: map[string]its{"its1": {unsynced: true}}},
		"OneOfTwoNotRead": {inventories: map[string]its{"its1": {}, "its2": {unsynced: true}}},
		"ReportedThere":   {inventories: map[string]its{"its1": {}, "its2": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}}}, want: one, wantKnown: true},
		"AnotherByHand": {
			inventories: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", "by-hand", `{"a":9}`), ws("c1", name, `{"a":1}`)}}},
			want:        one, wantKnown: true,
		},
		"SameClusterInTwo": {
			inventories: map[string]its{
				"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}},
				"its2": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":2}`)}},
			},
		},
	} {
		t.Run(caseName, func(t *testing.T) {
			r := &Reader{inventories: map[string]inventory{}}
			for its, content := range tc.inventories {
				informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &controlv1alpha1.WorkStatus{}, 0, cache.Indexers{byKey: keyIndex})
				for _, item := range content.items {
					if err := informer.GetIndexer().Add(item); err != nil {
						t.Fatal(err)
					}
				}
				r.inventories[its] = inventory{informer: informer, registered: synced(!content.unsynced)}
			}
			got, known := r.Get(ref, "c1")
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Report{}, "Version")); diff != "" || known != tc.wantKnown {
				t.Errorf("known %v, want %v (-want +got):\n%s", known, tc.wantKnown, diff)
			}
		})
	}
}

func TestReportsTellOfBothObjects(t *testing.T) {
	a, b := &controlv1alpha1.WorkStatus{}, &controlv1alpha1.WorkStatus{}
	a.ResourceVersion, a.Spec.SourceRef = "1", controlv1alpha1.SourceRef{Resource: "services", Name: "a"}
	b.ResourceVersion, b.Spec.SourceRef = "2", controlv1alpha1.SourceRef{Resource: "services", Name: "b"}
	var told []string
	h := handler(func(key Key) { told = append(told, key.Ref.Name) })
	h.OnUpdate(a, a) // a relist
	h.OnUpdate(a, b)
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: a})
	if diff := cmp.Diff([]string{"b", "a", "a"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// synced is a registration of a handler that has seen everything, or not.
type synced bool

func (s synced) HasSynced() bool { return bool(s) }

func TestUpdated(t *testing.T) {
	at := func(second int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC)}
	}
	fields := func(raw string) *metav1.FieldsV1 { return &metav1.FieldsV1{Raw: []byte(raw)} }
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    int
	}{
		"Created": {want: 1},
		"Subresource": {
			entries: []metav1.ManagedFieldsEntry{
				{Manager: "a", Time: at(2), FieldsV1: fields(`{"f:spec":{}}`)},
				{Manager: "a", Time: at(5), Subresource: "status", FieldsV1: fields(`{"f:status":{}}`)},
				{Manager: "b", Time: at(9), FieldsV1: fields(`{"f:metadata":{"f:labels":{}}}`)},
			},
			want: 5,
		},
		"Newest": {
			entries: []metav1.ManagedFieldsEntry{
				{Manager: "a", Time: at(5), Subresource: "status"},
				{Manager: "b", Time: at(7), FieldsV1: fields(`{"f:status":{"f:x":{}}}`)},
				{Manager: "c", Time: at(6), Subresource: "status"},
				{Manager: "d", Subresource: "status"},
			},
			want: 7,
		},
		"SpecOnly": {entries: []metav1.ManagedFieldsEntry{{Manager: "a", Time: at(2), FieldsV1: fields(`{"f:spec":{}}`)}}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ws := &controlv1alpha1.WorkStatus{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *at(1), ManagedFields: tc.entries}}
			for range 2 { // an informer may hand over what was reduced before
				if _, err := reduce(ws); err != nil {
					t.Fatal(err)
				}
				if got := updated(ws); !got.Equal(at(tc.want).Time) {
					t.Errorf("updated at %s, want second %d", got, tc.want)
				}
				for _, entry := range ws.ManagedFields {
					if entry.FieldsV1 != nil {
						t.Error("fields are kept")
					}
				}
			}
		})
	}
}
