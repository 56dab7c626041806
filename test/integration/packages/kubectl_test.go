package packages

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// testTimeout is far more than any wait takes on any machine.
const testTimeout = 2 * time.Minute

// kubectl runs kubectl in the namespace of the test.
func (e *environment) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return e.fleet.Kubectl(t, wds, append([]string{"--namespace", e.namespace}, args...)...)
}

// TestKubectl: kubectl works as with built-in kinds.
func TestKubectl(t *testing.T) {
	e := newEnvironment(t)
	for i := range 7 {
		pr := e.revision("upstream", fmt.Sprintf("p%d", i), "v1")
		pr.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)}
		pr.Spec.PackageMetadata = &porchv1alpha1.PackageMetadata{Labels: map[string]string{"tier": fmt.Sprint("t", i%2)}}
		e.make(t, pr)
	}
	first := e.move(t, &porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: "upstream.p0.v1"}}, published)

	t.Run("Table", func(t *testing.T) {
		lines := strings.Split(e.kubectl(t, "get", "packagerevisions"), "\n")
		if got := strings.Fields(lines[0]); strings.Join(got, " ") != "NAME PACKAGE WORKSPACENAME REVISION LATEST LIFECYCLE REPOSITORY" {
			t.Errorf("columns %v", got)
		}
		if got := strings.Fields(lines[1]); strings.Join(got, " ") != "upstream.p0.v1 p0 v1 1 true Published upstream" {
			t.Errorf("row %v", got)
		}
		if got := strings.Fields(e.kubectl(t, "get", "packagerevisionresources", "upstream.p1.v1", "--no-headers")); strings.Join(got, " ") != "upstream.p1.v1 p1 v1 0 upstream 2" {
			t.Errorf("files: %v", got)
		}
		if got := e.kubectl(t, "get", "packages", "upstream.p0"); !strings.Contains(got, "LATEST REVISION") || strings.Fields(strings.Split(got, "\n")[1])[3] != "1" {
			t.Errorf("packages: %s", got)
		}
		if got := strings.Count(e.kubectl(t, "get", "packages", "--no-headers"), "\n"); got != 7 {
			t.Errorf("%d packages", got)
		}
	})
	t.Run("Selectors", func(t *testing.T) {
		for selector, want := range map[string]int{
			"--selector=odd=true": 3, "--selector=kpt.dev/latest-revision=true": 1, "--selector=odd": 7, "--selector=!odd": 0,
			"--field-selector=spec.lifecycle=Draft": 6, "--field-selector=spec.lifecycle!=Draft": 1, "--field-selector=spec.packageName=p3": 1,
			"--field-selector=spec.revision=1": 1, "--field-selector=spec.revision=0": 6, "--field-selector=spec.repository=upstream,spec.workspaceName=v1": 7,
			"--field-selector=metadata.name=upstream.p2.v1": 1, "--field-selector=spec.packageMetadata.labels[tier]=t1": 3,
		} {
			if got := strings.Count(e.kubectl(t, "get", "packagerevisions", "--output=name", selector), "\n"); got != want {
				t.Errorf("%s selects %d, want %d", selector, got, want)
			}
		}
		_, err := e.admin.revisions(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nothing=1"})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "is not a supported field selector") {
			t.Errorf("unknown field: %v", err)
		}
	})
	t.Run("Pages", func(t *testing.T) {
		seen, pages, next := map[string]bool{}, 0, ""
		for {
			list := must[*porchv1alpha1.PackageRevisionList](t)(e.admin.revisions(e.namespace).List(t.Context(), metav1.ListOptions{Limit: 3, Continue: next}))
			for _, pr := range list.Items {
				seen[pr.Name] = true
			}
			pages++
			if next = list.Continue; next == "" {
				break
			}
			if len(list.Items) != 3 || list.RemainingItemCount == nil {
				t.Errorf("a page of %d, remaining %v", len(list.Items), list.RemainingItemCount)
			}
		}
		if len(seen) != 7 || pages != 3 {
			t.Errorf("%d in %d pages", len(seen), pages)
		}
	})
	t.Run("Explain", func(t *testing.T) {
		testenv.Eventually(t, testTimeout, func() (bool, string) {
			out, err := e.fleet.Run("kubectl", "--", "--context", wds, "explain", "packagerevisions.spec.lifecycle")
			return strings.Contains(out, "Draft, Proposed, Published or DeletionProposed"), fmt.Sprint(out, err)
		})
	})
	t.Run("ServerSideApply", func(t *testing.T) { serverSideApply(t, e) })
	t.Run("ApplyFiles", func(t *testing.T) { applyFiles(t, e) })
	t.Run("DryRun", func(t *testing.T) {
		before := e.kubectl(t, "get", "packagerevisions", "--output=name")
		pr := e.revision("upstream", "dry", "v1")
		out := &porchv1alpha1.PackageRevision{}
		err := e.admin.rest.Post().Namespace(e.namespace).Resource("packagerevisions").Param("dryRun", "All").Body(pr).Do(t.Context()).Into(out)
		if err != nil || out.Name != "upstream.dry.v1" || len(out.Status.Conditions) == 0 {
			t.Errorf("create: %v, %+v", err, out)
		}
		e.kubectl(t, "patch", "packagerevision", "upstream.p1.v1", "--type=merge", `--patch={"spec":{"lifecycle":"Proposed"}}`, "--dry-run=server")
		e.kubectl(t, "delete", "packagerevision", "upstream.p1.v1", "--dry-run=server")
		if got := e.kubectl(t, "get", "packagerevisions", "--output=name"); got != before {
			t.Errorf("before %s\nafter %s", before, got)
		}
		if got := e.kubectl(t, "get", "packagerevision", "upstream.p1.v1", "--output=jsonpath={.spec.lifecycle}"); got != "Draft" {
			t.Errorf("is %s after a dry run", got)
		}
	})
	t.Run("Preconditions", func(t *testing.T) {
		uid, version := types.UID("other"), "1"
		for name, p := range map[string]metav1.Preconditions{"UID": {UID: &uid}, "Version": {ResourceVersion: &version}} {
			err := e.admin.revisions(e.namespace).Delete(t.Context(), "upstream.p1.v1", metav1.DeleteOptions{Preconditions: &p})
			if !apierrors.IsConflict(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		pr := must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), "upstream.p1.v1", metav1.GetOptions{}))
		stale := pr.DeepCopy()
		pr.Labels["x"] = "1"
		must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Update(t.Context(), pr, metav1.UpdateOptions{}))
		if _, err := e.admin.revisions(e.namespace).Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("a stale update: %v", err)
		}
		stale.ResourceVersion = ""
		if _, err := e.admin.revisions(e.namespace).Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("an update without a version: %v", err)
		}
	})
	t.Run("Watch", func(t *testing.T) { watchResumes(t, e) })
	t.Run("DeletedOnceMore", func(t *testing.T) {
		old := e.kubectl(t, "get", "packagerevision", "upstream.p6.v1", "--output=jsonpath={.metadata.uid}")
		e.kubectl(t, "delete", "packagerevision", "upstream.p6.v1")
		e.make(t, e.revision("upstream", "p6", "v1"))
		if e.kubectl(t, "get", "packagerevision", "upstream.p6.v1", "--output=jsonpath={.metadata.uid}") == old {
			t.Error("another object has the same UID")
		}
	})
	t.Run("Finalizer", func(t *testing.T) {
		e.kubectl(t, "patch", "packagerevision", "upstream.p5.v1", "--type=merge", `--patch={"metadata":{"finalizers":["example.com/x"]}}`)
		e.kubectl(t, "delete", "packagerevision", "upstream.p5.v1", "--wait=false")
		if got := e.kubectl(t, "get", "packagerevision", "upstream.p5.v1", "--output=jsonpath={.metadata.deletionTimestamp}"); got == "" {
			t.Error("is not being deleted")
		}
		e.kubectl(t, "patch", "packagerevision", "upstream.p5.v1", "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
		e.kubectl(t, "wait", "--for=delete", "packagerevision/upstream.p5.v1", "--timeout=60s")
	})
	t.Run("Collection", func(t *testing.T) {
		err := e.admin.revisions(e.namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("with a published one: %v", err)
		}
		if got := strings.TrimSpace(e.kubectl(t, "get", "packagerevisions", "--output=name")); got != "packagerevision.porch.kpt.dev/"+first.Name {
			t.Errorf("left are %s", got)
		}
	})
	e.checkConsistent(t, true)
	t.Run("NamespaceGoes", func(t *testing.T) {
		e.fleet.Kubectl(t, wds, "delete", "namespace", e.namespace, "--timeout=60s")
		if left := e.storedRevisions(t, e.namespace); len(left) > 0 {
			t.Errorf("%d revisions are left", len(left))
		}
	})
}

func serverSideApply(t *testing.T, e *environment) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "applied.yaml")
	apply := func(manager, label string, more ...string) (string, error) {
		manifest := fmt.Sprintf(`{"apiVersion":"porch.kpt.dev/v1alpha1","kind":"PackageRevision",
			"metadata":{"name":"upstream.applied.v1","namespace":%q,"labels":{"owner":%q}},
			"spec":{"packageName":"applied","repository":"upstream","workspaceName":"v1","readinessGates":[{"conditionType":"Of-%s"}]}}`, e.namespace, label, manager)
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		return e.fleet.Run(append([]string{"kubectl", "--", "--context", wds, "apply", "--server-side", "--field-manager", manager, "--filename", file}, more...)...)
	}
	if out, err := apply("one", "a"); err != nil {
		t.Fatal(out, err)
	}
	version := e.kubectl(t, "get", "packagerevision", "upstream.applied.v1", "--output=jsonpath={.metadata.resourceVersion}")
	if out, err := apply("one", "a"); err != nil {
		t.Fatal(out, err)
	}
	if again := e.kubectl(t, "get", "packagerevision", "upstream.applied.v1", "--output=jsonpath={.metadata.resourceVersion}"); again != version {
		t.Errorf("the same applied again is a write: %s, then %s", version, again)
	}
	if _, err := apply("two", "b"); err == nil || !strings.Contains(err.Error(), "conflict") {
		t.Errorf("another's field: %v", err)
	}
	if out, err := apply("two", "b", "--force-conflicts"); err != nil {
		t.Fatal(out, err)
	}
	pr := must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), "upstream.applied.v1", metav1.GetOptions{}))
	gates := map[string]bool{}
	for _, gate := range pr.Spec.ReadinessGates {
		gates[gate.ConditionType] = true
	}
	if pr.Labels["owner"] != "b" || !gates["Of-one"] || !gates["Of-two"] || !gates[porchv1alpha1.ConditionPipelinePassed] {
		t.Errorf("labels %v, gates %v", pr.Labels, gates)
	}
	managers := map[string]bool{}
	for _, entry := range pr.ManagedFields {
		managers[entry.Manager] = true
	}
	if !managers["one"] || !managers["two"] {
		t.Errorf("managers %v", managers)
	}
	// Files are a map: applying some of them leaves the others.
	patch, err := json.Marshal(map[string]any{
		"apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevisionResources",
		"spec": map[string]any{"resources": map[string]string{"x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	prr := must[*porchv1alpha1.PackageRevisionResources](t)(e.admin.resources(e.namespace).Patch(t.Context(), "upstream.applied.v1", types.MergePatchType, patch, metav1.PatchOptions{}))
	if prr.Spec.Resources["x.yaml"] == "" || prr.Spec.Resources["Kptfile"] == "" {
		t.Errorf("files %v", prr.Spec.Resources)
	}
	if out := e.kubectl(t, "delete", "packagerevision", "upstream.applied.v1"); !strings.Contains(out, "deleted") {
		t.Error(out)
	}
}

// applyFiles: each file has an owner, so that a user who applies files server-side deletes those
// that are left out, and nobody else's. Applied client-side, nothing would be deleted: that is
// refused.
func applyFiles(t *testing.T, e *environment) {
	t.Helper()
	pr := e.make(t, e.revision("upstream", "files", "v1"))
	text := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
	}
	write := func(files map[string]string) string {
		manifest := must[[]byte](t)(json.Marshal(map[string]any{
			"apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevisionResources", "metadata": map[string]any{"name": pr.Name, "namespace": e.namespace},
			"spec": map[string]any{"packageName": "files", "repository": "upstream", "workspaceName": "v1", "resources": files},
		}))
		file := filepath.Join(t.TempDir(), "applied.json")
		if err := os.WriteFile(file, manifest, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	apply := func(files map[string]string, more ...string) error {
		args := append([]string{"kubectl", "--", "--context", wds, "apply", "--filename", write(files)}, more...)
		_, err := e.fleet.Run(args...)
		return err
	}
	get := func() *porchv1alpha1.PackageRevisionResources {
		return must[*porchv1alpha1.PackageRevisionResources](t)(e.admin.resources(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
	}
	expect := func(when string, want ...string) (version string) {
		t.Helper()
		prr := get()
		if diff := cmp.Diff(append([]string{"Kptfile", "README.md"}, want...), slices.Sorted(maps.Keys(prr.Spec.Resources))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		return prr.ResourceVersion
	}
	// The revision was applied client-side: what was applied then says nothing of its files.
	revision := filepath.Join(t.TempDir(), "revision.json")
	applied := fmt.Sprintf(`{"apiVersion":"porch.kpt.dev/v1alpha1","kind":"PackageRevision","metadata":{"name":%q,"namespace":%q},"spec":{"packageName":"files","repository":"upstream","workspaceName":"v1"}}`, pr.Name, e.namespace)
	if err := os.WriteFile(revision, []byte(applied), 0o600); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "apply", "--filename", revision)
	if len(get().ManagedFields) > 0 {
		t.Errorf("managed fields of files that nobody has applied: %v", get().ManagedFields)
	}

	if err := apply(map[string]string{"a.yaml": text("a")}); err == nil || !strings.Contains(err.Error(), "use kubectl apply --server-side") {
		t.Errorf("client-side: %v", err)
	}
	server := []string{"--server-side", "--field-manager=one"}
	two := map[string]string{"a.yaml": text("a"), "b.yaml": text("b")}
	for _, when := range []string{"applied", "applied again"} {
		if err := apply(two, server...); err != nil {
			t.Fatal(when, err)
		}
	}
	version := expect("applied", "a.yaml", "b.yaml")
	e.write(t, pr.Name, map[string]string{"c.yaml": text("c")})
	if err := apply(two, server...); err != nil {
		t.Fatal(err)
	}
	if now := expect("somebody added a file", "a.yaml", "b.yaml", "c.yaml"); now == version {
		t.Error("the file was not written")
	}
	version = get().ResourceVersion
	if err := apply(two, server...); err != nil || get().ResourceVersion != version {
		t.Errorf("the same applied again: %v, version %s, then %s", err, version, get().ResourceVersion)
	}
	if err := apply(map[string]string{"a.yaml": text("a")}, server...); err != nil {
		t.Fatal(err)
	}
	expect("one file is left out", "a.yaml", "c.yaml")
	e.write(t, pr.Name, map[string]string{"a.yaml": text("other")})
	if err := apply(map[string]string{"a.yaml": text("a")}, server...); err == nil || !strings.Contains(err.Error(), "conflict") {
		t.Errorf("somebody changed the file: %v", err)
	}
	// The server changes the Kptfile for a user who adds a gate to the revision.
	kptfile := get().Spec.Resources["Kptfile"]
	if err := apply(map[string]string{"Kptfile": kptfile}, append(server, "--force-conflicts")...); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "patch", "packagerevision", pr.Name, "--type=merge", `--patch={"spec":{"readinessGates":[{"conditionType":"PackagePipelinePassed"},{"conditionType":"Reviewed"}]}}`)
	if err := apply(map[string]string{"Kptfile": kptfile}, server...); err == nil || !strings.Contains(err.Error(), "conflict") || !strings.Contains(err.Error(), "package-server") {
		t.Errorf("a gate was added: %v", err)
	}
	e.kubectl(t, "replace", "--filename", write(map[string]string{"Kptfile": get().Spec.Resources["Kptfile"], "README.md": "", "d.yaml": text("d")}))
	expect("replaced", "d.yaml")
}

// watchResumes: a watch resumes at its resourceVersion and brings each change once, and a bookmark
// after the initial events.
func watchResumes(t *testing.T, e *environment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	client := e.admin.revisions(e.namespace)
	list := must[*porchv1alpha1.PackageRevisionList](t)(client.List(ctx, metav1.ListOptions{}))
	label := func(n int) {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n)
		must[*porchv1alpha1.PackageRevision](t)(client.Patch(ctx, "upstream.p2.v1", types.MergePatchType, patch, metav1.PatchOptions{}))
	}
	label(1)
	label(2)
	read := func(w watch.Interface, n int) []*porchv1alpha1.PackageRevision {
		t.Helper()
		var out []*porchv1alpha1.PackageRevision
		for event := range w.ResultChan() {
			pr, ok := event.Object.(*porchv1alpha1.PackageRevision)
			if !ok {
				t.Fatalf("an event of %T: %v", event.Object, event.Object)
			}
			if event.Type == watch.Modified {
				out = append(out, pr)
			}
			if len(out) == n {
				return out
			}
		}
		t.Fatal("the watch ended")
		return nil
	}
	first := must[watch.Interface](t)(client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion}))
	got := read(first, 1)
	first.Stop()
	if got[0].Labels["n"] != "1" {
		t.Errorf("the first change: labels %v", got[0].Labels)
	}
	resumed := must[watch.Interface](t)(client.Watch(ctx, metav1.ListOptions{ResourceVersion: got[0].ResourceVersion}))
	defer resumed.Stop()
	label(3)
	rest := read(resumed, 2)
	if rest[0].Labels["n"] != "2" || rest[1].Labels["n"] != "3" {
		t.Errorf("after it: %v, %v", rest[0].Labels, rest[1].Labels)
	}

	yes := true
	initial := must[watch.Interface](t)(client.Watch(ctx, metav1.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	}))
	defer initial.Stop()
	added := 0
	for event := range initial.ResultChan() {
		if event.Type == watch.Added {
			added++
			continue
		}
		pr, ok := event.Object.(*porchv1alpha1.PackageRevision)
		if event.Type != watch.Bookmark || !ok || pr.Annotations[metav1.InitialEventsAnnotationKey] != "true" || added != len(list.Items) {
			t.Errorf("after %d of %d: %s %v", added, len(list.Items), event.Type, event.Object)
		}
		break
	}
	_, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: "nonsense"})
	if err == nil {
		t.Error("a watch from nowhere began")
	}
}
