package upgrade_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/upgrade"
)

func lockOf(repo, directory, ref, commit string) *porchv1alpha1.Locator {
	return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{Repo: repo, Directory: directory, Ref: ref, Commit: commit}}
}

func TestIsAt(t *testing.T) {
	cr := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Spec.WorkspaceName, cr.Spec.Revision = "catalog", "a/web", "w", 3
	cr.Spec.Lifecycle = porchv1alpha1.LifecyclePublished
	cr.Content.Digest = "sha256:1"
	cr.Status.SelfLock = lockOf("https://example.com/x", "dir/a/web", "a/web/v3", "c0ffee")
	draft := cr.DeepCopy()
	draft.Spec.Lifecycle, draft.Spec.Revision, draft.Status.SelfLock = porchv1alpha1.LifecycleDraft, 0, nil
	for name, tc := range map[string]struct {
		cr   *storev1alpha1.PackageRevision
		lock *porchv1alpha1.Locator
		want bool
	}{
		"Here":         {cr, upgrade.LocateHere(cr), true},
		"There":        {cr, upgrade.Locate(cr), true},
		"OnceADraft":   {cr, upgrade.LocateHere(draft), true},
		"Draft":        {draft, upgrade.Locate(draft), true},
		"DraftMovedOn": {draft, lockOf("hub:ns/catalog", "a/web", "drafts/a/web/w", "sha256:0"), true},
		"OtherNumber":  {cr, lockOf("hub:ns/catalog", "a/web", "a/web/v2", "sha256:1"), false},
		"NotYet":       {draft, upgrade.LocateHere(cr), false},
		"OtherSpace":   {cr, lockOf("hub:other/catalog", "a/web", "a/web/v3", "sha256:1"), false},
		"OtherPackage": {cr, lockOf("hub:ns/catalog", "a", "a/web/v3", "sha256:1"), false},
		"OtherCommit":  {cr, lockOf("https://example.com/x", "dir/a/web", "a/web/v3", "decaf"), false},
		"Nothing":      {cr, nil, false},
		"Registry":     {cr, &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeOCI, OCI: &porchv1alpha1.OCILock{Image: "x"}}, false},
	} {
		if got := upgrade.IsAt(tc.cr, tc.lock); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestHere(t *testing.T) {
	for name, tc := range map[string]struct {
		lock                  *porchv1alpha1.Locator
		namespace, repository string
		ok                    bool
	}{
		"Here":    {lockOf("hub:ns/catalog", "a", "a/v1", ""), "ns", "catalog", true},
		"There":   {lockOf("https://example.com/hub:ns/catalog", "a", "a/v1", ""), "", "", false},
		"Half":    {lockOf("hub:ns", "a", "a/v1", ""), "ns", "", false},
		"Nothing": {},
	} {
		namespace, repository, ok := upgrade.Here(tc.lock)
		if ok != tc.ok || namespace != tc.namespace || repository != tc.repository {
			t.Errorf("%s: %q, %q, %t", name, namespace, repository, ok)
		}
	}
}
