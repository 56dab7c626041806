package agent

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

func TestReduceObject(t *testing.T) {
	type object = map[string]any
	build := func(owner object, rest object) *unstructured.Unstructured {
		obj := object{"apiVersion": "v1", "kind": "Pod", "metadata": object{
			"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": int64(2),
			"labels": object{"a": "b"}, "annotations": object{"a": "b"}, "managedFields": []any{object{}},
		}, "spec": object{"big": "x"}}
		if owner != nil {
			obj["metadata"].(object)["ownerReferences"] = []any{owner}
		}
		maps.Copy(obj, rest)
		return &unstructured.Unstructured{Object: obj}
	}
	amw := object{"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": "a", "uid": "x"}
	identity := metav1.ObjectMeta{Name: "n", Namespace: "ns", UID: "u", ResourceVersion: "7", Generation: 2}
	for name, tc := range map[string]struct {
		in          *unstructured.Unstructured
		wantApplied bool
		wantStatus  string
	}{
		"Applied":          {in: build(amw, object{"status": object{"b": int64(1), "a": "<"}}), wantApplied: true, wantStatus: `{"a":"\u003c","b":1}`},
		"WithoutStatus":    {in: build(amw, nil), wantApplied: true},
		"NullStatus":       {in: build(amw, object{"status": nil}), wantApplied: true},
		"StatusIsNoObject": {in: build(amw, object{"status": "fine"}), wantApplied: true},
		"NotApplied":       {in: build(nil, object{"status": object{"a": "b"}})},
		"OwnedBySomebody":  {in: build(object{"apiVersion": "apps/v1", "kind": "AppliedManifestWork", "name": "a", "uid": "x"}, object{"status": object{"a": "b"}})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := reduceObject(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			r := got.(*reported)
			if r.applied != tc.wantApplied || string(r.status) != tc.wantStatus {
				t.Errorf("applied %v, status %q, want %v, %q", r.applied, r.status, tc.wantApplied, tc.wantStatus)
			}
			if diff := cmp.Diff(identity, r.ObjectMeta); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if again, err := reduceObject(got); err != nil || again != got {
				t.Errorf("not idempotent: %v, %v", again, err)
			}
		})
	}
}

func TestReduceTruncates(t *testing.T) {
	whole := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "n", "namespace": "ns"},
		"status": map[string]any{"phase": "Running", "log": strings.Repeat("x", 1<<20)},
	}}
	r, err := keep(whole)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.status) > corestatus.MaxStatus || len(r.status) < corestatus.MaxStatus*9/10 || !strings.Contains(string(r.status), `"phase":"Running"`) {
		t.Errorf("%d bytes are kept: %.100s", len(r.status), r.status)
	}
	const want = "the status has about 1.0 MiB, more than 400 KiB; shortened: .log"
	if r.truncated != want {
		t.Errorf("truncated: %q, want %q", r.truncated, want)
	}
	// The hub accepts even less.
	less, err := r.within(2000)
	if err != nil {
		t.Fatal(err)
	}
	if len(less.status) > 2000 || less.truncated != "the status has about 1.0 MiB, more than 2000 bytes; shortened: .log" {
		t.Errorf("%d bytes are kept, truncated: %q", len(less.status), less.truncated)
	}
	if same, err := less.within(2000); err != nil || same != less {
		t.Errorf("truncated again: %v, %v", same, err)
	}
	if len(r.status) < corestatus.MaxStatus*9/10 {
		t.Error("the kept object was changed")
	}
}

func TestReduceReport(t *testing.T) {
	build := func(status string) *controlv1alpha1.WorkStatus {
		ws := &controlv1alpha1.WorkStatus{ObjectMeta: metav1.ObjectMeta{
			Name: "n", Labels: map[string]string{"other": "x", controlv1alpha1.LabelWDSUID: "u"},
		}}
		if status != "" {
			ws.Status = &runtime.RawExtension{Raw: []byte(status)}
		}
		return ws
	}
	hash := func(status string) string {
		got, err := reduceReport(build(status))
		if err != nil {
			t.Fatal(err)
		}
		r := got.(*report)
		if diff := cmp.Diff(map[string]string{controlv1alpha1.LabelWDSUID: "u"}, r.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		return r.hash
	}
	if got := hash(""); got != "" {
		t.Error("a hash of no status")
	}
	if got := hash("null"); got != "" {
		t.Error("a hash of a null status")
	}
	if hash(`{"a":1,"b":"<ü"}`) != hash(`{ "b":"\u003cü", "a":1 }`) {
		t.Error("the same status in another form hashes otherwise")
	}
	if hash(`{"a":1}`) == hash(`{"a":2}`) || hash(`{}`) == "" {
		t.Error("different statuses hash the same")
	}
	// The hash is that of the object's status as it is kept.
	if hash(`{"a":"<","n":12345678901}`) != hashOf([]byte(`{"a":"\u003c","n":12345678901}`)) {
		t.Error("a copied status hashes otherwise than what was copied")
	}
}

func TestReduceObjectKeepsGenerations(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation string
		status     map[string]any
		wantSource string
		want       int64
	}{
		"Said":        {annotation: "3/u", status: map[string]any{"observedGeneration": int64(7)}, wantSource: "3/u", want: 7},
		"Ungenerated": {annotation: "0/u", status: map[string]any{}, wantSource: "0/u"},
		"OfNoObject":  {annotation: "3", status: map[string]any{}},
		"NotSaid":     {status: map[string]any{}},
		"SharedByTwo": {annotation: ""},
		"Odd":         {annotation: "3x/u", status: map[string]any{"observedGeneration": "7"}},
		"Negative":    {annotation: "-3/u"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{"status": tc.status}}
			obj.SetAnnotations(map[string]string{controlv1alpha1.AnnotationSourceGeneration: tc.annotation})
			got, err := keep(obj)
			if err != nil {
				t.Fatal(err)
			}
			if got.source.String() != tc.wantSource || got.observed != tc.want {
				t.Errorf("source %q, observed %d; want %q, %d", got.source, got.observed, tc.wantSource, tc.want)
			}
		})
	}
}
