package combinedstatus

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("a", 64)
	for value, want := range map[string]string{
		"":                      "",
		"nginx":                 "nginx",
		strings.Repeat("a", 63): strings.Repeat("a", 63),
		long:                    strings.Repeat("a", 42) + "-",
		"system:node":           "system-node-",
		":":                     "",
		"-x-":                   "x-",
		"größe":                 "gr--e-",
	} {
		got := labelValue(value)
		if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
			t.Errorf("%q becomes %q: %v", value, got, errs)
		}
		whole := len(validation.IsValidLabelValue(value)) == 0
		if whole && got != value || !whole && (!strings.HasPrefix(got, want) || len(got) != len(want)+20) {
			t.Errorf("%q becomes %q, want %q and perhaps a hash", value, got, want)
		}
	}
	if a, b := labelValue(long+"a"), labelValue(long+"b"); a == b {
		t.Errorf("two values have the label %q", a)
	}
	if a, b := labelValue("a:b"), labelValue("a/b"); a == b {
		t.Errorf("two values have the label %q", a)
	}
}

func TestPairOf(t *testing.T) {
	for name, pair := range map[string]match.Pair{
		"Plain":     {Ref: objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}, Policy: "p"},
		"CoreGroup": {Ref: objref.Ref{Resource: "namespaces", Name: "web"}, Policy: "p"},
		"Long":      {Ref: objref.Ref{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "system:x:" + strings.Repeat("y", 100)}, Policy: strings.Repeat("z", 200)},
	} {
		t.Run(name, func(t *testing.T) {
			want := metadataOf(metav1.ObjectMeta{}, pair, metav1.OwnerReference{UID: "u", Kind: "K"})
			if got, ok := pairOf(&want); !ok || got != pair {
				t.Errorf("it says that it is about %v", got)
			}
			if len(want.Labels) != 5 {
				t.Errorf("labels %v", want.Labels)
			}
			again := metadataOf(want, pair, metav1.OwnerReference{UID: "u", Kind: "K", APIVersion: "other/v2"})
			if diff := cmp.Diff(want, again); diff != "" || !sameMetadata(&want, &again) {
				t.Errorf("built again (-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := pairOf(&metav1.ObjectMeta{Labels: map[string]string{controlv1alpha1.LabelSubjectName: "x"}}); ok {
		t.Error("what does not say everything is known")
	}
}

func TestMetadataOfOthersStays(t *testing.T) {
	pair := match.Pair{Ref: objref.Ref{Resource: "configmaps", Namespace: "web", Name: "o"}, Policy: "p"}
	owner := metav1.OwnerReference{UID: "u", Kind: "ConfigMap", Name: "o", APIVersion: "v1"}
	want := metadataOf(metav1.ObjectMeta{Namespace: "web", Name: "n"}, pair, owner)
	foreign := *want.DeepCopy()
	foreign.Labels["mine"], foreign.Annotations["mine"] = "x", "y"
	foreign.OwnerReferences = append(foreign.OwnerReferences, metav1.OwnerReference{UID: "other"})
	if got := metadataOf(foreign, pair, owner); !sameMetadata(&foreign, &got) {
		t.Errorf("what is foreign is changed:\n%s", cmp.Diff(foreign, got))
	}
	for name, spoil := range map[string]func(*metav1.ObjectMeta){
		"Label":      func(m *metav1.ObjectMeta) { m.Labels[controlv1alpha1.LabelSubjectName] = "other" },
		"NoLabel":    func(m *metav1.ObjectMeta) { delete(m.Labels, controlv1alpha1.LabelBindingPolicy) },
		"Annotation": func(m *metav1.ObjectMeta) { m.Annotations[controlv1alpha1.LabelSubjectName] = "other" },
		"NoOwner":    func(m *metav1.ObjectMeta) { m.OwnerReferences = m.OwnerReferences[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			spoiled := *foreign.DeepCopy()
			spoil(&spoiled)
			got := metadataOf(spoiled, pair, owner)
			if sameMetadata(&spoiled, &got) {
				t.Error("nothing is to be done")
			}
			if now, ok := pairOf(&got); !ok || now != pair || got.Labels["mine"] != "x" || len(got.OwnerReferences) != 2 {
				t.Errorf("it becomes %v", got)
			}
		})
	}
}

// TestHashIgnoresEncoding: how an API server writes JSON does not matter; what it means does.
func TestHashIgnoresEncoding(t *testing.T) {
	results := func(raw string) []controlv1alpha1.NamedStatusCombination {
		return []controlv1alpha1.NamedStatusCombination{{Name: "c", ColumnNames: []string{"x"}, Rows: []controlv1alpha1.StatusCombinationRow{
			{Columns: []controlv1alpha1.Value{{Type: "Object", Object: &runtime.RawExtension{Raw: []byte(raw)}}}},
		}}}
	}
	hash := func(r []controlv1alpha1.NamedStatusCombination) string {
		t.Helper()
		h, err := hashOf(r)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash(results(`{"a":1,"b":[null,"<",1.5,18446744073709551615]}`))
	if again := hash(results(`{ "b": [null, "\u003c", 15e-1, 18446744073709552000], "a": 1 }`)); again != first {
		t.Error("the same in other words has another hash")
	}
	for _, other := range []string{`{"a":1}`, `{"a":"1","b":[null,"<",1.5,18446744073709551615]}`, `{"a":1,"b":["<",1.5,18446744073709551615]}`} {
		if hash(results(other)) == first {
			t.Errorf("%s has the same hash", other)
		}
	}
	if hash(nil) != hash([]controlv1alpha1.NamedStatusCombination{}) {
		t.Error("nothing has two hashes")
	}
	changed := results(`{}`)
	before := hash(changed)
	changed[0].RowErrors = []controlv1alpha1.RowError{{ColumnName: "x", Error: "e"}}
	if hash(changed) == before {
		t.Error("an error does not matter")
	}
}

func TestReduceTwice(t *testing.T) {
	cs := &controlv1alpha1.CombinedStatus{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	once, err := reduce(cs)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := reduce(once)
	if err != nil || once != twice {
		t.Errorf("reduced twice: %v, %v", twice, err)
	}
	if kept := once.(*stored); kept.hash == "" || kept.ManagedFields != nil {
		t.Errorf("kept %v", kept)
	}
}
