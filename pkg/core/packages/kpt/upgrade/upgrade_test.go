package upgrade_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
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
	tagged := cr.DeepCopy()
	tagged.Spec.Revision, tagged.External.Ref, tagged.Status.SelfLock = -1, "a/web/v1.2.3", nil
	otherTag := tagged.DeepCopy()
	otherTag.External.Ref = "a/web/v1.2.4"
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
		"Tag":          {tagged, upgrade.LocateHere(tagged), true},
		"OtherTag":     {tagged, upgrade.LocateHere(otherTag), false},
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

// TestMergeGates: the gates of the upstream are not merged, and those of the package stay, also if
// the package is replaced. They are no local changes.
func TestMergeGates(t *testing.T) {
	kptfile := func(name, description string, gates ...string) string {
		k := kpt.NewKptfile(name, description)
		var all []kpt.ReadinessGate
		for _, gate := range gates {
			all = append(all, kpt.ReadinessGate{ConditionType: gate})
		}
		if err := errors.Join(k.SetReadinessGates(all), k.SetConditions([]kpt.Condition{{Type: "Reviewed", Status: "True"}})); err != nil {
			t.Fatal(err)
		}
		return k.String()
	}
	upstream := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	upstream.Spec.RepositoryName, upstream.Spec.PackageName, upstream.Spec.Revision = "catalog", "web", 2
	original := kpt.Files{"Kptfile": kptfile("web", "one", "PackagePipelinePassed", "Theirs")}
	updated := kpt.Files{"Kptfile": kptfile("web", "two", "PackagePipelinePassed", "Theirs", "Another")}
	local := kpt.Files{"Kptfile": kptfile("mine", "one", "PackagePipelinePassed", "PVOperationsComplete", "Ours")}
	for _, strategy := range []porchv1alpha1.PackageMergeStrategy{"", "resource-merge", "fast-forward", "force-delete-replace", "copy-merge"} {
		merged, err := upgrade.Merge(strategy, original, upstream, updated, local, nil)
		if err != nil || merged.Conflicts() != nil {
			t.Errorf("%s: %v, %v", strategy, merged, err)
			continue
		}
		k, err := kpt.ParseKptfile(merged.Files["Kptfile"])
		if err != nil {
			t.Fatal(err)
		}
		want := []kpt.ReadinessGate{{ConditionType: "PackagePipelinePassed"}, {ConditionType: "PVOperationsComplete"}, {ConditionType: "Ours"}}
		if diff := cmp.Diff(want, k.ReadinessGates()); diff != "" || len(k.Conditions()) > 0 || !strings.Contains(merged.Files["Kptfile"], "two") || k.Name() != "mine" {
			t.Errorf("%s: conditions %v, gates (-want +got):\n%s\n%s", strategy, k.Conditions(), diff, merged.Files["Kptfile"])
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

// TestConflictsIn: what the functions of a package set again, after the upstream has changed it, is
// no conflict. What a person has changed, and the upstream overwrites, is one.
func TestConflictsIn(t *testing.T) {
	object := func(replicas, image string) kpt.Files {
		return kpt.Files{
			"Kptfile": kpt.NewKptfile("web", "").String(),
			"a.yaml":  "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: " + replicas + "\n  paused: " + image + "\n",
		}
	}
	upstream := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
	upstream.Spec.RepositoryName, upstream.Spec.PackageName, upstream.Spec.Revision = "catalog", "web", 2
	for name, tc := range map[string]struct {
		local, rendered kpt.Files
		want            string
	}{
		"Overwritten":      {object("5", "false"), object("3", "true"), "a.yaml: Deployment.apps web: spec.replicas: changed on both sides; the upstream content is used"},
		"SetAgain":         {object("5", "false"), object("5", "true"), ""},
		"SetToAnother":     {object("5", "false"), object("6", "true"), "a.yaml: Deployment.apps web: spec.replicas: changed on both sides; the upstream content is used"},
		"NotChangedByHand": {object("2", "false"), object("3", "true"), ""},
	} {
		merged, err := upgrade.Merge("", object("2", "false"), upstream, object("3", "true"), tc.local, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if c := merged.ConflictsIn(tc.rendered); c != nil {
			got = c.Message
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
