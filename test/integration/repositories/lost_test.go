package repositories

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// TestLostTags: a tag that somebody deleted is said, and comes back only on request, each time on a
// new one.
func TestLostTags(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("other", "stays")
	r.Tag("other/v1", r.Commit("main", "base"))
	e.run(t)
	e.create(t, "out", gitSpec(s.URL(r), ""))
	e.publish(t, "out", "web", "first", 1, "one")
	e.publish(t, "out", "web", "second", 2, "two")
	e.waitForRevisions(t, "out.other.main -1 stays", "out.other.v1 1 stays latest", "out.web.first 1 one", "out.web.main -1 two", "out.web.second 2 two latest")
	e.waitForCondition(t, "out", "Exported", "Exported")
	first, head := r.Ref("refs/tags/web/v1"), r.Ref("refs/heads/main")

	for i := range 2 {
		r.SetRef("refs/tags/web/v1", "")
		r.SetRef("refs/tags/other/v1", "") // imported: only its owner knows why
		text := e.waitForCondition(t, "out", "Exported", "TagsMissing")
		if !strings.Contains(text, "web/v1") || strings.Contains(text, "other/v1") || !strings.Contains(text, "kubectl annotate repository out --namespace "+e.namespace+" --overwrite starling.io/export-again=") {
			t.Errorf("message %q", text)
		}
		e.waitForCondition(t, "out", "Consistent", "TagsMissing")
		e.quiet(t)
		if r.Ref("refs/tags/web/v1") != "" {
			t.Fatal("it came back by itself")
		}
		e.annotate(t, "out", configv1alpha1.ExportAgainAnnotation, fmt.Sprint(i))
		e.waitForCondition(t, "out", "Exported", "Exported")
		if r.Ref("refs/tags/web/v1") != first || r.Ref("refs/heads/main") != head || r.Ref("refs/tags/other/v1") != "" {
			t.Errorf("references %v", r.Refs())
		}
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			cr, status := e.revisions(t)["out.web.first"], e.repository(t, "out").Status
			return cr.External.Ref == "web/v1" && cr.External.ID == first && status.ObservedExportAgain == fmt.Sprint(i), fmt.Sprintf("external %+v, status %+v", cr.External, status)
		})
	}
	e.quiet(t)

	// A revision that is deleted while its tag is lost does not come back with the tag.
	r.SetRef("refs/tags/web/v1", "")
	e.waitForCondition(t, "out", "Exported", "TagsMissing")
	r.Hook("update", `[ "$1" != refs/tags/web/v1 ]`)
	e.annotate(t, "out", configv1alpha1.ExportAgainAnnotation, "again")
	e.waitForCondition(t, "out", "Exported", "Failed")
	r.Hook("update", "true")
	s.Broken.Store(true)
	r.SetRef("refs/tags/web/v1", first)
	e.delete(t, "out.web.first")
	s.Broken.Store(false)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return r.Ref("refs/tags/web/v1") == "", "the tag is there" })
	e.waitForRevisions(t, "out.other.main -1 stays", "out.other.v1 1 stays latest", "out.web.main -1 two", "out.web.second 2 two latest")
	e.quiet(t)
	e.waitForRevisions(t, "out.other.main -1 stays", "out.other.v1 1 stays latest", "out.web.main -1 two", "out.web.second 2 two latest")
}

// TestNewRevisionOfLostTag: a revision replaces on the branch what it was made from, also if the
// tag of that is lost.
func TestNewRevisionOfLostTag(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("other", "stays")
	r.Commit("main", "base")
	e.run(t)
	e.create(t, "out", gitSpec(s.URL(r), ""))
	e.publish(t, "out", "web", "first", 1, "one")
	e.waitForRevisions(t, "out.other.main -1 stays", "out.web.first 1 one latest", "out.web.main -1 one")
	r.SetRef("refs/tags/web/v1", "")
	e.waitForCondition(t, "out", "Exported", "TagsMissing")
	e.publish(t, "out", "web", "second", 2, "two")
	e.waitForRevisions(t, "out.other.main -1 stays", "out.web.first 1 one", "out.web.main -1 two", "out.web.second 2 two latest")
	e.waitForCondition(t, "out", "Exported", "TagsMissing")
	e.annotate(t, "out", configv1alpha1.ExportAgainAnnotation, "now")
	e.waitForCondition(t, "out", "Exported", "Exported")
}

// TestLostBranch: a branch that somebody deleted does not come back with the next package alone, or
// tools that follow it would remove all others.
func TestLostBranch(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("other", "stays")
	base := r.Commit("main", "base")
	r.SetRef("refs/heads/beside", base)
	e.run(t)
	e.create(t, "out", gitSpec(s.URL(r), ", createBranch: true"))
	e.waitForCondition(t, "out", "Ready", "Ready")
	e.publish(t, "out", "web", "first", 1, "one")
	e.waitForRevisions(t, "out.other.main -1 stays", "out.web.first 1 one latest", "out.web.main -1 one")
	head := r.Ref("refs/heads/main")

	r.SetRef("refs/heads/main", "")
	e.publish(t, "out", "web", "second", 2, "two")
	if text := e.waitForCondition(t, "out", "Exported", "BranchMissing"); !strings.Contains(text, head) || !strings.Contains(text, "starling.io/export-again=") {
		t.Errorf("message %q", text)
	}
	e.quiet(t)
	if r.Ref("refs/heads/main") != "" || r.Ref("refs/tags/web/v2") != "" {
		t.Fatalf("references %v", r.Refs())
	}
	e.annotate(t, "out", configv1alpha1.ExportAgainAnnotation, "now")
	e.waitForCondition(t, "out", "Exported", "Exported")
	e.waitForRevisions(t, "out.other.main -1 stays", "out.web.first 1 one", "out.web.main -1 two", "out.web.second 2 two latest")
	if _, parents, files := r.Show(r.Ref("refs/heads/main")); !slices.Equal(parents, []string{head}) || files["other/config.yaml"] == "" {
		t.Errorf("parents %v, files %v", parents, files)
	}

	// The same for a Repository that is re-created, and may not create branches.
	head = r.Ref("refs/heads/main")
	r.SetRef("refs/heads/main", "")
	if err := e.repositories().Delete(t.Context(), "out", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.create(t, "out", gitSpec(s.URL(r), ""))
	e.publish(t, "out", "fresh", "first", 1, "one")
	if text := e.waitForCondition(t, "out", "Exported", "BranchMissing"); !strings.Contains(text, "push it from a clone") {
		t.Errorf("message %q", text)
	}
	e.waitForCondition(t, "out", "Consistent", "HistoryRewritten")
	e.quiet(t)
	if r.Ref("refs/heads/main") != "" || r.Ref("refs/tags/fresh/v1") != "" {
		t.Fatalf("references %v", r.Refs())
	}
	r.SetRef("refs/heads/main", head)
	e.waitForRevisions(t, "out.other.main -1 stays", "out.web.first 1 one", "out.web.main -1 two", "out.web.second 2 two latest", "out.fresh.first 1 one latest", "out.fresh.main -1 one")

	// The same for a branch that somebody moved back.
	r.SetRef("refs/heads/main", base)
	e.publish(t, "out", "web", "third", 3, "three")
	e.waitForCondition(t, "out", "Exported", "HistoryRewritten")
	e.quiet(t)
	if r.Ref("refs/heads/main") != base || r.Ref("refs/tags/web/v3") != "" {
		t.Errorf("references %v", r.Refs())
	}
	e.annotate(t, "out", configv1alpha1.AcceptHistoryAnnotation, base)
	e.waitForCondition(t, "out", "Consistent", "Consistent")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return r.Ref("refs/tags/web/v3") != "", "there is no tag" })
}

// TestEmptiedRepository: a git server that comes back without its content gets all that was
// published here. The branch has all packages from its first commits on.
func TestEmptiedRepository(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	e.run(t)
	e.create(t, "out", gitSpec(s.URL(r), ""))
	e.waitForCondition(t, "out", "Ready", "Ready")
	const packages = 55 // more than fit into one push otherwise
	var want []string
	for i := range packages {
		pkg := fmt.Sprintf("p%02d", i)
		e.publish(t, "out", pkg, "first", 1, "one")
		want = append(want, fmt.Sprintf("out.%s.main -1 one", pkg), fmt.Sprintf("out.%s.first 1 one latest", pkg))
	}
	e.waitForRevisions(t, want...)
	e.publish(t, "out", "p00", "second", 2, "two")
	want = append(want[2:], "out.p00.main -1 two", "out.p00.first 1 one", "out.p00.second 2 two latest")
	e.waitForRevisions(t, want...)
	e.waitForCondition(t, "out", "Exported", "Exported")

	s.Broken.Store(true)
	e.waitForCondition(t, "out", "Ready", "Error")
	r.Empty()
	s.Broken.Store(false)
	tags := func() (n int) {
		for _, ref := range r.Refs() {
			if strings.HasPrefix(ref, "refs/tags/") {
				n++
			}
		}
		return n
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return r.Ref("refs/tags/p00/v1") != "", "the oldest tag is missing" })
	e.waitForCondition(t, "out", "Consistent", "Consistent")
	e.waitForCondition(t, "out", "Exported", "Exported")
	e.waitForRevisions(t, want...)
	if got := tags(); got != packages+1 {
		t.Errorf("%d tags, want %d", got, packages+1)
	}
	// The newest of each package came in one push: the commits of the others are on top of all.
	_, parents, files := r.Show(r.Ref("refs/tags/p00/v1"))
	if !slices.Equal(parents, []string{r.Ref("refs/heads/main")}) || len(files) != 2*packages {
		t.Errorf("p00/v1 has the parents %v and %d files; the branch is at %s", parents, len(files), r.Ref("refs/heads/main"))
	}
	e.quiet(t)
}
