package apiserver

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/store"
)

func TestStoredSelectors(t *testing.T) {
	tier := store.MetadataLabel("tier")
	for name, tc := range map[string]struct{ fields, labels, wantFields, wantLabels string }{
		"Nothing": {},
		"Fields":  {"spec.lifecycle!=Draft,metadata.name=a", "", "metadata.name=a,spec.lifecycle!=Draft", ""},
		"Labels":  {"", "a in (b,c),!d", "", "a in (b,c),!d"},
		"Kptfile": {"spec.packageMetadata.labels[tier]=x y,spec.revision=1", "a=b", "spec.revision=1", "a=b," + tier + "=" + store.MetadataValue("x y")},
		"NotThat": {"spec.packageMetadata.labels[tier]!=x", "", "", tier + "!=" + store.MetadataValue("x")},
	} {
		byField, err := fields.ParseSelector(tc.fields)
		if err != nil {
			t.Fatal(err)
		}
		byLabel, err := labels.Parse(tc.labels)
		if err != nil {
			t.Fatal(err)
		}
		gotFields, gotLabels, err := storedSelectors(byField, byLabel)
		if err != nil || sorted(gotFields) != sorted(tc.wantFields) || gotLabels != tc.wantLabels {
			t.Errorf("%s: %q, %q, %v; want %q, %q", name, gotFields, gotLabels, err, tc.wantFields, tc.wantLabels)
		}
	}
}

// sorted sorts the terms of a selector, whose order is irrelevant.
func sorted(selector string) string {
	terms := strings.Split(selector, ",")
	slices.Sort(terms)
	return strings.Join(terms, ",")
}

func TestCheckFieldSelector(t *testing.T) {
	for field, known := range map[string]bool{
		"metadata.name": true, "spec.revision": true, "spec.packageMetadata.labels[a/b]": true,
		"spec.tasks": false, "status.publishedBy": false, "spec.packageMetadata.labels[a": false, "": false,
	} {
		if _, _, err := checkFieldSelector(field, "x"); (err == nil) != known {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestSummarise(t *testing.T) {
	revision := func(namespace, repository, name string, number int, l porchv1alpha1.PackageRevisionLifecycle, version string) *store.Revision {
		cr := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, ResourceVersion: version}}
		cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Spec.Revision, cr.Spec.Lifecycle = repository, name, number, l
		return &store.Revision{PackageRevision: store.Serve(cr)}
	}
	got := summarise([]*store.Revision{
		revision("b", "r", "a/x", 2, porchv1alpha1.LifecyclePublished, "99"), revision("b", "r", "a/x", 3, porchv1alpha1.LifecycleDeletionProposed, "100"),
		revision("b", "r", "a/x", 0, porchv1alpha1.LifecycleDraft, "9"), revision("a", "r", "z", 0, porchv1alpha1.LifecycleDraft, "1"),
	})
	want := []struct {
		namespace, name, version string
		latest                   int
	}{{"a", "r.z", "1", 0}, {"b", "r.a.x", "100", 3}}
	if len(got) != len(want) {
		t.Fatalf("%d packages", len(got))
	}
	for i, w := range want {
		if g := got[i]; g.Namespace != w.namespace || g.Name != w.name || g.ResourceVersion != w.version || g.Status.LatestRevision != w.latest {
			t.Errorf("%d: %+v, want %+v", i, g, w)
		}
	}
}

// TestNoProtobuf checks that protobuf is not offered: our kinds have no such form.
func TestNoProtobuf(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, info := range (withoutProtobuf{serializer.NewCodecFactory(scheme)}).SupportedMediaTypes() {
		types = append(types, info.MediaType)
	}
	if diff := cmp.Diff([]string{runtime.ContentTypeJSON, runtime.ContentTypeYAML}, types[:2]); diff != "" || strings.Contains(strings.Join(types, " "), "protobuf") {
		t.Errorf("offers %v", types)
	}
}

// TestMaxRows checks that only requests for a table receive more than a page.
func TestMaxRows(t *testing.T) {
	const kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	for accept, want := range map[string]int{
		kubectl: maxTableRows, "": 0, "application/json": 0, "application/json,application/json;as=Table;v=v1;g=meta.k8s.io": 0,
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io": 0, "a b;;": 0,
	} {
		q := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		q.Header.Set("Accept", accept)
		got := -1
		markTableRequests(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got = maxRows(q.Context()) })).ServeHTTP(httptest.NewRecorder(), q)
		if got != want {
			t.Errorf("%s: %d, want %d", accept, got, want)
		}
	}
}

// TestCountsOnly checks that only tables without objects are answered without files: whatever else
// a client accepts, it must not receive packages that look empty.
func TestCountsOnly(t *testing.T) {
	const kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	for _, tc := range []struct {
		accept, query string
		want          bool
	}{
		{kubectl, "", true},
		{kubectl, "?includeObject=Metadata&limit=500", true},
		{kubectl, "?includeObject=None", true},
		{kubectl, "?includeObject=Object", false},
		{"application/json", "", false},
		{"application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "", false},
		{"application/json;as=Table;v=v1;g=example.com,application/json", "", false},
		{"text/html;as=Table;v=v1;g=meta.k8s.io,application/json", "", false},
		{"application/json,application/json;as=Table;v=v1;g=meta.k8s.io", "", false},
	} {
		q := httptest.NewRequest(http.MethodGet, "/"+tc.query, http.NoBody)
		q.Header.Set("Accept", tc.accept)
		got := false
		markTableRequests(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { got = countsOnly(q.Context()) })).ServeHTTP(httptest.NewRecorder(), q)
		if got != tc.want {
			t.Errorf("%s %s: %t, want %t", tc.accept, tc.query, got, tc.want)
		}
	}
}

func TestTables(t *testing.T) {
	list := &porchv1alpha1.PackageRevisionList{ListMeta: metav1.ListMeta{ResourceVersion: "5", Continue: "c"}, Items: []porchv1alpha1.PackageRevision{
		{ObjectMeta: metav1.ObjectMeta{Name: "r.a.w", Labels: map[string]string{porchv1alpha1.LatestRevisionLabel: "true"}}},
	}}
	list.Items[0].Spec = porchv1alpha1.PackageRevisionSpec{PackageName: "a", WorkspaceName: "w", Revision: 3, Lifecycle: porchv1alpha1.LifecyclePublished, RepositoryName: "r"}
	got, err := revisionKind.ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{"r.a.w", "a", "w", int64(3), true, "Published", "r"}, got.Rows[0].Cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if got.ResourceVersion != "5" || got.Continue != "c" || len(got.ColumnDefinitions) != len(got.Rows[0].Cells) {
		t.Errorf("table %+v", got)
	}
	if _, err := revisionKind.ConvertToTable(t.Context(), &porchv1alpha1.PorchPackage{}, nil); err == nil {
		t.Error("a package is no revision")
	}
}
