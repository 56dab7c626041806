package packages

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/test/testenv"
)

// TestListsOfCustomKinds: an upgrade merges the lists of a custom kind by the keys that its
// definition in the WDS names, as it is at that time.
func TestListsOfCustomKinds(t *testing.T) {
	e := newEnvironment(t)
	crd := func(listType string) {
		e.fleet.Space(t, wds).Apply(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routers.lists.example.com}
spec:
  group: lists.example.com
  scope: Namespaced
  names: {kind: Router, plural: routers, singular: router, listKind: RouterList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              routes:
                type: array
                %s
                items: {type: object, required: [host], properties: {host: {type: string}, to: {type: string}}}
`, listType))
	}
	router := func(routes ...string) string {
		return "apiVersion: lists.example.com/v1\nkind: Router\nmetadata:\n  name: r\nspec:\n  routes:\n" + strings.Join(routes, "")
	}
	route := func(host, to string) string { return "  - host: " + host + "\n    to: " + to + "\n" }
	v1 := e.make(t, e.revision("upstream", "web", "v1"))
	e.write(t, v1.Name, map[string]string{"a.yaml": router(route("a", "one"), route("b", "one"))})
	v1 = e.move(t, v1, published)
	v2 := e.make(t, e.revision("upstream", "web", "v2"), task(porchv1alpha1.TaskTypeEdit, v1.Name))
	e.write(t, v2.Name, map[string]string{"a.yaml": router(route("a", "two"), route("b", "one"))})
	v2 = e.move(t, v2, published)
	mine := e.make(t, e.revision("edge", "web", "a"), task(porchv1alpha1.TaskTypeClone, v1.Name))
	e.write(t, mine.Name, map[string]string{"a.yaml": router(route("a", "one"), route("b", "mine"))})
	mine = e.move(t, mine, published)
	upgraded := func(workspace string) string {
		draft := e.make(t, e.revision("edge", "web", workspace), task(porchv1alpha1.TaskTypeUpgrade, v1.Name, v2.Name, mine.Name))
		return e.files(t, draft.Name)["a.yaml"]
	}
	whole, merged := route("b", "one"), route("b", "mine")
	if text := upgraded("unserved"); !strings.Contains(text, whole) {
		t.Errorf("the kind is not served:\n%s", text)
	}
	crd("x-kubernetes-list-type: map\n                x-kubernetes-list-map-keys: [host]")
	testenv.Eventually(t, testTimeout, func() (bool, string) { // the API server publishes its documents later
		text := must[[]byte](t)(e.admin.rest.Get().AbsPath("/openapi/v3").Do(t.Context()).Raw())
		return strings.Contains(string(text), "lists.example.com/v1"), "the kind is not in the OpenAPI documents"
	})
	if text := upgraded("served"); !strings.Contains(text, merged) || !strings.Contains(text, route("a", "two")) {
		t.Errorf("by keys:\n%s", text)
	}
}

// TestUpstreamOfDraft: a user merges a newer upstream into the files of a draft. It is then the
// upstream of the draft and cannot be deleted any more; the previous upstream can.
func TestUpstreamOfDraft(t *testing.T) {
	e := newEnvironment(t)
	v1 := e.make(t, e.revision("upstream", "web", "v1"))
	e.write(t, v1.Name, map[string]string{"deployment.yaml": deployment})
	v1 = e.move(t, v1, published)
	v2 := e.make(t, e.revision("upstream", "web", "v2"), task(porchv1alpha1.TaskTypeEdit, v1.Name))
	e.write(t, v2.Name, map[string]string{"deployment.yaml": deployment + "  paused: true\n"})
	v2 = e.move(t, v2, published)
	mine := e.make(t, e.revision("edge", "web", "a"), task(porchv1alpha1.TaskTypeClone, v1.Name))
	e.checkUpstream(t, mine.Name, v1.Name)

	// Another edit does not change the upstream.
	e.write(t, mine.Name, map[string]string{"note.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note\n"})
	e.checkUpstream(t, mine.Name, v1.Name)

	merge := func(to *porchv1alpha1.PackageRevision) {
		t.Helper()
		files := e.files(t, mine.Name)
		merged, err := upgrade.Merge(porchv1alpha1.ResourceMerge, e.files(t, v1.Name), e.storedRevision(t, to.Name), e.files(t, to.Name), files, nil)
		if err != nil {
			t.Fatal(err)
		}
		e.write(t, mine.Name, merged.Files)
	}
	merge(v2)
	e.checkUpstream(t, mine.Name, v2.Name)
	e.checkProtected(t, v2, mine.Name)
	// The previous upstream can be deleted, also that of a published revision.
	mine = e.move(t, mine, published)
	v1 = e.move(t, v1, deletionProposed)
	if err := e.admin.revisions(e.namespace).Delete(t.Context(), v1.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete a revision that is not in use: %v", err)
	}
	e.checkConsistent(t, true)

	t.Run("NoUpstream", func(t *testing.T) {
		draft := e.make(t, e.revision("edge", "web", "b"), task(porchv1alpha1.TaskTypeEdit, mine.Name))
		e.checkUpstream(t, draft.Name, v2.Name)
		for name, lock := range map[string]string{
			"Itself":         "hub:" + e.namespace + "/edge drafts/web/b web",
			"Unknown":        "hub:" + e.namespace + "/upstream web/v9 web",
			"Elsewhere":      "https://example.com/x web/v2 web",
			"OtherNamespace": "hub:other/upstream web/v2 web",
		} {
			part := strings.Fields(lock)
			e.write(t, draft.Name, map[string]string{"Kptfile": locked(t, e.files(t, draft.Name), part[0], part[1], part[2])})
			if cr := e.storedRevision(t, draft.Name); cr.Content.Upstream != "" || cr.Content.UpstreamDigest != "" {
				t.Errorf("%s: follows %q, %q", name, cr.Content.Upstream, cr.Content.UpstreamDigest)
			}
		}
		e.write(t, draft.Name, map[string]string{"Kptfile": locked(t, e.files(t, draft.Name), "hub:"+e.namespace+"/upstream", "web/v2", "web")})
		e.checkUpstream(t, draft.Name, v2.Name)
	})
	t.Run("Imported", func(t *testing.T) {
		lock := porchv1alpha1.GitLock{Repo: "https://example.com/x", Directory: "web", Ref: "web/v7", Commit: "c0ffee"}
		imported := e.imported(t, v2.Name, "imported", lock)
		draft := e.make(t, e.revision("edge", "other", "a"))
		e.write(t, draft.Name, map[string]string{"Kptfile": locked(t, e.files(t, draft.Name), lock.Repo, lock.Ref, lock.Directory, lock.Commit)})
		e.checkUpstream(t, draft.Name, imported)
	})
	e.checkConsistent(t, true)
}

// checkUpstream fails the test unless a revision has that upstream.
func (e *environment) checkUpstream(t *testing.T, name, upstream string) {
	t.Helper()
	cr, up := e.storedRevision(t, name), e.storedRevision(t, upstream)
	if cr.Content.Upstream != upstream || cr.Content.UpstreamDigest != up.Content.Digest {
		t.Errorf("%s follows %q, %s; want %q, %s", name, cr.Content.Upstream, cr.Content.UpstreamDigest, upstream, up.Content.Digest)
	}
}

// checkProtected fails the test unless a revision cannot be deleted because of a downstream one,
// whatever its lifecycle.
func (e *environment) checkProtected(t *testing.T, pr *porchv1alpha1.PackageRevision, by string) {
	t.Helper()
	pr = e.move(t, pr, deletionProposed)
	err := e.admin.revisions(e.namespace).Delete(t.Context(), pr.Name, metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), by) {
		t.Errorf("delete what is used: %v", err)
	}
	must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Update(t.Context(), at(pr, published), metav1.UpdateOptions{}))
}

func (e *environment) files(t *testing.T, name string) kpt.Files {
	t.Helper()
	return must[*porchv1alpha1.PackageRevisionResources](t)(e.admin.resources(e.namespace).Get(t.Context(), name, metav1.GetOptions{})).Spec.Resources
}

func (e *environment) storedRevision(t *testing.T, name string) *storev1alpha1.PackageRevision {
	t.Helper()
	all := e.storedRevisions(t, e.namespace)
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// locked returns a Kptfile with an upstreamLock of repository, reference, directory and commit.
func locked(t *testing.T, files map[string]string, repo, ref, directory string, commit ...string) string {
	t.Helper()
	kptfile, err := kpt.ParseKptfile(files[kpt.KptfileName])
	if err != nil {
		t.Fatal(err)
	}
	git := kpt.GitUpstream{Repo: repo, Directory: directory, Ref: ref}
	lock := git
	lock.Commit = strings.Join(commit, "")
	if err := kptfile.SetUpstream(kpt.Upstream{Type: "git", Git: &git}, kpt.Upstream{Type: "git", Git: &lock}); err != nil {
		t.Fatal(err)
	}
	return kptfile.String()
}

// imported stores a revision with the content of another one, as the controller of Repositories
// does, and returns its name.
func (e *environment) imported(t *testing.T, like, packageName string, lock porchv1alpha1.GitLock) string {
	t.Helper()
	from := e.storedRevision(t, like)
	cr := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "upstream." + packageName + ".v7"}}
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Spec.WorkspaceName, cr.Spec.Revision = "upstream", packageName, "v7", 1
	cr.Spec.Lifecycle, cr.Content.Imported = published, true
	cr.Status.SelfLock = &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &lock}
	cr.Labels = map[string]string{porchv1alpha1.LatestRevisionLabel: "true"}
	if err := store.SetContent(cr, maps.Clone(e.files(t, like)), from.Content.Digest); err != nil {
		t.Fatal(err)
	}
	object := must[map[string]any](t)(runtime.DefaultUnstructuredConverter.ToUnstructured(cr))
	must[*unstructured.Unstructured](t)(e.dynamic.Resource(storev1alpha1.PackageRevisions).Namespace(e.namespace).
		Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}))
	return cr.Name
}
