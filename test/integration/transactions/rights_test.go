package transactions

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
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
	patch := func(user, text string, subresources ...string) error {
		_, err := as(user).Resource(pkgv1.Providers).Patch(t.Context(), "a", types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
		return err
	}
	patchRevision := func(user, text string) error {
		_, err := as(user).Resource(pkgv1.ProviderRevisions).Patch(t.Context(), "a-1", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	const active, moved = `{"spec":{"desiredState":"Active"}}`, `{"metadata":{"labels":{"pkg.crossplane.io/package":"b"}}}`
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	remove := func(user string, resource schema.GroupVersionResource, name string) error {
		return as(user).Resource(resource).Delete(t.Context(), name, dry)
	}
	removeAll := func(user string) error {
		return as(user).Resource(pkgv1.Providers).DeleteCollection(t.Context(), dry, metav1.ListOptions{})
	}
	const owner = `"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"gone","uid":"gone"}]`
	install := strings.Replace(tx, `change: Delete, delete: {source: "`+source+`"}`,
		`change: Install, install: {package: {apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: a}, spec: {package: "`+source+`:v1.0.0"}}}`, 1)
	replace := strings.Replace(strings.Replace(install, "Install, install: {", `Replace, replace: {source: "`+source+`", `, 1), "name: t", "name: r", 1)
	// An API server acts by a policy a moment after it was written.
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return apierrors.IsForbidden(create("reader", provider(""))), "the policy is not active"
	})
	h.Apply(t, provider(""))
	h.Create(t, pkgv1.ProviderRevisions, "", "a-1", map[string]any{"spec": map[string]any{"desiredState": "Inactive", "image": source + ":v1.0.0", "revision": 1}})
	const mayNotInstall, mayNotDelete = "may not create and update CustomResourceDefinitions", "may not delete CustomResourceDefinitions"
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"package of a reader":      {create("reader", provider("")), mayNotInstall},
		"package of an author":     {create("author", strings.Replace(provider(""), "name: a", "name: b", 1)), ""},
		"transaction of a reader":  {create("reader", tx), mayNotInstall},
		"transaction of an author": {create("author", install), ""},
		"removal by an author":     {create("author", tx), mayNotDelete},
		"removal by an owner":      {create("owner", tx), ""},
		"replacement by an author": {create("author", replace), mayNotDelete},
		"replacement by an owner":  {create("owner", replace), ""},
		"package of an author, deleted by the garbage collector": {
			create("author", strings.Replace(provider(""), "name: a", "name: b, "+owner, 1)), mayNotDelete,
		},
		"package that an author gives an owner": {patch("author", `{"metadata":{`+owner+`}}`), mayNotDelete},
		"package deleted by an author":          {remove("author", pkgv1.Providers, "a"), mayNotDelete},
		"package deleted by an owner":           {remove("owner", pkgv1.Providers, "a"), ""},
		"packages deleted by an author":         {removeAll("author"), mayNotDelete},
		"revision deleted by an author":         {remove("author", pkgv1.ProviderRevisions, "a-1"), mayNotDelete},
		"revision deleted by an owner":          {remove("owner", pkgv1.ProviderRevisions, "a-1"), ""},
		"revision activated by a reader":        {patchRevision("reader", active), mayNotInstall},
		"revision activated by an author":       {patchRevision("author", active), ""},
		"revision moved by a reader":            {patchRevision("reader", moved), mayNotDelete},
		"revision moved by an author":           {patchRevision("author", moved), mayNotDelete},
		"revision moved by an owner":            {patchRevision("owner", moved), ""},
		"revision labelled by a reader":         {patchRevision("reader", `{"metadata":{"labels":{"a":"b"}}}`), ""},
		"deletion by an author":                 {create("author", strings.Replace(provider(texts+`: "true"`), "name: a", "name: b", 1)), mayNotDelete},
		"deletion by an owner":                  {create("owner", strings.Replace(provider(texts+`: "true"`), "name: a", "name: b", 1)), ""},
		"label of a reader":                     {patch("reader", `{"metadata":{"labels":{"a":"b"}}}`), ""},
		"status of a reader":                    {patch("reader", `{"status":{"currentRevision":"a"}}`, "status"), ""},
		"spec of a reader":                      {patch("reader", `{"spec":{"package":"`+source+`:v2.0.0"}}`), mayNotInstall},
		"obeyed annotation":                     {patch("reader", `{"metadata":{"annotations":{"pkg.crossplane.io/allow-breaking-crds":"a"}}}`), mayNotInstall},
		"other annotation":                      {patch("reader", `{"metadata":{"annotations":{"a":"b"}}}`), ""},
		"annotation of an author":               {patch("author", `{"metadata":{"annotations":{"`+texts+`":"true"}}}`), mayNotDelete},
	} {
		if tc.want == "" && tc.err != nil || tc.want != "" && (tc.err == nil || !strings.Contains(tc.err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want one that says %q", name, tc.err, tc.want)
		}
	}

	h.Remove(t, pkgv1.ProviderRevisions, "", "a-1")

	controller := h.AsServiceAccount("starling-system", "binding-controller")
	h.reserved(t, controller)
	h.life(t, controller)
}

// reserved checks that the controller can write the CustomResourceDefinitions of packages, and not
// those of the hub and of Kubernetes.
func (h *hub) reserved(t *testing.T, controller *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(controller)
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]bool{
		"example.org": true, "s3.aws.crossplane.io": true, "notkubestellar.io": true,
		"kubestellar.io": false, "control.kubestellar.io": false, "x.k8s.io": false, "x.kubernetes.io": false, "starling.io": false,
		"store.starling.io": false, "porch.kpt.dev": false, "config.porch.kpt.dev": false, "open-cluster-management.io": false,
		"work.open-cluster-management.io": false, "pkg.crossplane.io": false, "apiextensions.crossplane.io": false,
	} {
		crd := testxpkg.CRD(group, "Widget", "x")
		crd.SetAnnotations(map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"}) // else the API server refuses k8s.io
		if _, err := client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); want && err != nil || !want && !apierrors.IsForbidden(err) {
			t.Errorf("creation of a CustomResourceDefinition of group %s: error %v, want none: %t", group, err, want)
		}
	}
	const own = "locks.pkg.crossplane.io"
	if err := client.Resource(crds).Delete(t.Context(), own, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
		t.Errorf("deletion of %s: error %v, want forbidden", own, err)
	}
	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	if _, err := client.Resource(crds).Patch(t.Context(), own, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
		t.Errorf("patch of %s: error %v, want forbidden", own, err)
	}
}

// life runs the controller with these rights, with packages of all kinds: with a dependency,
// updates, one of which drops a definition, a replacement, deletions, and a Transaction that is
// collected.
func (h *hub) life(t *testing.T, controller *rest.Config) {
	t.Helper()
	h.Config = controller
	h.run(t)
	h.generations["a"] = h.Get(t, pkgv1.Providers, "", "a").GetGeneration()
	h.becomes(t, "a", "True", "TransactionComplete")

	const group = "rights.example.org"
	account, user := testxpkg.CRD(group, "Account", "id"), testxpkg.CRD(group, "User", "id")
	h.push(t, "org/function", "v1.0.0", testxpkg.Function("function", testxpkg.CRD(group, "Input", "x")))
	h.push(t, "org/b", "v1.0.0", testxpkg.Provider("b", account, user))
	h.push(t, "org/b", "v1.1.0", testxpkg.Provider("b", account))
	h.push(t, "other/b", "v1.0.0", testxpkg.Provider("b", account, user)) // b still has what it dropped
	h.push(t, "org/c", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("c"), pkgv1.KindFunction, h.registry.Source("org/function"), ">=v1.0.0"))
	h.apply(t, "Configuration", "c", "org/c", "v1.0.0")
	h.becomes(t, "c", "True", "TransactionComplete")
	h.apply(t, "Provider", "b", "org/b", "v1.0.0")
	h.becomes(t, "b", "True", "TransactionComplete")
	h.apply(t, "Provider", "b", "org/b", "v1.1.0")
	h.becomes(t, "b", "True", "TransactionComplete")
	h.Apply(t, `{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: replace}, spec: {change: Replace, retryLimit: 1, replace: {source: "`+h.registry.Source("org/b")+`",
		package: {apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: other}, spec: {package: "`+h.registry.Source("other/b")+`:v1.0.0"}}}}}`)
	if tx := h.ends(t, "replace"); !transaction.Succeeded(tx) {
		t.Fatalf("the replacement failed: %+v", tx.Status.Conditions)
	}
	h.gone(t, pkgv1.Providers, "b")
	h.Patch(t, pkgv1beta1.Locks, "", "lock", `{"metadata":{"annotations":{"`+pkgv1beta1.AnnotationTransactionHistoryLimit+`":"1"}}}`)
	h.Delete(t, pkgv1.Configurations, "", "c")
	h.gone(t, pkgv1.Configurations, "c")
	for _, provider := range []string{"a", "other"} {
		h.Delete(t, pkgv1.Providers, "", provider)
		h.gone(t, pkgv1.Providers, provider)
	}
	h.gone(t, crds, "accounts."+group)
	h.gone(t, crds, "users."+group)
	h.gone(t, pkgv1alpha1.Transactions, "replace")
	h.Delete(t, pkgv1.Functions, "", "org-function") // a dependency stays until a user deletes it
	h.gone(t, pkgv1.Functions, "org-function")
	// The garbage collector may delete packages, and the controller what they have.
	h.Apply(t, `{apiVersion: pkg.crossplane.io/v1, kind: Provider, spec: {package: "`+h.registry.Source("org/b")+`:v1.0.0"},
		metadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: Namespace, name: gone, uid: gone}]}}`)
	h.gone(t, pkgv1.Providers, "owned")
	if lock := h.free(t); len(lock.Packages) != 0 {
		t.Errorf("the Lock has %v", lock.Packages)
	}
}

// gone waits until an object does not exist.
func (h *hub) gone(t *testing.T, resource schema.GroupVersionResource, name string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		obj := h.Get(t, resource, "", name)
		if obj == nil {
			return true, ""
		}
		return false, fmt.Sprintf("%s %s: %v", resource.Resource, name, obj.Object["status"])
	})
}
