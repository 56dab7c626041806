package destinations

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/destination"
)

// TestAddWork: what other spaces deliver counts, and what other Bindings of the same space do while
// a package is validated. The Binding of the package is known by its whole name: a label has at
// most 63 characters of it.
func TestAddWork(t *testing.T) {
	t.Parallel()
	const space = types.UID("wds-uid")
	long := "pkg-" + strings.Repeat("a", 70)
	crd := &destination.CRD{
		ObjectMeta: metav1.ObjectMeta{Name: "buckets.example.org"},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.org", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Bucket", Plural: "buckets"}},
	}
	for name, tc := range map[string]struct {
		wds, binding string
		deleting     bool
		want         []string
	}{
		"OtherSpace":        {wds: "other-uid", binding: long, want: []string{"wds1/" + long}},
		"OwnBinding":        {wds: string(space), binding: long},
		"OtherWithSameHead": {wds: string(space), binding: long + "b", want: []string{"/" + long + "b"}},
		"BeingDeleted":      {wds: "other-uid", binding: "x", deleting: true},
	} {
		work := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "work", "namespace": "c1"},
			"spec": map[string]any{"workload": map[string]any{"manifests": []any{map[string]any{
				"apiVersion": "example.org/v1", "kind": "Bucket", "metadata": map[string]any{"name": "reports"},
			}}}},
		}}
		work.SetLabels(map[string]string{
			controlv1alpha1.LabelWDSUID: tc.wds, controlv1alpha1.LabelWDSName: "wds1", controlv1alpha1.LabelBindingName: tc.binding[:min(len(tc.binding), 54)],
		})
		work.SetAnnotations(map[string]string{controlv1alpha1.AnnotationBinding: tc.binding})
		if tc.deleting {
			now := metav1.Now()
			work.SetDeletionTimestamp(&now)
		}
		in := newInITS("its1", nil)
		in.beside = long
		if err := in.addWork(space, work, &destination.Input{Changes: []destination.Change{{After: crd}}}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, foreign := range in.foreign["c1"] {
			got = append(got, foreign.Space+"/"+foreign.Binding)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
