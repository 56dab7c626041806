package wdsserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
)

// TestRewrites: an object of which fields may be missing is whole when everybody who applied it has
// done so in the version in which it is stored now.
func TestRewrites(t *testing.T) {
	parse := func(raw string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		if err := kjson.Unmarshal([]byte(raw), &object.Object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	object := func(annotations, managers string) string {
		return `{"apiVersion":"e/v1","kind":"W","metadata":{"name":"a","annotations":{` + annotations + `},"managedFields":[` + managers + `]}}`
	}
	const (
		lacks   = `"starling.io/not-converted-from":"v1alpha1"`
		alpha   = `"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"e/v1alpha1\"}"`
		applied = `"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"e/v1\"}"`
	)
	manager := func(name, operation, version string) string {
		return `{"manager":"` + name + `","operation":"` + operation + `","apiVersion":"` + version + `"}`
	}
	flux, argo, edit := manager("flux", "Apply", "e/v1alpha1"), manager("argo", "Apply", "e/v1alpha1"), manager("kubectl-edit", "Update", "e/v1")
	for name, tc := range map[string]struct {
		before, now, subresource string
		want                     bool
	}{
		"Created":            {"", object(lacks, ""), "", true},
		"LackedNothing":      {object("", flux+","+argo), object(lacks, manager("flux", "Apply", "e/v1")+","+argo), "", true},
		"Edited":             {object(lacks+","+alpha, ""), object(lacks+","+alpha, edit), "", false},
		"EditedOnly":         {object(lacks, ""), object(lacks, edit), "", false},
		"Applied":            {object(lacks+","+alpha, ""), object(lacks+","+applied, ""), "", true},
		"AppliedServerSide":  {object(lacks, flux), object(lacks, manager("flux", "Apply", "e/v1")), "", true},
		"AppliedByOneOfTwo":  {object(lacks, flux+","+argo), object(lacks, manager("flux", "Apply", "e/v1")+","+argo), "", false},
		"AppliedByAnother":   {object(lacks, flux), object(lacks, flux+","+manager("argo", "Apply", "e/v1")), "", false},
		"LabelledAfterThat":  {object(lacks+","+applied, ""), object(lacks+","+applied, edit), "", false},
		"EditedAfterAnApply": {object(lacks, flux), object(lacks, flux+","+edit), "", false},
		"Status":             {object(lacks+","+alpha, ""), object(lacks+","+applied, ""), "status", false},
	} {
		t.Run(name, func(t *testing.T) {
			now, operation := parse(tc.now), admission.Create
			var before runtime.Object
			if tc.before != "" {
				before, operation = parse(tc.before), admission.Update
			}
			a := admission.NewAttributesRecord(now, before, schema.GroupVersionKind{}, "", "a", schema.GroupVersionResource{}, tc.subresource, operation, nil, false, nil)
			if got := rewrites(a, now); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// TestExtends: what may differ is metadata, and what an API server adds by default, also in the
// elements of lists.
func TestExtends(t *testing.T) {
	const before = `{"apiVersion":"v1alpha1","metadata":{"a":"b"},"spec":{"size":3,"list":[{"a":1}],"none":null}}`
	for name, tc := range map[string]struct {
		now  string
		want bool
	}{
		"Metadata": {`{"apiVersion":"v1","metadata":{},"spec":{"size":3,"list":[{"a":1}],"none":null}}`, true},
		"Defaults": {`{"spec":{"size":3,"list":[{"a":1,"b":2}],"none":null,"new":{"x":1}},"more":1}`, true},
		"Changed":  {`{"spec":{"size":4,"list":[{"a":1}],"none":null}}`, false},
		"InAList":  {`{"spec":{"size":3,"list":[{"a":2}],"none":null}}`, false},
		"Longer":   {`{"spec":{"size":3,"list":[{"a":1},{}],"none":null}}`, false},
		"Removed":  {`{"spec":{"list":[{"a":1}],"none":null}}`, false},
		"NullGone": {`{"spec":{"size":3,"list":[{"a":1}]}}`, false},
		"NoSpec":   {`{"metadata":{"a":"b"}}`, false},
		"NoMap":    {`{"spec":"x"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := [2]unstructured.Unstructured{}
			for i, raw := range []string{tc.now, before} {
				if err := kjson.Unmarshal([]byte(raw), &objects[i].Object); err != nil {
					t.Fatal(err)
				}
			}
			if got := extends(&objects[0], &objects[1]); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
