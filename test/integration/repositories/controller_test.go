package repositories

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/packages/repositories"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// run runs the controllers until the test ends, or stop is called.
func (e *environment) run(t testing.TB) (stop func()) {
	t.Helper()
	watch, err := informers.New(e.controllers)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := repositories.New(repositories.Config{
		WDS: e.controllers, Watch: watch, WDSName: "wds1", FileRoots: []string{"/"}, TempDir: t.TempDir(), MinInterval: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = testenv.Run(t, watch.Run, testenv.Workers(controller.Run, 2))
	testenv.Ready(t, controller.Ready)
	return stop
}

func (e *environment) create(t testing.TB, name, spec string) {
	t.Helper()
	if _, err := e.repositories().Create(t.Context(), parse(t, name, spec), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A look each second.
const everySecond = "sync: {schedule: '@every 1s'}"

func gitSpec(url, more string) string {
	return fmt.Sprintf("{type: git, %s, git: {repo: %q%s}}", everySecond, url, more)
}

func (e *environment) repository(t *testing.T, name string) *configv1alpha1.Repository {
	t.Helper()
	repository := testenv.Get[configv1alpha1.Repository](t, e.repositories(), name)
	if repository == nil {
		t.Fatalf("Repository %s does not exist", name)
	}
	return repository
}

// waitForCondition waits until a condition has a reason, and returns its message.
func (e *environment) waitForCondition(t *testing.T, name, kind, reason string) string {
	t.Helper()
	return testenv.Condition(t, e.repositories(), name, kind, reason)
}

func (e *environment) stored() dynamic.ResourceInterface {
	return e.client.Resource(storev1alpha1.PackageRevisions).Namespace(e.namespace)
}

func (e *environment) revisions(t *testing.T) map[string]*storev1alpha1.PackageRevision {
	t.Helper()
	return testenv.List[storev1alpha1.PackageRevision](t, e.stored(), metav1.ListOptions{})
}

// texts returns the revisions with the text of their content, as lines.
func (e *environment) texts(t *testing.T) []string {
	t.Helper()
	var lines []string
	for name, cr := range e.revisions(t) {
		latest := ""
		if cr.Labels[porchv1alpha1.LatestRevisionLabel] == "true" {
			latest = " latest"
		}
		lines = append(lines, fmt.Sprintf("%s %d %s%s", name, cr.Spec.Revision, e.text(t, cr), latest))
	}
	slices.Sort(lines)
	return lines
}

func (e *environment) text(t *testing.T, cr *storev1alpha1.PackageRevision) string {
	t.Helper()
	files, err := e.content(t).Get(t.Context(), cr.Content.Digest)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(files["config.yaml"], "text: ")
	return strings.Trim(text, "\"\n")
}

func (e *environment) content(t *testing.T) *content.Store {
	t.Helper()
	store, err := content.New(e.config, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// waitForRevisions waits until the namespace has exactly these revisions.
func (e *environment) waitForRevisions(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		diff := cmp.Diff(want, e.texts(t))
		return diff == "", "revisions (-want +got):\n" + diff
	})
}

func (e *environment) annotate(t *testing.T, repo, key, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if _, err := e.repositories().Patch(t.Context(), repo, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// publish makes a revision as package-server does when one is approved.
func (e *environment) publish(t *testing.T, repo, pkg, workspace string, number int, text string) *storev1alpha1.PackageRevision {
	t.Helper()
	files := kpt.Files{
		"Kptfile":     "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: x\n",
		"config.yaml": fmt.Sprintf("text: %q\n", text),
	}
	digest, err := e.content(t).Put(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	cr := &storev1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Name: repo + "." + strings.ReplaceAll(pkg, "/", ".") + "." + workspace, Namespace: e.namespace},
		Spec: porchv1alpha1.PackageRevisionSpec{
			RepositoryName: repo, PackageName: pkg, WorkspaceName: workspace, Revision: number, Lifecycle: porchv1alpha1.LifecyclePublished,
			Tasks: []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeInit, Init: &porchv1alpha1.PackageInitTaskSpec{Description: "x"}}},
		},
		Status:  porchv1alpha1.PackageRevisionStatus{PublishedBy: "jane@example.com", PublishedAt: &metav1.Time{Time: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}},
		Content: storev1alpha1.Content{Digest: digest, Files: int32(len(files))},
	}
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.stored().Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return cr
}

// delete deletes a revision as it should be: proposed before.
func (e *environment) delete(t *testing.T, name string) {
	t.Helper()
	if _, err := e.stored().Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"lifecycle":"DeletionProposed"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.stored().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *environment) secret(t *testing.T, name string, data map[string]string) {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}}}
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	obj.Object["data"] = encoded
	obj.Object["type"] = configv1alpha1.RepositorySecretType
	secrets := e.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(e.namespace)
	if _, err := secrets.Apply(t.Context(), name, obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
}

// versions are the resourceVersions of all that the controllers write.
func (e *environment) versions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, resource := range []schema.GroupVersionResource{storev1alpha1.PackageRevisions, configv1alpha1.Repositories} {
		list, err := e.client.Resource(resource).Namespace(e.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			all[resource.Resource+"/"+list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
		}
	}
	return all
}

// quiet waits until the controllers have written nothing for some passes.
func (e *environment) quiet(t *testing.T) {
	t.Helper()
	const passes = 3500 * time.Millisecond
	written, since := len(e.traffic.Written("")), time.Now()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		all := e.traffic.Written("")
		if len(all) != written {
			written, since = len(all), time.Now()
		}
		return time.Since(since) > passes, fmt.Sprintf("written last: %s", all[max(0, len(all)-1):])
	})
}

func TestImport(t *testing.T) { //nolint:tparallel // each step depends on the one before
	t.Parallel()
	e := newEnvironment(t)
	r := testgit.New(t)
	r.Package("web", "one")
	r.Tag("web/v1", r.Commit("main", "one"))
	r.Package("web", "two")
	r.Package("infra/db", "db")
	second := r.Commit("main", "two")
	r.Annotate("web/v2", second)
	r.Files["bad/Kptfile"] = "{"
	head := r.Commit("main", "three")
	stop := e.run(t)
	e.create(t, "up", gitSpec(r.URL(), ""))
	e.waitForRevisions(t, "up.infra.db.main -1 db", "up.web.main -1 two", "up.web.v1 1 one", "up.web.v2 2 two latest")
	e.waitForCondition(t, "up", "Ready", "Ready")
	e.waitForCondition(t, "up", "Consistent", "Consistent")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { // what was imported is counted a moment later
		s := e.repository(t, "up").Status
		return s.PackageCount == 4 && s.Packages == 2, fmt.Sprintf("status %+v", s)
	})
	repo := e.repository(t, "up")
	if s := repo.Status; s.GitCommitHash != head || s.LastFullSyncTime == nil || s.ObservedGeneration != repo.Generation {
		t.Errorf("status %+v", s)
	}
	if len(repo.Status.Errors) != 1 || repo.Status.Errors[0].Package != "bad" || !strings.Contains(repo.Status.Errors[0].Message, "Kptfile") {
		t.Errorf("errors %+v", repo.Status.Errors)
	}
	cr := e.revisions(t)["up.web.v2"]
	wantLock := &porchv1alpha1.Locator{Type: "git", Git: &porchv1alpha1.GitLock{Repo: r.URL(), Directory: "web", Ref: "web/v2", Commit: second}}
	if diff := cmp.Diff(wantLock, cr.Status.SelfLock); diff != "" {
		t.Errorf("selfLock (-want +got):\n%s", diff)
	}
	if cr.Status.PublishedBy != "author@example.com" || cr.Spec.Lifecycle != porchv1alpha1.LifecyclePublished || !cr.Content.Imported || cr.Content.Files != 2 {
		t.Errorf("revision %+v", cr)
	}

	t.Run("NoWritesWithoutChanges", func(t *testing.T) { e.quiet(t) })
	whole := t
	t.Run("NoWritesAfterARestart", func(t *testing.T) {
		before := e.versions(t)
		stop()
		stop = e.run(whole)
		testenv.Never(t, 3*time.Second, func() string { return cmp.Diff(before, e.versions(t)) })
	})
	t.Run("NewTag", func(t *testing.T) {
		r.Tag("web/v3", head)
		r.Tag("web/candidate.1", head)
		e.waitForRevisions(t, "up.infra.db.main -1 db", "up.web.candidate-1 -1 two", "up.web.main -1 two", "up.web.v1 1 one", "up.web.v2 2 two", "up.web.v3 3 two latest")
	})
	t.Run("BranchGrows", func(t *testing.T) {
		r.Package("web", "three")
		delete(r.Files, "infra/db/Kptfile")
		head = r.Commit("main", "four")
		e.waitForRevisions(t, "up.web.candidate-1 -1 two", "up.web.main -1 three", "up.web.v1 1 one", "up.web.v2 2 two", "up.web.v3 3 two latest")
		if db := e.revisions(t)["up.infra.db.main"]; db != nil {
			t.Error("a package that is gone has a placeholder")
		}
	})
	t.Run("TagMoved", func(t *testing.T) {
		r.Tag("web/v1", head)
		if text := e.waitForCondition(t, "up", "Consistent", "TagsMoved"); !strings.Contains(text, "web/v1 (revision up.web.v1)") {
			t.Errorf("message %q", text)
		}
		e.waitForRevisions(t, "up.web.candidate-1 -1 two", "up.web.main -1 three", "up.web.v1 1 one", "up.web.v2 2 two", "up.web.v3 3 two latest")
		e.quiet(t)
	})
	t.Run("TagMovedToSameContent", func(t *testing.T) {
		r.Tag("web/v3", second)
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			got := e.revisions(t)["up.web.v3"].External.ID
			return got == second, "the tag is noted at " + got
		})
		if text := e.waitForCondition(t, "up", "Consistent", "TagsMoved"); strings.Contains(text, "web/v3") {
			t.Errorf("message %q", text)
		}
	})
	t.Run("TagDeleted", func(t *testing.T) {
		r.SetRef("refs/tags/web/v2", "")
		if text := e.waitForCondition(t, "up", "Consistent", "Several"); !strings.Contains(text, "1 tag no longer exists in the repository; revisions are kept until you delete them: web/v2") {
			t.Errorf("message %q", text)
		}
		if e.revisions(t)["up.web.v2"] == nil {
			t.Error("a revision went with its tag")
		}
	})
	t.Run("DeletedRevisionDeletesItsTag", func(t *testing.T) {
		for _, name := range []string{"up.web.v2", "up.web.v3"} {
			e.delete(t, name)
		}
		e.waitForRevisions(t, "up.web.candidate-1 -1 two", "up.web.main -1 three", "up.web.v1 1 one latest")
		if got := r.Refs(); slices.Contains(got, "refs/tags/web/v3") {
			t.Errorf("references %v", got)
		}
	})
	t.Run("DeletedRevisionOfMovedTagIsReimported", func(t *testing.T) {
		e.delete(t, "up.web.v1")
		e.waitForRevisions(t, "up.web.candidate-1 -1 two", "up.web.main -1 three", "up.web.v1 1 three latest")
		e.waitForCondition(t, "up", "Consistent", "Consistent")
	})
	t.Run("RepositoryRecreated", func(t *testing.T) {
		before := e.texts(t)
		if err := e.repositories().Delete(t.Context(), "up", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		testenv.Never(t, time.Second, func() string { return cmp.Diff(before, e.texts(t)) })
		e.create(t, "up", gitSpec(r.URL(), ""))
		e.waitForCondition(t, "up", "Ready", "Ready")
		if diff := cmp.Diff(before, e.texts(t)); diff != "" {
			t.Errorf("revisions (-before +after):\n%s", diff)
		}
	})
}

func TestRewrittenHistory(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("web", "one")
	first := r.Commit("main", "one")
	r.Package("web", "two")
	r.Tag("web/v1", r.Commit("main", "two"))
	e.run(t)
	e.create(t, "up", gitSpec(s.URL(r), ""))
	e.waitForRevisions(t, "up.web.main -1 two", "up.web.v1 1 two latest")

	r.Package("web", "rewritten")
	head := r.CommitOn("main", "rewritten", first)
	r.Tag("web/v2", head)
	text := e.waitForCondition(t, "up", "Consistent", "HistoryRewritten")
	if !strings.Contains(text, "starling.io/accept-history="+head) {
		t.Errorf("message %q", text)
	}
	// What was imported stays; what is new comes.
	e.waitForRevisions(t, "up.web.main -1 two", "up.web.v1 1 two", "up.web.v2 2 rewritten latest")
	e.waitForCondition(t, "up", "Ready", "Ready")
	packs := s.Packs.Load()
	e.quiet(t)
	if got := s.Packs.Load(); got != packs {
		t.Errorf("%d fetches for a branch that is known to be rewritten", got-packs)
	}
	e.annotate(t, "up", configv1alpha1.AcceptHistoryAnnotation, head)
	e.waitForRevisions(t, "up.web.main -1 rewritten", "up.web.v1 1 two", "up.web.v2 2 rewritten latest")
	e.waitForCondition(t, "up", "Consistent", "Consistent")
}

func TestServerUnavailable(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("web", "one")
	r.Tag("web/v1", r.Commit("main", "one"))
	e.run(t)
	e.create(t, "up", gitSpec(s.URL(r), ""))
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest")
	s.Broken.Store(true)
	e.waitForCondition(t, "up", "Ready", "Error")
	r.Tag("web/v2", r.Ref("refs/heads/main"))
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest")
	s.Broken.Store(false)
	e.waitForCondition(t, "up", "Ready", "Ready")
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one", "up.web.v2 2 one latest")

	dead := httptest.NewServer(nil)
	dead.Close()
	e.create(t, "nobody", gitSpec(dead.URL+"/r", ""))
	e.waitForCondition(t, "nobody", "Ready", "Unreachable")
	e.create(t, "none", gitSpec(s.URL(r)+"/none", ""))
	e.waitForCondition(t, "none", "Ready", "NotFound")
	e.create(t, "branch", gitSpec(s.URL(r), ", branch: none"))
	e.waitForCondition(t, "branch", "Ready", "NotFound")
	e.create(t, "schedule", fmt.Sprintf("{type: git, sync: {schedule: often}, git: {repo: %q}}", s.URL(r)))
	if text := e.waitForCondition(t, "schedule", "Ready", "InvalidSpec"); !strings.Contains(text, "spec.sync.schedule") {
		t.Errorf("message %q", text)
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("web", "one")
	r.Tag("web/v1", r.Commit("main", "one"))
	s.Authorization.Store("Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2")))
	e.run(t)
	// The next sync is in 24 hours: only the change of the Secret can trigger one.
	e.create(t, "up", fmt.Sprintf("{type: git, sync: {schedule: '@every 24h'}, git: {repo: %q, secretRef: {name: login}}}", s.URL(r)))
	e.waitForCondition(t, "up", "Ready", "SecretNotFound")
	e.secret(t, "login", map[string]string{"username": "me", "password": "hunter3"})
	if text := e.waitForCondition(t, "up", "Ready", "Unauthorized"); strings.Contains(text, "hunter") {
		t.Errorf("the message contains the Secret: %q", text)
	}
	e.secret(t, "login", map[string]string{"username": "me", "password": "hunter2"})
	e.waitForCondition(t, "up", "Ready", "Ready")
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest") // the label does not wait for the next look
	if s := e.repository(t, "up").Status; s.NextFullSyncTime == nil {
		t.Error("status.nextFullSyncTime is not set")
	}

	// Asked for once.
	r.Package("web", "two")
	r.Commit("main", "two")
	at := time.Now().UTC().Add(-time.Second).Format(time.RFC3339)
	patch := fmt.Sprintf(`{"spec":{"sync":{"runOnceAt":%q}}}`, at)
	if _, err := e.repositories().Patch(t.Context(), "up", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.waitForRevisions(t, "up.web.main -1 two", "up.web.v1 1 one latest")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return e.repository(t, "up").Status.ObservedRunOnceAt != nil, "it is not told that the look was made"
	})
}

// TestCertificates: a server is trusted only if the system or the Secret trusts it. The condition
// says what to do.
func TestCertificates(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.ServeTLS(t)
	r.Package("web", "one")
	r.Tag("web/v1", r.Commit("main", "one"))
	s.Authorization.Store("Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2")))
	images := httptest.NewTLSServer(registry.New())
	defer images.Close()
	e.run(t)

	login := func(ca string) map[string]string {
		return map[string]string{"username": "me", "password": "hunter2", "ca.crt": ca}
	}
	other := testgit.OtherCA(t)
	e.secret(t, "git", login(other))
	e.secret(t, "oci", map[string]string{"ca.crt": other})
	e.create(t, "up", fmt.Sprintf("{type: git, sync: {schedule: '@every 24h'}, git: {repo: %q, secretRef: {name: git}}}", s.URL(r)))
	e.create(t, "images", fmt.Sprintf("{type: oci, sync: {schedule: '@every 24h'}, oci: {registry: %q, secretRef: {name: oci}}}", strings.TrimPrefix(images.URL, "https://")))
	for _, name := range []string{"up", "images"} {
		if text := e.waitForCondition(t, name, "Ready", "Unauthorized"); !strings.Contains(text, "certificate of the server is not trusted") || !strings.Contains(text, "ca.crt") {
			t.Errorf("%s: message %q", name, text)
		}
	}
	e.secret(t, "git", login(testgit.CA(s.Server)))
	e.secret(t, "oci", map[string]string{"ca.crt": testgit.CA(images)})
	e.waitForCondition(t, "up", "Ready", "Ready")
	e.waitForCondition(t, "images", "Ready", "Ready")
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest")
	e.publish(t, "up", "web", "second", 2, "two")
	e.publish(t, "images", "web", "first", 1, "one")
	e.waitForCondition(t, "up", "Exported", "Exported")
	e.waitForCondition(t, "images", "Exported", "Exported")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return r.Ref("refs/tags/web/v2") != "" && e.revisions(t)["images.web.first"].External.ID != "", "not both are exported"
	})
}

func TestExportToGit(t *testing.T) { //nolint:tparallel // each step depends on the one before
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	r.Package("other", "stays")
	base := r.Commit("main", "base")
	s.Broken.Store(true)
	e.run(t)
	e.create(t, "out", gitSpec(s.URL(r), ", author: Robot, email: robot@example.com"))
	e.waitForCondition(t, "out", "Ready", "Error")
	// Publishing does not wait for the server.
	e.publish(t, "out", "web", "first", 1, "one")
	s.Broken.Store(false)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return r.Ref("refs/tags/web/v1") != "", "there is no tag" })
	e.waitForCondition(t, "out", "Exported", "Exported")
	e.waitForRevisions(t, "out.other.main -1 stays", "out.web.first 1 one latest", "out.web.main -1 one")
	message, parents, files := r.Show(r.Ref("refs/tags/web/v1"))
	if !strings.Contains(message, `kpt:{"package":"web","workspaceName":"first","revision":"v1","task":{"type":"init"`) || !slices.Equal(parents, []string{base}) {
		t.Errorf("message %q, parents %v", message, parents)
	}
	if files["other/config.yaml"] == "" || files["web/config.yaml"] != "text: \"one\"\n" {
		t.Errorf("files %v", files)
	}
	e.quiet(t)

	t.Run("Conflict", func(t *testing.T) {
		s.Broken.Store(true)
		e.waitForCondition(t, "out", "Ready", "Error")
		r.Package("web", "somebody else's")
		r.Files["web/config.yaml"] = "text: \"other\"\n"
		r.CommitOn("beside", "beside", base)
		r.Tag("web/v2", r.Ref("refs/heads/beside"))
		e.publish(t, "out", "web", "second", 2, "two")
		s.Broken.Store(false)
		if text := e.waitForCondition(t, "out", "Exported", "Conflict"); !strings.Contains(text, "web/v2") {
			t.Errorf("message %q", text)
		}
		if got := e.revisions(t)["out.web.second"]; e.text(t, got) != "two" || got.External.Ref != "" {
			t.Errorf("revision %+v", got)
		}
		e.publish(t, "out", "web", "third", 3, "three") // the others go on
		testenv.Eventually(t, testenv.Patience, func() (bool, string) { return r.Ref("refs/tags/web/v3") != "", "there is no tag" })
		e.waitForCondition(t, "out", "Exported", "Conflict")
		e.quiet(t)
		r.SetRef("refs/tags/web/v2", "") // and it heals
		e.waitForCondition(t, "out", "Exported", "Exported")
		if r.Ref("refs/tags/web/v2") == "" {
			t.Error("there is no tag")
		}
	})
	t.Run("BranchChanged", func(t *testing.T) {
		// somebody pushes a change of the package, and returns the commit.
		somebody := func(text string) string {
			_, _, r.Files = r.Show(r.Ref("refs/heads/main"))
			r.Files["web/config.yaml"] = fmt.Sprintf("text: %q\n", text)
			return r.CommitOn("main", "by hand", r.Ref("refs/heads/main"))
		}
		onBranch := func() string {
			_, _, files := r.Show(r.Ref("refs/heads/main"))
			return files["web/config.yaml"]
		}
		head := somebody("by hand")
		e.publish(t, "out", "web", "fourth", 4, "four")
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			text := e.waitForCondition(t, "out", "Exported", "BranchChanged")
			return strings.Contains(text, "web/v4 (the branch at commit "+head[:12]+")") && strings.Contains(text, "git tag web/v5 "+head) &&
				strings.Contains(text, "kubectl annotate repository out --namespace "+e.namespace+" --overwrite starling.io/accept-branch="+head), text
		})
		e.quiet(t)
		if onBranch() != "text: \"by hand\"\n" || r.Ref("refs/heads/main") != head || r.Ref("refs/tags/web/v4") == "" {
			t.Errorf("the branch has %q", onBranch())
		}
		e.annotate(t, "out", "starling.io/accept-branch", head)
		e.waitForCondition(t, "out", "Exported", "Exported")
		if onBranch() != "text: \"four\"\n" {
			t.Errorf("the branch has %q", onBranch())
		}
		// What the branch has is imported instead.
		head = somebody("again")
		e.publish(t, "out", "web", "fifth", 5, "five")
		e.waitForCondition(t, "out", "Exported", "BranchChanged")
		r.Tag("web/v6", head)
		e.waitForCondition(t, "out", "Exported", "Exported")
		if got := e.text(t, e.revisions(t)["out.web.v6"]); got != "again" || r.Ref("refs/heads/main") != head {
			t.Errorf("revision 6 has %q", got)
		}
		e.quiet(t)
	})
	t.Run("Disabled", func(t *testing.T) {
		e.create(t, "readonly", fmt.Sprintf("{type: git, export: Disabled, %s, git: {repo: %q, directory: none}}", everySecond, r.URL()))
		e.publish(t, "readonly", "web", "first", 1, "x")
		testenv.Never(t, 2*time.Second, func() string {
			if got := r.Ref("refs/tags/none/web/v1"); got != "" {
				return "it was exported"
			}
			return ""
		})
	})
}

func TestExportToOCI(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	e.run(t)
	spec := fmt.Sprintf("{type: oci, %s, oci: {registry: %q}}", everySecond, strings.TrimPrefix(server.URL, "http://")+"/team")
	e.create(t, "out", spec)
	e.waitForCondition(t, "out", "Ready", "Ready")
	e.publish(t, "out", "infra/web", "first", 1, "one")
	e.waitForCondition(t, "out", "Exported", "Exported")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		external := e.revisions(t)["out.infra.web.first"].External
		return external.Ref == "infra/web:v1" && strings.HasPrefix(external.ID, "sha256:"), fmt.Sprintf("external %+v", external)
	})
	e.create(t, "in", strings.Replace(spec, "type: oci", "type: oci, export: Disabled", 1))
	e.waitForRevisions(t, "in.infra.web.first 1 one latest", "out.infra.web.first 1 one latest")
	lock := e.revisions(t)["in.infra.web.first"].Status.SelfLock
	if lock == nil || lock.OCI == nil || lock.OCI.Digest != e.revisions(t)["out.infra.web.first"].External.ID {
		t.Errorf("selfLock %+v", lock)
	}
	e.quiet(t)
	e.delete(t, "out.infra.web.first")
	e.waitForCondition(t, "in", "Consistent", "TagsMissing")
	e.waitForRevisions(t, "in.infra.web.first 1 one latest")
}

// TestNamespaceDeleted: the deletion of a namespace deletes no tags.
func TestNamespaceDeleted(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r := testgit.New(t)
	r.Package("web", "one")
	r.Tag("web/v1", r.Commit("main", "one"))
	e.run(t)
	e.create(t, "up", gitSpec(r.URL(), ""))
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest")
	if err := e.stored().Delete(t.Context(), "up.web.v1", metav1.DeleteOptions{}); err != nil { // as the namespace controller does
		t.Fatal(err)
	}
	e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest") // it comes again, while the namespace is there
	namespaces := e.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if err := namespaces.Delete(t.Context(), e.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		_, err := namespaces.Get(t.Context(), e.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("the namespace is there, with %v", e.texts(t))
	})
	if r.Ref("refs/tags/web/v1") == "" {
		t.Error("the tag is gone")
	}
}

// TestCrashes: the controller ends between two writes. The next one does what is left, and nothing
// twice.
func TestCrashes(t *testing.T) {
	t.Parallel()
	type step int
	const (
		importing step = iota
		exporting
		deleting
	)
	const tag = "refs/tags/web/v1"
	for name, tc := range map[string]struct {
		at    step
		crash func(p *testenv.Proxy, end func())
		// exists reports whether the tag exists at the crash.
		exists bool
	}{
		// No approval takes the number; the revision does not exist.
		"NumberReserved": {importing, func(p *testenv.Proxy, end func()) { p.CrashAfter("POST packagenumbers", 1, end) }, false},
		// The files are stored; the revision does not exist.
		"FilesStored": {importing, func(p *testenv.Proxy, end func()) { p.CrashBefore("POST packagerevisions", 1, end) }, false},
		// The revision exists, others do not.
		"RevisionCreated": {importing, func(p *testenv.Proxy, end func()) { p.CrashAfter("POST packagerevisions", 1, end) }, false},
		// The revision has the finalizer, and no tag.
		"FinalizerAdded": {exporting, func(p *testenv.Proxy, end func()) { p.CrashAfter("(PUT|PATCH) packagerevisions", 1, end) }, false},
		// The tag exists; the revision does not say so.
		"Exported": {exporting, func(p *testenv.Proxy, end func()) { p.CrashBefore("(PUT|PATCH) packagerevisions", 2, end) }, true},
		// The tag is deleted; the revision still has the finalizer.
		"TagDeleted": {deleting, func(p *testenv.Proxy, end func()) { p.CrashBefore("(PUT|PATCH) packagerevisions", 1, end) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			r := testgit.New(t)
			for i := range 3 {
				r.Package(fmt.Sprintf("p%d", i), "one")
			}
			commit := r.Commit("main", "one")
			for i := range 3 {
				r.Tag(fmt.Sprintf("p%d/v1", i), commit)
			}
			imported := []string{"up.p0.main -1 one", "up.p0.v1 1 one latest", "up.p1.main -1 one", "up.p1.v1 1 one latest", "up.p2.main -1 one", "up.p2.v1 1 one latest"}
			all := append(slices.Clone(imported), "up.web.main -1 web", "up.web.ws 1 web latest")

			direct := e.controllers
			proxy := testenv.NewProxy(t, direct)
			e.controllers = proxy.Config()
			stop := e.run(t)
			e.controllers = direct
			crashed := make(chan struct{})
			crash := func() {
				tc.crash(proxy, func() {
					stop()
					close(crashed)
				})
			}
			if tc.at == importing {
				crash()
			}
			e.create(t, "up", gitSpec(r.URL(), ""))
			if tc.at >= exporting {
				e.waitForRevisions(t, imported...)
				if tc.at == exporting {
					crash()
				}
				e.publish(t, "up", "web", "ws", 1, "web")
			}
			if tc.at == deleting {
				e.waitForRevisions(t, all...)
				e.quiet(t)
				crash()
				e.delete(t, "up.web.ws")
			}
			select {
			case <-crashed:
			case <-time.After(testenv.Patience):
				t.Fatal("it did not write what it was to crash at")
			}
			if cr := e.revisions(t)["up.web.ws"]; (r.Ref(tag) != "") != tc.exists || tc.at == exporting && cr.External.ID != "" || (cr != nil) != (tc.at >= exporting) {
				t.Fatalf("it did not crash at that point: %v, %+v", r.Refs(), cr)
			}
			e.run(t)
			switch tc.at {
			case importing:
				e.waitForRevisions(t, imported...)
			case deleting:
				e.waitForRevisions(t, append(slices.Clone(imported), "up.web.main -1 web")...)
				if r.Ref(tag) != "" {
					t.Error("the tag exists")
				}
			case exporting:
				e.waitForRevisions(t, all...)
				testenv.Eventually(t, testenv.Patience, func() (bool, string) {
					cr := e.revisions(t)["up.web.ws"]
					return cr.External.ID == r.Ref(tag) && cr.External.ID != "", fmt.Sprintf("external %+v", cr.External)
				})
				if _, parents, _ := r.Show(r.Ref("refs/heads/main")); !slices.Equal(parents, []string{commit}) {
					t.Errorf("it was exported more than once: %v", parents)
				}
			}
			e.quiet(t)
		})
	}
}

// TestTwoReplicas: a lease prevents that two controllers run. If they do, nothing is lost or
// imported twice.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r, s := testgit.New(t), testgit.Serve(t)
	for i := range 10 {
		r.Package(fmt.Sprintf("p%d", i), "one")
	}
	commit := r.Commit("main", "one")
	e.run(t)
	e.run(t)
	e.create(t, "up", gitSpec(s.URL(r), ""))
	var want []string
	for i := range 10 {
		r.Tag(fmt.Sprintf("p%d/v1", i), commit)
		e.publish(t, "up", fmt.Sprintf("q%d", i), "mine", 1, "two")
		want = append(want, fmt.Sprintf("up.p%d.main -1 one", i), fmt.Sprintf("up.p%d.v1 1 one latest", i), fmt.Sprintf("up.q%d.main -1 two", i), fmt.Sprintf("up.q%d.mine 1 two latest", i))
	}
	e.waitForRevisions(t, want...)
	e.waitForCondition(t, "up", "Exported", "Exported")
	e.quiet(t)
	tags := 0
	for _, ref := range r.Refs() {
		if strings.HasPrefix(ref, "refs/tags/") {
			tags++
		}
	}
	if tags != 20 {
		t.Errorf("%d tags, want 20", tags)
	}
}

func TestHubRepository(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.run(t)
	e.create(t, "hub", "{}")
	e.waitForCondition(t, "hub", "Ready", "Ready")
	e.publish(t, "hub", "web", "ws", 1, "x")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		s := e.repository(t, "hub").Status
		return s.PackageCount == 1 && s.Packages == 1, fmt.Sprintf("status %+v", s)
	})
	e.delete(t, "hub.web.ws")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := e.stored().Get(t.Context(), "hub.web.ws", metav1.GetOptions{})
		return apierrors.IsNotFound(err), "the revision is there"
	})
	e.quiet(t)
	if text, err := json.Marshal(e.repository(t, "hub").Status); err != nil || strings.Contains(string(text), "Exported") {
		t.Errorf("status %s", text)
	}
}

// TestRootKptfile: a Kptfile in the root of a repository hides no package, and the Repository says
// that the root is not imported.
func TestRootKptfile(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	r := testgit.New(t)
	r.Files["Kptfile"] = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: all\n"
	r.Package("web", "one")
	r.Package("infra/db", "db")
	r.Tag("web/v1", r.Commit("main", "one"))
	e.run(t)
	e.create(t, "up", gitSpec(r.URL(), ""))
	e.waitForRevisions(t, "up.infra.db.main -1 db", "up.web.main -1 one", "up.web.v1 1 one latest")
	e.waitForCondition(t, "up", "Ready", "Ready")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		errors := e.repository(t, "up").Status.Errors
		return len(errors) == 1 && errors[0].Package == "" && errors[0].Ref == "main" && strings.Contains(errors[0].Message, "packages below it are imported"), fmt.Sprintf("errors %+v", errors)
	})
	delete(r.Files, "Kptfile")
	r.Commit("main", "no package in the root")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		errors := e.repository(t, "up").Status.Errors
		return len(errors) == 0, fmt.Sprintf("errors %+v", errors)
	})
	e.waitForRevisions(t, "up.infra.db.main -1 db", "up.web.main -1 one", "up.web.v1 1 one latest")
}
