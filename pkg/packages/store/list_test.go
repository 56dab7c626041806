package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

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
