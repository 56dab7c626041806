package statusreports

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
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
	other := ws("c1", name, `{"a":9}`)
	other.Spec.SourceRef.Namespace = "shop"
	sourced := ws("c1", name, `{"a":1}`)
	sourced.Annotations = map[string]string{controlv1alpha1.AnnotationGeneration: "7", controlv1alpha1.AnnotationSourceGeneration: "3/u"}
	forged := ws("c1", name, `{"a":1}`)
	forged.Annotations = map[string]string{controlv1alpha1.AnnotationGeneration: "-7", controlv1alpha1.AnnotationSourceGeneration: "x"}
	gone := ws("c1", name, "")
	gone.Annotations = map[string]string{controlv1alpha1.AnnotationGone: "true"}
	one := &Report{Report: corestatus.Report{Status: map[string]any{"a": int64(1)}}}

	type its struct {
		items    []*controlv1alpha1.WorkStatus
		unsynced bool
	}
	for caseName, tc := range map[string]struct {
		spaces    map[string]its
		home      *home
		uid       types.UID
		want      *Report
		wantKnown bool
	}{
		"Reported": {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}}}, want: one, wantKnown: true},
		"Generations": {
			spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{sourced}}},
			want:   &Report{Report: corestatus.Report{Status: map[string]any{"a": int64(1)}, Generation: 7, Source: corestatus.Source{UID: "u", Generation: 3}}}, wantKnown: true,
		},
		"OfThisObject": {
			spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{sourced}}}, uid: "u",
			want: &Report{Report: corestatus.Report{Status: map[string]any{"a": int64(1)}, Generation: 7, Source: corestatus.Source{UID: "u", Generation: 3}}}, wantKnown: true,
		},
		"OfAFormerObject":           {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{sourced}}}, uid: "v", wantKnown: true},
		"OfAnAgentThatReportsNoUID": {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}}}, uid: "v", want: one, wantKnown: true},
		"Gone":                      {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{gone}}}, wantKnown: true},
		"NoGenerations":             {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{forged}}}, want: one, wantKnown: true},
		"WithoutStatus":             {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, "")}}}, want: &Report{}, wantKnown: true},
		"NotReported":               {spaces: map[string]its{"its1": {}}, wantKnown: true},
		"OtherCluster":              {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c10", name, `{"a":1}`)}}}, wantKnown: true},
		"SameNameInOther":           {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{other}}}, wantKnown: true},
		"NotRead":                   {spaces: map[string]its{"its1": {unsynced: true}}},
		"OtherNotRead":              {spaces: map[string]its{"its1": {}, "its2": {unsynced: true}}, wantKnown: true},
		"ClusterUnknown": {
			spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}}}, home: &home{state: inventory.Unknown},
		},
		"ClusterDenied": {
			spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}}}, home: &home{state: inventory.Absent}, wantKnown: true,
		},
		"ReportedThere": {
			spaces: map[string]its{"its1": {}, "its2": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}}},
			home:   &home{its: "its2", state: inventory.Accepted}, want: one, wantKnown: true,
		},
		"ByHandOnly": {spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", "by-hand", `{"a":9}`)}}}, wantKnown: true},
		"AnotherByHand": {
			spaces: map[string]its{"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", "by-hand", `{"a":9}`), ws("c1", name, `{"a":1}`)}}},
			want:   one, wantKnown: true,
		},
		"SameClusterInTwo": { // the second one can neither replace the report nor make it unknown
			spaces: map[string]its{
				"its1": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":1}`)}},
				"its2": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":2}`)}},
			},
			want: one, wantKnown: true,
		},
		"OnlyTheOtherITSReports": { // an object that was not delivered to the cluster, or not yet
			spaces: map[string]its{"its1": {}, "its2": {items: []*controlv1alpha1.WorkStatus{ws("c1", name, `{"a":2}`)}}}, wantKnown: true,
		},
	} {
		t.Run(caseName, func(t *testing.T) {
			at := tc.home
			if at == nil {
				at = &home{its: "its1", state: inventory.Accepted}
			}
			r := newReader(at)
			for its, content := range tc.spaces {
				boxes := r.add(its, mailboxes.Limits{Reports: 10, Bytes: 1 << 10})
				for _, item := range content.items {
					if err := boxes.Add(item); err != nil {
						t.Fatal(err)
					}
				}
				if content.unsynced {
					continue
				}
				if err := boxes.Replace(listed(content.items...), ""); err != nil {
					t.Fatal(err)
				}
			}
			got, known := r.Get(ref, tc.uid, "c1")
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Report{}, "Version")); diff != "" || known != tc.wantKnown {
				t.Errorf("known %v, want %v (-want +got):\n%s", known, tc.wantKnown, diff)
			}
		})
	}
}

// home is where all clusters are.
type home struct {
	its   string
	state inventory.State
}

func (h home) Home(string) (string, inventory.State) { return h.its, h.state }
func (home) OnChange(func(string))                   {}

// refOf returns the object that the reports of these tests are about.
func refOf(name string) objref.Ref {
	return objref.Ref{Resource: "services", Namespace: "n", Name: name}
}

// report returns the WorkStatus that the agent of a cluster writes for a service.
func report(cluster, name, version, status string) *controlv1alpha1.WorkStatus {
	ref := refOf(name)
	ws := &controlv1alpha1.WorkStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: corestatus.ReportName(ref), ResourceVersion: version},
		Spec:       controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}},
	}
	if status != "" {
		ws.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	return ws
}

// listed returns WorkStatuses as a list of them.
func listed(items ...*controlv1alpha1.WorkStatus) (all []any) {
	for _, item := range items {
		all = append(all, item)
	}
	return all
}

// TestMailboxIsBounded: of a cluster that reports more, or more bytes, than are read of one
// cluster, it is unknown what it reports on other objects, until there is room again. The others
// are not affected.
func TestMailboxIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		limits mailboxes.Limits
		status string
	}{
		"ByCount": {limits: mailboxes.Limits{Reports: 20, Bytes: 1 << 20}, status: `{}`},
		"BySize":  {limits: mailboxes.Limits{Reports: 1000, Bytes: 20 << 10}, status: `{"a":"` + strings.Repeat("x", 1000) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(home{its: "its1", state: inventory.Accepted})
			boxes := r.add("its1", tc.limits)
			var all, some []*controlv1alpha1.WorkStatus
			for i := range 100 {
				all = append(all, report("greedy", fmt.Sprint(i), "1", tc.status))
			}
			modest := report("modest", "0", "1", tc.status)
			some = append(some, all[95:]...)
			expect := func(cluster, object string, wantFound, wantKnown bool) {
				t.Helper()
				if got, known := r.Get(refOf(object), "", cluster); (got != nil) != wantFound || known != wantKnown {
					t.Errorf("report of %s on %s: found %t, known %t", cluster, object, got != nil, known)
				}
			}
			if err := boxes.Replace(listed(append(all, modest)...), ""); err != nil {
				t.Fatal(err)
			}
			kept := len(boxes.Of("greedy"))
			if kept > 20 || kept < 18 {
				t.Errorf("%d reports are kept", kept)
			}
			if diff := cmp.Diff(map[string]float64{"greedy": float64(100 - kept)}, r.refusals()); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			expect("greedy", "0", true, true)
			expect("greedy", "99", false, false)
			expect("greedy", "other", false, false)
			expect("modest", "0", true, true)
			expect("modest", "99", false, true)
			if err := boxes.Replace(listed(append(some, modest)...), ""); err != nil {
				t.Fatal(err)
			}
			expect("greedy", "99", true, true)
			expect("greedy", "other", false, true)
			if len(r.refusals()) > 0 {
				t.Errorf("still refused: %v", r.refusals())
			}
		})
	}
}

// received has the names of the objects of which a report changed.
type received struct {
	names []string
	read  int
}

func (r *received) OnReport(key Key) { r.names = append(r.names, key.Ref.Name) }
func (r *received) OnReportsRead()   { r.read++ }

// TestReportThatNamesAnotherObject: it is a report on neither, until the agent has put it right.
func TestReportThatNamesAnotherObject(t *testing.T) {
	a := report("c1", "a", "1", "")
	b := report("c1", "a", "2", "")
	b.Spec.SourceRef.Name = "b"
	var told received
	r := newReader(home{its: "its1", state: inventory.Accepted})
	r.listeners = []Listener{&told}
	boxes := r.add("its1", mailboxes.Limits{Reports: 10, Bytes: 1 << 10})
	for _, do := range []func() error{
		func() error { return boxes.Add(a) },
		func() error { return boxes.Update(a) }, // nothing new
		func() error { return boxes.Update(b) },
		func() error { return boxes.Delete(b) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a", "a"}, told.names); diff != "" {
		t.Errorf("notified (-want +got):\n%s", diff)
	}
}

// TestClusterMoves: when another ITS has the cluster, all its reports are looked at again, in both.
func TestClusterMoves(t *testing.T) {
	at := &home{its: "its1", state: inventory.Accepted}
	var told received
	r := newReader(at)
	for its, name := range map[string]string{"its1": "a", "its2": "b"} {
		if err := r.add(its, mailboxes.Limits{Reports: 10, Bytes: 1 << 10}).Add(report("c1", name, "1", "")); err != nil {
			t.Fatal(err)
		}
	}
	r.listeners = []Listener{&told}
	r.moved("c1")
	at.its = "its2"
	told.names = nil
	r.moved("c1")
	slices.Sort(told.names)
	if diff := cmp.Diff([]string{"a", "b"}, told.names); diff != "" {
		t.Errorf("notified (-want +got):\n%s", diff)
	}
	told.names = nil
	r.moved("c1")
	if len(told.names) > 0 {
		t.Errorf("notified of %q when nothing had changed", told.names)
	}
}

func TestLastReports(t *testing.T) {
	r := newReader(home{its: "its1", state: inventory.Accepted})
	one, two := r.add("its1", mailboxes.Limits{Reports: 10, Bytes: 1 << 10}), r.add("its2", mailboxes.Limits{Reports: 10, Bytes: 1 << 10})
	at := func(cluster, name string, second int64) *controlv1alpha1.WorkStatus {
		ws := report(cluster, name, strconv.FormatInt(second, 10), "")
		ws.CreationTimestamp = metav1.Time{Time: time.Unix(second, 0)}
		return ws
	}
	want := func(what string, values map[string]float64, errs ...error) {
		t.Helper()
		if diff := cmp.Diff(values, r.lastReports()); diff != "" || errors.Join(errs...) != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, errs, diff)
		}
	}
	want("added", map[string]float64{"c1": 10, "c2": 8},
		one.Add(at("c1", "a", 10)), one.Add(at("c1", "b", 7)), one.Add(at("c2", "a", 8)), two.Add(at("c1", "a", 99)))
	want("changed", map[string]float64{"c1": 10, "c2": 12}, one.Update(at("c2", "a", 12)))
	want("deleted", map[string]float64{"c1": 10}, one.Delete(at("c1", "a", 10)), one.Delete(at("c2", "a", 12)))
	want("all deleted", map[string]float64{}, one.Delete(at("c1", "b", 7)))
}

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
			for range 2 { // what was reduced before may be reduced again
				ws = reduced(ws).Value
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
