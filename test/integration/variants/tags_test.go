package variants

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/packages/repositories"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// importRepositories runs the controller of Repositories until the test ends, or stop is called.
func (e *environment) importRepositories(t *testing.T) (stop func()) {
	t.Helper()
	watch, err := informers.New(e.controllers)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := repositories.New(repositories.Config{
		WDS: e.controllers, Watch: watch, WDSName: wds, FileRoots: []string{"/"}, TempDir: t.TempDir(), MinInterval: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = testenv.Run(t, watch.Run, testenv.Workers(controller.Run, 2))
	testenv.Ready(t, controller.Ready)
	return stop
}

// waitForLatest waits until exactly these revisions are labelled as the latest of their packages.
func (e *environment) waitForLatest(t *testing.T, repository string, want ...string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		labelled := testenv.List[porchv1alpha1.PackageRevision](t, e.revisions(), metav1.ListOptions{
			FieldSelector: "spec.repository=" + repository, LabelSelector: porchv1alpha1.LatestRevisionLabel + "=true",
		})
		got := slices.Sorted(maps.Keys(labelled))
		return slices.Equal(got, want), fmt.Sprintf("labelled as latest: %q, want %q", got, want)
	})
}

// TestTaggedUpstream: packages in git whose tags are semantic versions. The highest release is the
// latest revision. Variants follow it, or stay at the version that they name.
func TestTaggedUpstream(t *testing.T) {
	e := newEnvironment(t)
	r := testgit.New(t)
	r.Package("web", "one")
	r.Package("api", "api")
	first := r.Commit("main", "one")
	r.Tag("web/v1.2.3", first)
	r.Tag("api/v1.9.0", first)
	r.Tag("api/v1.10.0", first)
	r.Package("web", "candidate")
	r.Tag("web/v1.10.0-rc.1", r.Commit("main", "candidate"))
	stop := e.importRepositories(t)
	e.create(t, fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: git}, spec: {type: git, sync: {schedule: '@every 1s'}, git: {repo: %q}}}", r.URL()))
	e.waitForLatest(t, "git", "git.api.v1-10-0", "git.web.v1-2-3")

	e.run(t)
	variant := func(name, revision string) string {
		return fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha1, kind: PackageVariant, metadata: {name: %s}, spec: {upstream: {repo: git, package: web, revision: %s}, downstream: {repo: edge, package: %s}}}",
			name, revision, name)
	}
	e.create(t, variant("follows", "latest"))
	e.create(t, variant("pinned", "v1.2.3"))
	for _, name := range []string{"follows", "pinned"} {
		e.ready(t, name, "git.web.v1-2-3", configv1alpha1.VariantDraft)
		e.move(t, e.only(t, "edge", name, draft).Name, published)
		e.ready(t, name, "git.web.v1-2-3", configv1alpha1.VariantPublished)
	}

	r.Package("web", "two")
	r.Tag("web/v1.3.0", r.Commit("main", "two"))
	e.waitForLatest(t, "git", "git.api.v1-10-0", "git.web.v1-3-0")
	e.ready(t, "follows", "git.web.v1-3-0", configv1alpha1.VariantDraft)
	upgraded := e.only(t, "edge", "follows", draft)
	if lock := upgraded.Status.UpstreamLock; lock == nil || lock.Git == nil || lock.Git.Ref != "web/v1.3.0" {
		t.Errorf("the lock of the upgraded draft: %s", asText(t, lock))
	}
	if text := e.files(t, upgraded.Name)["config.yaml"]; !strings.Contains(text, "two") {
		t.Errorf("the upgraded draft has %q", text)
	}
	e.ready(t, "pinned", "git.web.v1-2-3", configv1alpha1.VariantPublished)
	e.replace(t, variant("pinned", "v1.3.0"))
	e.ready(t, "pinned", "git.web.v1-3-0", configv1alpha1.VariantDraft)
	if text := e.files(t, e.only(t, "edge", "pinned", draft).Name)["config.yaml"]; !strings.Contains(text, "two") {
		t.Errorf("the other draft has %q", text)
	}
	e.quiet(t)

	// package-server has the same rule as the controller: it labels the tag before.
	stop()
	e.move(t, "git.api.v1-10-0", deletion)
	if err := e.revisions().Delete(t.Context(), "git.api.v1-10-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.waitForLatest(t, "git", "git.api.v1-9-0", "git.web.v1-3-0")

	// A number is higher than any tag.
	r.Tag("web/v1", first)
	e.importRepositories(t)
	e.waitForLatest(t, "git", "git.api.v1-9-0", "git.web.v1")
}

// TestMovedTag: the tag of an upstream is moved. The variant says so. When a user has accepted the
// tag, what it has now is merged, from what the package was made of: changes of the package stay.
func TestMovedTag(t *testing.T) {
	e := newEnvironment(t)
	r := testgit.New(t)
	r.Package("web", "one")
	r.Tag("web/v1", r.Commit("main", "one"))
	e.importRepositories(t)
	e.create(t, fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: git}, spec: {type: git, sync: {schedule: '@every 1s'}, git: {repo: %q}}}", r.URL()))
	e.waitForLatest(t, "git", "git.web.v1")
	e.run(t)
	e.create(t, "{apiVersion: config.porch.kpt.dev/v1alpha1, kind: PackageVariant, metadata: {name: pv}, spec: {upstream: {repo: git, package: web, revision: latest}, downstream: {repo: edge, package: web}}}")
	e.ready(t, "pv", "git.web.v1", configv1alpha1.VariantDraft)
	first := e.only(t, "edge", "web", draft).Name
	text := e.files(t, first)["config.yaml"]
	e.edit(t, first, map[string]string{"config.yaml": strings.Replace(text, "data:\n", "data:\n  local: mine\n", 1)})
	e.move(t, first, published)
	e.ready(t, "pv", "git.web.v1", configv1alpha1.VariantPublished)

	accept := func(content string) {
		t.Helper()
		r.Package("web", content)
		commit := r.Commit("main", content)
		r.Tag("web/v1", commit)
		e.waitsFor(t, "pv", "the tag of git.web.v1")
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, configv1alpha1.AcceptTagsAnnotation, "web/v1@"+commit)
		repositories := e.client.Resource(configv1alpha1.Repositories).Namespace(e.namespace)
		if _, err := repositories.Patch(t.Context(), "git", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	merged := func(want string) string {
		t.Helper()
		e.ready(t, "pv", "git.web.v1", configv1alpha1.VariantDraft)
		name := e.only(t, "edge", "web", draft).Name
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			got := e.files(t, name)["config.yaml"]
			return strings.Contains(got, "local: mine") && strings.Contains(got, fmt.Sprintf("text: %q", want)), got
		})
		return name
	}
	accept("two")
	second := merged("two")
	// A draft is merged from what it has, not from what the published revision has.
	e.create(t, fmt.Sprintf("{apiVersion: porch.kpt.dev/v1alpha1, kind: PackageRevision, spec: {repository: edge, packageName: web, workspaceName: by-hand, tasks: [{type: upgrade, upgrade: {oldUpstreamRef: {name: git.web.v1}, newUpstreamRef: {name: git.web.v1}, localPackageRevisionRef: {name: %s}}}]}}", first))
	if got := e.files(t, "edge.web.by-hand")["config.yaml"]; !strings.Contains(got, "local: mine") || !strings.Contains(got, `text: "two"`) {
		t.Errorf("upgraded by hand: %s", got)
	}
	if err := e.revisions().Delete(t.Context(), "edge.web.by-hand", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.move(t, second, published)
	e.ready(t, "pv", "git.web.v1", configv1alpha1.VariantPublished)
	e.quiet(t)
}
