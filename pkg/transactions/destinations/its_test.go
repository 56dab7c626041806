package destinations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/destination"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
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

// TestReadReports: what clusters store of many CRDs is read with one request, of a few with one for
// each. A report that an agent has written under another name does not count.
func TestReadReports(t *testing.T) {
	t.Parallel()
	report := func(crd, name string) controlv1alpha1.WorkStatus {
		return controlv1alpha1.WorkStatus{
			ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: name},
			Spec:       controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{Group: definitions.Group, Resource: definitions.Resource, Name: crd}},
			Status:     &runtime.RawExtension{Raw: []byte(`{"storedVersions":["v1"]}`)},
		}
	}
	for _, count := range []int{1, fewReports, 3 * fewReports} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			var list controlv1alpha1.WorkStatusList
			var names []string
			want := map[string]map[string][]string{"c1": {}}
			for n := range 4 * fewReports {
				crd := fmt.Sprintf("k%d.example.org", n)
				list.Items = append(list.Items, report(crd, corestatus.ReportName(refOf(crd))), report("k0.example.org", fmt.Sprint("other-", n)))
				if n < count {
					names, want["c1"][crd] = append(names, crd), []string{"v1"}
				}
			}
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				answer := list
				if _, name, one := strings.Cut(r.URL.Query().Get("fieldSelector"), "metadata.name="); one {
					answer.Items = slices.DeleteFunc(slices.Clone(list.Items), func(ws controlv1alpha1.WorkStatus) bool { return ws.Name != name })
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(answer)
			}))
			defer server.Close()
			control, err := client.New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			in := newInITS("its1", &ITS{control: control})
			selectors := reportSelectors(names)
			for _, selector := range selectors {
				if err := in.readReports(t.Context(), names, selector, ""); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, in.stored); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if got := int(requests.Load()); got != len(selectors) || got > fewReports {
				t.Errorf("%d requests for %d CRDs", got, count)
			}
		})
	}
}
