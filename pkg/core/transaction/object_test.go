package transaction

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// definition returns a CustomResourceDefinition with this option, "" for none, that was written by
// this manager.
func definition(onRemoval, by string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{Object: map[string]any{"kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "buckets.example.org"}}}
	if onRemoval != "" {
		crd.SetAnnotations(map[string]string{controlv1alpha1.AnnotationOnRemoval: onRemoval})
	}
	if by != "" {
		crd.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: by, Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:starling.io/on-removal":{}}}}`)},
		}})
	}
	return crd
}

// TestOnRemoval: what the user wants for a CustomResourceDefinition counts. Otherwise it is deleted
// in the clusters only if the deletion is allowed, whatever an earlier try has written.
func TestOnRemoval(t *testing.T) {
	common := func(value string) map[string]string {
		return map[string]string{controlv1alpha1.AnnotationOnRemoval: value}
	}
	for name, tc := range map[string]struct {
		live    *unstructured.Unstructured
		common  map[string]string
		allowed bool
		want    string
	}{
		"Installed":                {definition("", ""), nil, false, "orphan"},
		"TriedBefore":              {definition("orphan", RemovalManager), nil, false, "orphan"},
		"Allowed":                  {definition("", ""), nil, true, ""},
		"AllowedNow":               {definition("orphan", RemovalManager), nil, true, ""},
		"TheUserKeepsIt":           {definition("orphan", "kubectl-annotate"), nil, true, "orphan"},
		"AMistake":                 {definition("bogus", "kubectl-annotate"), nil, false, "orphan"},
		"TheUserDeletesIt":         {definition("delete", "kubectl-annotate"), nil, false, "delete"},
		"ThePackageDeletesAllOfIt": {definition("delete", FieldManager), common("delete"), false, "delete"},
		"ThePackageKeepsAllOfIt":   {definition("orphan", FieldManager), common("orphan"), true, "orphan"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OnRemoval(tc.live, tc.common, tc.allowed); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestHasRemoval: only what a removal has written is taken back.
func TestHasRemoval(t *testing.T) {
	for name, tc := range map[string]struct {
		crd  *unstructured.Unstructured
		want bool
	}{
		"None":          {definition("", ""), false},
		"OfTheRemoval":  {definition("orphan", RemovalManager), true},
		"OfThePackage":  {definition("orphan", FieldManager), false},
		"OfTheUser":     {definition("orphan", "kubectl-annotate"), false},
		"OfTheUserToo":  {both(definition("orphan", RemovalManager), definition("orphan", "kubectl-annotate")), false},
		"NobodyIsKnown": {unmanaged(definition("orphan", RemovalManager)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := HasRemoval(tc.crd); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func both(a, b *unstructured.Unstructured) *unstructured.Unstructured {
	a.SetManagedFields(append(a.GetManagedFields(), b.GetManagedFields()...))
	return a
}

func unmanaged(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetManagedFields(nil)
	return o
}
