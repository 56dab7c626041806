package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// TestReadVersions checks that metadata lists of an API server are read, and that truncated ones
// are errors.
func TestReadVersions(t *testing.T) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "123"}}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	var want []version
	for i := range 300 {
		m := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("n", i), Namespace: "ns", UID: types.UID(fmt.Sprint("u", i)), ResourceVersion: fmt.Sprint(i), Generation: 7,
			CreationTimestamp: metav1.Unix(1e9, 0), Labels: map[string]string{"a": strings.Repeat("b", i)}, Finalizers: []string{"x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:a":{}}`)}}},
		}}
		list.Items = append(list.Items, m)
		want = append(want, version{"ns", m.Name, m.ResourceVersion, m.UID})
	}
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(list, &out); err != nil {
		t.Fatal(err)
	}
	meta, got, err := readVersions(bufio.NewReader(bytes.NewReader(out.Bytes())))
	if err != nil || meta.ResourceVersion != "123" {
		t.Fatal(meta, err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(version{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	whole := out.Bytes()
	const before = 60 // the list begins about here
	for n := before; n < len(whole); n += 509 {
		if _, got, err := readVersions(bufio.NewReader(bytes.NewReader(whole[:n]))); err == nil && len(got) < len(want) {
			t.Fatalf("cut off at %d of %d: no error, %d items", n, len(whole), len(got))
		}
	}
	for name, text := range map[string]string{"JSON": `{"kind":"PartialObjectMetadataList"}`, "Nothing": "", "Huge": "k8s\x00\x12\xff\xff\xff\x7f\x12\xff\xff\xff\x7f"} {
		if _, _, err := readVersions(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzReadVersions(f *testing.F) {
	f.Add([]byte("k8s\x00\x12\x06\x12\x04\x0a\x02\x0a\x00"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _, _ = readVersions(bufio.NewReader(bytes.NewReader(data))) })
}

// TestReadItems checks that a list is read item by item, with its fields in any order, and that a
// truncated one is an error.
func TestReadItems(t *testing.T) {
	text := `{"kind":"PackageRevisionList","items":[{"metadata":{"name":"a"},"spec":{"packageName":"p"}},{"metadata":{"name":"b"}}],"apiVersion":"x","metadata":{"resourceVersion":"5"},"more":{"a":[1]}}`
	var names []string
	meta, err := readItems(json.NewDecoder(strings.NewReader(text)), func(cr *storev1alpha1.PackageRevision) { names = append(names, cr.Name+cr.Spec.PackageName) })
	if err != nil || meta.ResourceVersion != "5" || strings.Join(names, " ") != "ap b" {
		t.Errorf("%+v, %v, %v", meta, names, err)
	}
	for n := range text {
		if _, err := readItems(json.NewDecoder(strings.NewReader(text[:n])), func(*storev1alpha1.PackageRevision) {}); err == nil {
			t.Errorf("%q: no error", text[:n])
		}
	}
	if _, err := readItems(json.NewDecoder(strings.NewReader(`{"items":{}}`)), nil); err == nil {
		t.Error("what is no list: no error")
	}
}

func TestPages(t *testing.T) {
	whole := &Listing{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
	for i := range 7 {
		whole.Items = append(whole.Items, &Revision{PackageRevision: &porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}})
	}
	names, pages, left := "", 0, ""
	for next := (continueToken{}); ; {
		page := whole.page(next.From, 3, metav1.ListOptions{})
		pages++
		for _, item := range page.Items {
			names += item.Name
		}
		if page.ResourceVersion != "9" {
			t.Errorf("resourceVersion %q", page.ResourceVersion)
		}
		if page.RemainingItemCount != nil {
			left += fmt.Sprint(*page.RemainingItemCount)
		}
		var ok bool
		if next, ok = parseContinue(page.Continue); !ok {
			break
		}
	}
	if names != "0123456" || pages != 3 || left != "41" {
		t.Errorf("%s in %d pages, left %s", names, pages, left)
	}
	if page := whole.page(0, 3, metav1.ListOptions{LabelSelector: "a"}); page.RemainingItemCount != nil {
		t.Error("a list with a selector has a remainingItemCount")
	}
	if page := whole.page(99, 3, metav1.ListOptions{}); len(page.Items) != 0 || page.Continue != "" {
		t.Errorf("behind the end: %+v", page)
	}
	for _, text := range []string{"", "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", continueToken{Version: "1", From: -1}.String()} {
		if _, ok := parseContinue(text); ok {
			t.Errorf("%q is a token of ours", text)
		}
	}
}

func TestListCache(t *testing.T) {
	var l listCache
	now := time.Unix(0, 0)
	key := func(i int) listKey { return listKey{version: fmt.Sprint(i)} }
	for i := range maxLists + 3 {
		l.add(key(i), &Listing{}, now.Add(time.Duration(i)))
	}
	if len(l.known) != maxLists || l.get(key(2), now) != nil || l.get(key(3), now) == nil {
		t.Errorf("%d lists; the oldest go", len(l.known))
	}
	if l.get(key(3), now.Add(listTTL+time.Second)) != nil {
		t.Error("a list is kept forever")
	}
}

func TestRevisionCache(t *testing.T) {
	s := newRevisionCache()
	revision := func(uid, version string, size int) *storev1alpha1.PackageRevision {
		cr := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
		cr.Annotations = map[string]string{"a": strings.Repeat("x", size)}
		cr.Served.ManagedFields = `[{"manager":"m","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}]`
		return cr
	}
	if s.known.Len() > 0 {
		t.Error("a new cache has revisions")
	}
	a, b := s.add(revision("a", "1", 0)), s.add(revision("b", "1", 0))
	if s.get("a", "1") != a || s.get("a", "2") != nil || s.get("c", "1") != nil {
		t.Error("a revision is known at the version that was seen")
	}
	if a.ManagedFields[0].FieldsV1 != b.ManagedFields[0].FieldsV1 {
		t.Error("equal fields are stored twice")
	}
	s.add(revision("a", "2", 0))
	if s.get("a", "1") != nil || s.get("a", "2") == nil || s.known.Len() != 2 {
		t.Error("a revision is known at one version")
	}
	for i := range 5 {
		s.add(revision(fmt.Sprint("large", i), "1", revisionCacheSize/4))
		s.get("a", "2")
	}
	if s.get("a", "2") == nil || s.get("b", "1") != nil || s.get("large0", "1") != nil {
		t.Errorf("%d revisions; the one that was not used for longest must be dropped", s.known.Len())
	}
}
