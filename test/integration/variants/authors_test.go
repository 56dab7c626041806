package variants

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// author is a user with the role starling:package-author and no other right.
type author struct {
	*environment
	client dynamic.Interface
}

func (e *environment) author(t *testing.T, name string) *author {
	t.Helper()
	return &author{e, e.as(t, name, "starling:package-author")}
}

func (a *author) revisions() dynamic.ResourceInterface {
	return a.client.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(a.namespace)
}

// add adds an object to a draft.
func (a *author) add(t *testing.T, name string) {
	t.Helper()
	resources := a.client.Resource(porchv1alpha1.ResourcePackageRevisionResources).Namespace(a.namespace)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		obj, err := resources.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			err = unstructured.SetNestedField(obj.Object, configMap("backdoor", "a", "b"), "spec", "resources", "backdoor.yaml")
		}
		if err == nil {
			_, err = resources.Update(t.Context(), obj, metav1.UpdateOptions{})
		}
		return err == nil, fmt.Sprint(err)
	})
}

// copies creates a draft of a package from a published revision.
func (a *author) copies(t *testing.T, pkg, workspace, source string) string {
	t.Helper()
	obj, err := a.revisions().Create(t.Context(), testenv.Parse(t, fmt.Sprintf(`{apiVersion: porch.kpt.dev/v1alpha1, kind: PackageRevision, metadata: {}, spec: {
		repository: edge, packageName: %s, workspaceName: %s, tasks: [{type: edit, edit: {sourceRef: {name: %s}}}]}}`, pkg, workspace, source)), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj.GetName()
}

// waitsFor waits until a PackageVariant says what it waits for.
func (e *environment) waitsFor(t *testing.T, variant, what string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		text := e.variant(t, variant).Status.WaitsFor
		return strings.Contains(text, what), text
	})
}

// waits blocks until a PackageVariant waits for a reviewer because of a user's change, and checks
// that nothing of it was published.
func (e *environment) waits(t *testing.T, variant, user string) {
	t.Helper()
	e.waitsFor(t, variant, fmt.Sprintf("user %q changed its content", user))
	for name, pr := range e.list(t, "edge", variant) {
		if _, there := e.files(t, name)["backdoor.yaml"]; there && pr.Spec.Lifecycle.Published() {
			t.Errorf("%s was published automatically with the content of user %q", name, user)
		}
	}
}

// TestAutomaticApprovalIsForOwnContent: a user who may write packages and not approve them gets
// nothing approved through a PackageVariant with an approval policy.
func TestAutomaticApprovalIsForOwnContent(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	mallory := e.author(t, "mallory")

	t.Run("OwnerOfACopy", func(t *testing.T) {
		e.create(t, withApprovalPolicy("copied", "always", "package: web, revision: latest", ""))
		e.ready(t, "copied", v1, configv1alpha1.VariantPublished)
		owner := fmt.Sprintf(`[{"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant", "name": "copied", "uid": %q, "controller": true}]`, e.variant(t, "copied").UID)
		own := e.only(t, "edge", "copied", published)
		name := mallory.copies(t, "copied", "mine", own.Name)
		mallory.add(t, name)
		patch := func(name, text string) error {
			_, err := mallory.revisions().Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		refused := func(what string, err error) {
			t.Helper()
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `may update PackageVariant "copied"`) {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("add an owner", patch(name, `{"metadata":{"ownerReferences":`+owner+`}}`))
		refused("name who is to adopt it", patch(name, `{"metadata":{"annotations":{"starling.io/released-by":"copied"}}}`))
		refused("remove an owner", patch(own.Name, `{"metadata":{"ownerReferences":null}}`))
		_, err := mallory.revisions().Create(t.Context(), testenv.Parse(t, `{apiVersion: porch.kpt.dev/v1alpha1, kind: PackageRevision, metadata: {ownerReferences: `+owner+`},
			spec: {repository: edge, packageName: copied, workspaceName: other}}`), metav1.CreateOptions{})
		refused("create with an owner", err)
		if err := patch(name, `{"status":{"authors":["system:serviceaccount:starling-system:binding-controller"]}}`); err != nil {
			t.Errorf("the status is ignored: %v", err)
		}
		if diff := e.list(t, "edge", "copied")[name].Status.Authors; len(diff) != 1 || diff[0] != "mallory" {
			t.Errorf("authors %q", diff)
		}
		// A user who may update the PackageVariant may make it the owner. Its content is still not
		// approved automatically.
		if _, err := e.revisions().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":`+owner+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		e.waits(t, "copied", "mallory")
	})

	t.Run("EditWhileAGateIsUnmet", func(t *testing.T) {
		gated := e.publish(t, "catalog", "gated", "v1", "", base())
		e.create(t, withApprovalPolicy("edited", "always", "package: gated, revision: 1", "injectors: [{name: endpoints-of-edited}]"))
		e.ready(t, "edited", gated, configv1alpha1.VariantDraft)
		mallory.add(t, e.only(t, "edge", "edited", draft).Name)
		e.create(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: endpoints-of-edited}, data: {region: north}}")
		e.waits(t, "edited", "mallory")
		// The draft is deleted, so the controller creates it again.
		if err := e.revisions().Delete(t.Context(), e.only(t, "edge", "edited", draft).Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.ready(t, "edited", gated, configv1alpha1.VariantPublished)
	})

	t.Run("AdoptExisting", func(t *testing.T) {
		obj, err := mallory.revisions().Create(t.Context(), testenv.Parse(t, fmt.Sprintf(`{apiVersion: porch.kpt.dev/v1alpha1, kind: PackageRevision, metadata: {}, spec: {
			repository: edge, packageName: adopted, workspaceName: mine, tasks: [{type: clone, clone: {upstreamRef: {upstreamRef: {name: %s}}}}]}}`, v1)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mallory.add(t, obj.GetName())
		e.create(t, withApprovalPolicy("adopted", "always", "package: web, revision: latest", "adoptionPolicy: adoptExisting"))
		e.waits(t, "adopted", "mallory")
	})
}
