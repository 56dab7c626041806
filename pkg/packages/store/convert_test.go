package store

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

func TestServedUID(t *testing.T) {
	a, b := ServedUID("2f7e3c9e-0000-4000-8000-000000000001"), ServedUID("2f7e3c9e-0000-4000-8000-000000000002")
	if a == b || a != ServedUID("2f7e3c9e-0000-4000-8000-000000000001") || ServedUID("") != "" {
		t.Errorf("%s, %s", a, b)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(string(a)) {
		t.Errorf("%s is no UUID", a)
	}
}

// TestMetadataComesBack checks that served metadata is what a user wrote, without private labels.
func TestMetadataComesBack(t *testing.T) {
	yes := true
	want := metav1.ObjectMeta{
		Name: "r.a.b.c.w", Namespace: "ns", UID: ServedUID("kept"), ResourceVersion: "7",
		Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "x"}, Finalizers: []string{"example.com/x"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "u", Controller: &yes}},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "m", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "porch.kpt.dev/v1alpha1",
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{}}`)},
		}},
	}
	cr := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: "r.a.b.c.w", Namespace: "ns", UID: types.UID("kept"), ResourceVersion: "7"}}
	cr.Spec.RepositoryName, cr.Spec.PackageName = "r", "a/b/c"
	cr.Spec.PackageMetadata = &porchv1alpha1.PackageMetadata{Labels: map[string]string{"any key": "any value, however long"}}
	if err := setServedMeta(cr, &want); err != nil {
		t.Fatal(err)
	}
	setPrivateLabels(cr)
	if len(cr.OwnerReferences) > 0 || len(cr.ManagedFields) > 0 {
		t.Error("what is served only is kept where it means something else")
	}
	for _, key := range []string{withinLabel("r", "a"), withinLabel("r", "a/b"), MetadataLabel("any key")} {
		if _, there := cr.Labels[key]; !there {
			t.Errorf("cannot be found by %s", key)
		}
	}
	if cr.Labels[withinLabel("r", "a/b/c")] != selfValue {
		t.Error("is not the package itself")
	}
	if diff := cmp.Diff(want, ServeMeta(cr)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	cr.Spec.PackageMetadata = nil
	setPrivateLabels(cr)
	if _, there := cr.Labels[MetadataLabel("any key")]; there {
		t.Error("is found by what is gone")
	}
}

func TestCheckLabels(t *testing.T) {
	latest := map[string]string{porchv1alpha1.LatestRevisionLabel: "true"}
	for name, tc := range map[string]struct {
		labels, before map[string]string
		want           int
	}{
		"None": {}, "Own": {map[string]string{"a": "b"}, nil, 0}, "Kept": {latest, latest, 0},
		"Set": {latest, nil, 1}, "Removed": {nil, latest, 1}, "Changed": {map[string]string{porchv1alpha1.LatestRevisionLabel: "no"}, latest, 1},
		"Private": {map[string]string{withinLabel("a", "b"): ""}, nil, 1},
	} {
		if got := checkLabels(tc.labels, tc.before); len(got) != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestOwnersOfManyFiles: owners that do not fit are an error. Without them, an apply would leave
// files that it should delete.
func TestOwnersOfManyFiles(t *testing.T) {
	owners := func(operation metav1.ManagedFieldsOperationType, size int) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{
			Manager: "m", Operation: operation, FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:resources":{"f:` + strings.Repeat("x", size) + `":{}}}}`)},
		}}
	}
	cr := &storev1alpha1.PackageRevision{}
	if err := setFilesManagedFields(cr, owners(metav1.ManagedFieldsOperationApply, maxFilesManagedFields)); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("got %v", err)
	}
	// Nobody has applied: there is nothing that an apply could leave out.
	if err := setFilesManagedFields(cr, owners(metav1.ManagedFieldsOperationUpdate, maxFilesManagedFields)); err != nil || ServeFilesMeta(cr).ManagedFields != nil {
		t.Errorf("%v, %v", err, ServeFilesMeta(cr).ManagedFields)
	}
	want := owners(metav1.ManagedFieldsOperationApply, 1000)
	if err := setFilesManagedFields(cr, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ServeFilesMeta(cr).ManagedFields); diff != "" {
		t.Errorf("unexpected owners (-want +got):\n%s", diff)
	}
}
