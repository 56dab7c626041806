package transactions

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestRights: the author of a package may do nothing through the controller that he may not do
// himself, and the controller has the rights that it needs and cannot touch what is not its own.
func TestRights(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.InstallRights(t, "wds")
	role := func(user, verbs string) {
		h.Apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: `+user+`}, rules: [
			{apiGroups: [pkg.crossplane.io], resources: ["*"], verbs: ["*"]},
			{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [`+verbs+`]}]}`)
		h.Apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: `+user+`},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: `+user+`}, subjects: [{kind: User, name: `+user+`, apiGroup: rbac.authorization.k8s.io}]}`)
		testenv.Allowed(t, h.Config, true, user, authorizationv1.ResourceAttributes{Group: "pkg.crossplane.io", Resource: "providers", Verb: "create"})
	}
	role("reader", "get")
	role("author", "get, create, update")
	role("owner", "get, create, update, delete")
	as := func(user string) dynamic.Interface {
		client, err := dynamic.NewForConfig(h.As(user))
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	source := h.registry.Source("org/a")
	h.push(t, "org/a", "v1.0.0", testxpkg.Provider("a", bucket("region")))
	const texts = "pkg.crossplane.io/allow-deletion-of-resources"
	provider := func(annotation string) string {
		return `{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: a, annotations: {` + annotation + `}}, spec: {package: "` + source + `:v1.0.0"}}`
	}
	tx := `{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: t}, spec: {change: Delete, delete: {source: "` + source + `"}}}`
	create := func(user, text string) error {
		obj := testenv.Parse(t, text)
		resource := pkgv1.GroupVersion.WithResource("providers")
		if obj.GetKind() == "Transaction" {
			resource.Version, resource.Resource = "v1alpha1", "transactions"
		}
		_, err := as(user).Resource(resource).Create(t.Context(), obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	patch := func(user, text string) error {
		_, err := as(user).Resource(pkgv1.Providers).Patch(t.Context(), "a", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	// An API server acts by a policy a moment after it was written.
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return apierrors.IsForbidden(create("reader", provider(""))), "the policy is not active"
	})
	h.Apply(t, provider(""))
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"package of a reader":      {create("reader", provider("")), "may not create and update CustomResourceDefinitions"},
		"package of an author":     {create("author", strings.Replace(provider(""), "name: a", "name: b", 1)), ""},
		"transaction of a reader":  {create("reader", tx), "may not create and update CustomResourceDefinitions"},
		"transaction of an author": {create("author", tx), ""},
		"deletion by an author":    {create("author", strings.Replace(provider(texts+`: "true"`), "name: a", "name: b", 1)), "may not delete CustomResourceDefinitions"},
		"deletion by an owner":     {create("owner", strings.Replace(provider(texts+`: "true"`), "name: a", "name: b", 1)), ""},
		"label of a reader":        {patch("reader", `{"metadata":{"labels":{"a":"b"}}}`), ""},
		"spec of a reader":         {patch("reader", `{"spec":{"package":"`+source+`:v2.0.0"}}`), "may not create and update CustomResourceDefinitions"},
		"annotation of an author":  {patch("author", `{"metadata":{"annotations":{"`+texts+`":"true"}}}`), "may not delete CustomResourceDefinitions"},
	} {
		if tc.want == "" && tc.err != nil || tc.want != "" && (tc.err == nil || !strings.Contains(tc.err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want one that says %q", name, tc.err, tc.want)
		}
	}

	controller := h.AsServiceAccount("starling-system", "binding-controller")
	client, err := dynamic.NewForConfig(controller)
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]bool{
		"example.org": true, "control.kubestellar.io": false, "apps.k8s.io": false, "store.starling.io": false, "config.porch.kpt.dev": false,
		"work.open-cluster-management.io": false, "pkg.crossplane.io": false, "s3.aws.crossplane.io": true,
	} {
		_, err := client.Resource(crds).Create(t.Context(), testxpkg.CRD(group, "Widget", "x"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if want && err != nil || !want && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("CustomResourceDefinition of group %s: %v", group, err)
		}
	}
	for _, name := range []string{"locks.pkg.crossplane.io", "bindingpolicies.control.kubestellar.io"} {
		err := client.Resource(crds).Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			t.Errorf("deletion of %s: %v", name, err)
		}
	}

	// A whole life with the rights of production.
	h.Config = controller
	h.run(t)
	h.generations["a"] = h.Get(t, pkgv1.Providers, "", "a").GetGeneration()
	h.becomes(t, "a", "True", "TransactionComplete")
	h.push(t, "org/a", "v1.1.0", testxpkg.Provider("a", bucket("region", "size")))
	h.apply(t, "Provider", "a", "org/a", "v1.1.0")
	h.becomes(t, "a", "True", "TransactionComplete")
	h.Remove(t, pkgv1.Providers, "", "a")
}
