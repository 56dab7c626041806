package packages

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// TestNumbersAreNotUsedAgain: the number of a deleted revision stays with it, whether another
// revision of the package is left or none.
func TestNumbersAreNotUsedAgain(t *testing.T) {
	e := newEnvironment(t)
	remove := func(pr *porchv1alpha1.PackageRevision) {
		t.Helper()
		e.move(t, pr, deletionProposed)
		if err := e.admin.revisions(e.namespace).Delete(t.Context(), pr.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	numbered := func(pr *porchv1alpha1.PackageRevision, want int) *porchv1alpha1.PackageRevision {
		t.Helper()
		if pr.Spec.Revision != want {
			t.Errorf("%s has number %d, want %d", pr.Name, pr.Spec.Revision, want)
		}
		return pr
	}
	v1 := numbered(e.move(t, e.make(t, e.revision("upstream", "web", "a")), published), 1)
	v2 := numbered(e.move(t, e.make(t, e.revision("upstream", "web", "b"), task(porchv1alpha1.TaskTypeEdit, v1.Name)), published), 2)
	remove(v2)
	v3 := numbered(e.move(t, e.make(t, e.revision("upstream", "web", "c"), task(porchv1alpha1.TaskTypeEdit, v1.Name)), published), 3)
	remove(v3)
	remove(v1)
	numbered(e.move(t, e.make(t, e.revision("upstream", "web", "d")), published), 4)
}

// TestInitOfAnExistingPackage is refused, as with Porch: approved, it would replace the content.
func TestInitOfAnExistingPackage(t *testing.T) {
	e := newEnvironment(t)
	e.make(t, e.revision("upstream", "web", "v1"))
	_, err := e.admin.create(t.Context(), e.revision("upstream", "web", "v2"))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "`init` cannot create a new revision for package \"web\" that already exists") {
		t.Errorf("a second init: %v", err)
	}
	e.make(t, e.revision("downstream", "web", "v1"))
}

// TestApprovalNamesTheContent: an approval that names a digest publishes no other content, and
// conditions are no content.
func TestApprovalNamesTheContent(t *testing.T) {
	e := newEnvironment(t)
	e.allow(t, "rob", "starling:package-reviewer")
	pr := e.make(t, e.revision("upstream", "web", "v1"))
	if pr.Status.ContentDigest == "" {
		t.Fatal("no digest")
	}
	get := func() *porchv1alpha1.PackageRevision {
		t.Helper()
		return must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
	}
	approve := func(digest string) error {
		text := fmt.Sprintf(`{"spec":{"lifecycle":"Published"},"status":{"contentDigest":%q}}`, digest)
		return e.admin.rest.Patch(types.MergePatchType).Namespace(e.namespace).Resource("packagerevisions").Name(pr.Name).SubResource("approval").Body([]byte(text)).Do(t.Context()).Error()
	}
	reviewed := pr.Status.ContentDigest
	e.write(t, pr.Name, map[string]string{"more.txt": "more"})
	e.move(t, pr, proposed)
	if err := approve(reviewed); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "has changed since it was reviewed") {
		t.Errorf("other content: %v", err)
	}
	reviewed = get().Status.ContentDigest
	with := get()
	with.Status.Conditions = append(with.Status.Conditions, porchv1alpha1.Condition{Type: "Reviewed", Status: "True"})
	must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Update(t.Context(), with, metav1.UpdateOptions{}))
	if now := get().Status.ContentDigest; now != reviewed {
		t.Errorf("a condition changes the digest from %s to %s", reviewed, now)
	}
	if err := approve(reviewed); err != nil {
		t.Error(err)
	}
}
