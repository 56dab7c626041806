package transactions

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// sources returns what the Lock lists, without the host.
func (h *hub) sources(t *testing.T) string {
	t.Helper()
	var sources []string
	for _, locked := range h.lock(t).Packages {
		version, _, _ := strings.Cut(locked.Version, "@")
		sources = append(sources, strings.TrimPrefix(locked.Source, h.registry.Host()+"/")+":"+version)
	}
	return strings.Join(sources, " ")
}

// request creates a Transaction and waits until it has ended.
func (h *hub) request(t *testing.T, name, spec string) *pkgv1alpha1.Transaction {
	t.Helper()
	h.Apply(t, fmt.Sprintf("{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: %s}, spec: {retryLimit: 1, %s}}", name, spec))
	return h.ends(t, name)
}

// controlled fails unless an active revision controls the CustomResourceDefinition.
func (h *hub) controlled(t *testing.T, crd string) {
	t.Helper()
	o := h.exists(t, crds, crd)
	owner := transaction.ControllerOf(o)
	if owner == nil {
		t.Errorf("nothing controls %s: %v", crd, o.GetOwnerReferences())
		return
	}
	r := testenv.Get[pkgv1.ProviderRevision](t, h.Client.Resource(pkgv1.ProviderRevisions), owner.Name)
	if r.UID != owner.UID || r.Spec.DesiredState != pkgv1.RevisionActive {
		t.Errorf("revision %s, which is %s, controls %s", owner.Name, r.Spec.DesiredState, crd)
	}
}

// TestReplaceUnderTheSameName: the package gets another source and stays, and so do its objects
// when the Transaction has gone.
func TestReplaceUnderTheSameName(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "old/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region")))
	h.push(t, "new/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region")))
	h.run(t)
	h.apply(t, "Provider", "s3", "old/s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.Create(t, buckets, "", "mine", map[string]any{"spec": map[string]any{"region": "eu"}})
	tx := h.request(t, "replace", fmt.Sprintf(`change: Replace, replace: {source: %q, package: {
		apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: s3}, spec: {package: "%s:v1.0.0"}}}`, h.registry.Source("old/s3"), h.registry.Source("new/s3")))
	if !transaction.Succeeded(tx) {
		t.Fatalf("%+v", tx.Status.Conditions)
	}
	h.Delete(t, pkgv1alpha1.Transactions, "", "replace")
	h.gone(t, pkgv1alpha1.Transactions, "replace")
	if got := h.sources(t); got != "new/s3:v1.0.0" {
		t.Errorf("the Lock lists %s", got)
	}
	if p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "s3"); p.DeletionTimestamp != nil || p.Spec.Package != h.registry.Source("new/s3")+":v1.0.0" {
		t.Errorf("Provider s3: %+v", p)
	}
	h.controlled(t, "buckets.s3.aws.example.org")
	h.exists(t, buckets, "mine")
}

// TestSourceOfBefore: a package that had another source before is removed by the source that it has
// now, and so not while another package requires that one.
func TestSourceOfBefore(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "a/p", "v1.0.0", testxpkg.Provider("p", bucket("region")))
	h.push(t, "b/p", "v1.0.0", testxpkg.Provider("p", bucket("region")))
	h.push(t, "org/q", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("q"), pkgv1.KindProvider, h.registry.Source("b/p"), "*"))
	h.run(t)
	for _, org := range []string{"a", "b"} {
		h.apply(t, "Provider", "p", org+"/p", "v1.0.0")
		h.becomes(t, "p", "True", "TransactionComplete")
	}
	h.apply(t, "Configuration", "q", "org/q", "v1.0.0")
	h.becomes(t, "q", "True", "TransactionComplete")

	tx := h.request(t, "none", fmt.Sprintf("change: Delete, delete: {source: %q}", h.registry.Source("a/p")))
	if message := conditionOf(t, tx.Status.Conditions, "Installed", "InstallationComplete"); !strings.Contains(message, "a/p is not installed") {
		t.Errorf("message %q", message)
	}
	h.Delete(t, pkgv1.Providers, "", "p")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		tx := h.of(t, "p")
		validated := meta.FindStatusCondition(tx.Status.Conditions, "Validated")
		return tx.Spec.Delete != nil && validated != nil && validated.Reason == "MissingDependency", fmt.Sprintf("%+v", tx)
	})
	if got := h.sources(t); got != "b/p:v1.0.0 org/q:v1.0.0" {
		t.Errorf("the Lock lists %s", got)
	}
	h.controlled(t, "buckets.s3.aws.example.org")
	h.Delete(t, pkgv1.GroupVersion.WithResource("configurations"), "", "q")
	h.gone(t, pkgv1.Providers, "p")
	h.gone(t, crds, "buckets.s3.aws.example.org")
}

// TestActiveRevisionIsDeleted: it stays, since its objects would lose their controller, and goes
// with the next version or with the package.
func TestActiveRevisionIsDeleted(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/p", "v1.0.0", testxpkg.Provider("p", bucket("region")))
	h.push(t, "org/p", "v1.1.0", testxpkg.Provider("p", bucket("region", "size")))
	h.run(t)
	remove := func() string {
		t.Helper()
		name := h.lock(t).Packages[0].Name
		h.Delete(t, pkgv1.ProviderRevisions, "", name)
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			r := testenv.Get[pkgv1.ProviderRevision](t, h.Client.Resource(pkgv1.ProviderRevisions), name)
			return r.DeletionTimestamp != nil, "it is not being deleted"
		})
		h.controlled(t, "buckets.s3.aws.example.org")
		return name
	}
	h.apply(t, "Provider", "p", "org/p", "v1.0.0")
	h.becomes(t, "p", "True", "TransactionComplete")
	uid := h.Get(t, crds, "", "buckets.s3.aws.example.org").GetUID()
	first := remove()
	h.apply(t, "Provider", "p", "org/p", "v1.1.0")
	h.becomes(t, "p", "True", "TransactionComplete")
	h.gone(t, pkgv1.ProviderRevisions, first)
	h.controlled(t, "buckets.s3.aws.example.org")
	if now := h.Get(t, crds, "", "buckets.s3.aws.example.org").GetUID(); now != uid {
		t.Error("the CustomResourceDefinition was created again")
	}
	h.Create(t, buckets, "", "mine", map[string]any{"spec": map[string]any{"region": "eu"}})
	second := remove()
	h.Delete(t, pkgv1.Providers, "", "p")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		tx := h.of(t, "p")
		validated := meta.FindStatusCondition(tx.Status.Conditions, "Validated")
		return tx.Spec.Delete != nil && validated != nil && validated.Reason == "ResourcesInUse", fmt.Sprintf("%+v", tx)
	})
	h.controlled(t, "buckets.s3.aws.example.org")
	h.Delete(t, buckets, "", "mine")
	h.Delete(t, pkgv1alpha1.Transactions, "", h.of(t, "p").Name) // the next one is tried at once
	h.gone(t, pkgv1.Providers, "p")
	h.gone(t, pkgv1.ProviderRevisions, second)
	h.gone(t, crds, "buckets.s3.aws.example.org")
}

// TestEditOfADependency: a user gives a dependency the version that a package is about to require.
// It gets that version, and not the lowest that fits.
func TestEditOfADependency(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	family := h.registry.Source("org/family")
	for _, tag := range []string{"v1.0.0", "v2.0.0", "v3.0.0"} {
		h.push(t, "org/family", tag, testxpkg.Provider("family"))
		h.push(t, "org/s3", tag, testxpkg.Requires(testxpkg.Provider("s3"), pkgv1.KindProvider, family, ">="+tag))
	}
	h.push(t, "org/family", "v1.5.0", testxpkg.Provider("family"))
	stop := h.run(t)
	h.push(t, "org/s3", "v0.1.0", testxpkg.Requires(testxpkg.Provider("s3"), pkgv1.KindProvider, family, "=v1.0.0"))
	h.apply(t, "Provider", "s3", "org/s3", "v0.1.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	stop()
	h.apply(t, "Provider", "s3", "org/s3", "v2.0.0")
	h.Patch(t, pkgv1.Providers, "", "org-family", fmt.Sprintf(`{"spec":{"package":"%s:v3.0.0"}}`, family))
	h.run(t)
	h.becomes(t, "s3", "True", "TransactionComplete")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.sources(t)
		return got == "org/family:v3.0.0 org/s3:v2.0.0", got
	})
	if p := h.Get(t, pkgv1.Providers, "", "org-family"); !strings.HasSuffix(imageOf(p), ":v3.0.0") {
		t.Errorf("the package is %s", imageOf(p))
	}
}

// TestDependencyIsBeingDeleted: it stays while a package requires it, and so it is updated with
// that package.
func TestDependencyIsBeingDeleted(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	family := h.registry.Source("org/family")
	for _, tag := range []string{"v1.0.0", "v2.0.0"} {
		h.push(t, "org/family", tag, testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
		h.push(t, "org/s3", tag, testxpkg.Requires(testxpkg.Provider("s3"), pkgv1.KindProvider, family, "="+tag))
	}
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.Delete(t, pkgv1.Providers, "", "org-family")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "org-family")
		synced := meta.FindStatusCondition(p.Status.Conditions, "Synced")
		return synced != nil && synced.Status == metav1.ConditionFalse && strings.Contains(synced.Message, "s3 requires"), fmt.Sprintf("%+v", p.Status)
	})
	h.apply(t, "Provider", "s3", "org/s3", "v2.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	if got := h.sources(t); got != "org/family:v2.0.0 org/s3:v2.0.0" {
		t.Errorf("the Lock lists %s", got)
	}
	h.controlled(t, "providerconfigs.aws.example.org")
	h.Delete(t, pkgv1.Providers, "", "s3")
	h.gone(t, pkgv1.Providers, "s3")
	h.gone(t, pkgv1.Providers, "org-family")
}

// TestHolderIsGone: a Lock whose holder does not exist keeps no package from being deleted.
func TestHolderIsGone(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.run(t)
	h.apply(t, "Provider", "p", "org/none", "v1.0.0")
	h.becomes(t, "p", "False", "ValidationFailed")
	h.free(t)
	h.Patch(t, pkgv1beta1.Locks, "", "lock", `{"metadata":{"annotations":{"pkg.crossplane.io/current-transaction":"nobody"}}}`)
	h.Delete(t, pkgv1.Providers, "", "p")
	h.gone(t, pkgv1.Providers, "p")
}

func imageOf(p *unstructured.Unstructured) string {
	image, _, _ := unstructured.NestedString(p.Object, "spec", "package")
	return image
}

// TestGivenUpInTheMiddle: an installation was interrupted when it had updated a dependency in part,
// and is given up: the package is changed, or the next try is not valid. The objects go back to the
// revision that is active.
func TestGivenUpInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(*testing.T, *hub){
		"Superseded": func(t *testing.T, h *hub) {
			h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
			h.run(t)
			h.becomes(t, "s3", "True", "TransactionComplete")
		},
		"Invalid": func(t *testing.T, h *hub) {
			h.registry.Fail(http.StatusNotFound, "/org/s3/")
			h.run(t)
			h.becomes(t, "s3", "False", "InstallationFailed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			family := h.registry.Source("org/family")
			h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
			h.push(t, "org/family", "v1.1.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account", "role")))
			h.push(t, "org/s3", "v1.0.0", testxpkg.Requires(testxpkg.Provider("s3"), pkgv1.KindProvider, family, "=v1.0.0"))
			h.push(t, "org/s3", "v1.1.0", testxpkg.Requires(testxpkg.Provider("s3"), pkgv1.KindProvider, family, "=v1.1.0"))
			stop := h.run(t)
			h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
			h.becomes(t, "s3", "True", "TransactionComplete")
			stop()
			const crd = "providerconfigs.aws.example.org"
			before := transaction.ControllerOf(h.exists(t, crds, crd)).Name
			h.apply(t, "Provider", "s3", "org/s3", "v1.1.0")
			for n := 0; transaction.ControllerOf(h.exists(t, crds, crd)).Name == before; n++ {
				if n > 40 {
					t.Fatal("the definition does not pass to the new revision")
				}
				h.killAfterWrite(t)
			}
			giveUp(t, h)
			h.free(t)
			h.controlled(t, crd)
			if got := h.sources(t); got != "org/family:v1.0.0 org/s3:v1.0.0" {
				t.Errorf("the Lock lists %s", got)
			}
		})
	}
}

// TestLongMessages: texts of any length end in conditions that the API server accepts, and the Lock
// is free.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.run(t)
	long := "registry.example.com/" + strings.Repeat("x", 40<<10)
	h.request(t, "delete", fmt.Sprintf("change: Delete, delete: {source: %q}", long))
	h.request(t, "replace", fmt.Sprintf("change: Replace, replace: {source: %q, package: {apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: p}, spec: {package: %q}}}", long, h.registry.Source("org/none")+":v1"))
	h.request(t, "install", fmt.Sprintf("change: Install, install: {package: {apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: p}, spec: {package: %q}}}", long+":v1"))
	h.free(t)
}

// TestOtherObjectsHaveOwnersToo: an object that is no CustomResourceDefinition belongs to one
// package. That of a user is adopted, which a warning says.
func TestOtherObjectsHaveOwnersToo(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	compositions := schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositions"}
	composition := func(name, mode string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": map[string]any{"name": name}, "spec": map[string]any{"mode": mode},
		}}
	}
	h.push(t, "org/early", "v1.0.0", testxpkg.Configuration("early", composition("early", "x")))
	stop := h.run(t)
	h.apply(t, "Configuration", "early", "org/early", "v1.0.0")
	early := h.becomes(t, "early", "False", "ValidationFailed")
	const command = "kubectl apply --server-side --filename apiextensions.crossplane.io_compositions.yaml"
	if message := conditionOf(t, early.Status.Conditions, "Validated", "MissingDependency"); !strings.Contains(message, command) {
		t.Errorf("message %q", message)
	}
	h.Delete(t, pkgv1.GroupVersion.WithResource("configurations"), "", "early")
	h.gone(t, pkgv1.GroupVersion.WithResource("configurations"), "early")
	stop()
	h.Apply(t, encode(t, testxpkg.CRD("apiextensions.crossplane.io", "Composition", "mode")))
	h.push(t, "org/a", "v1.0.0", testxpkg.Configuration("a", composition("db", "a")))
	h.push(t, "org/b", "v1.0.0", testxpkg.Configuration("b", composition("db", "b")))
	h.push(t, "org/c", "v1.0.0", testxpkg.Configuration("c", composition("mine", "c")))
	h.push(t, "org/both", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("both", composition("new", "x")), pkgv1.KindConfiguration, h.registry.Source("org/other"), "*"))
	h.push(t, "org/other", "v1.0.0", testxpkg.Configuration("other", composition("new", "y")))
	h.Create(t, compositions, "", "mine", map[string]any{"spec": map[string]any{"mode": "user"}})
	h.run(t)
	h.apply(t, "Configuration", "a", "org/a", "v1.0.0")
	h.becomes(t, "a", "True", "TransactionComplete")
	for name, want := range map[string]string{"b": "Composition db of package b is already controlled by ConfigurationRevision a-", "both": "would all control Composition new"} {
		h.apply(t, "Configuration", name, "org/"+name, "v1.0.0")
		tx := h.becomes(t, name, metav1.ConditionFalse, "ValidationFailed")
		if message := conditionOf(t, tx.Status.Conditions, "Validated", "CRDConflict"); !strings.Contains(message, want) {
			t.Errorf("%s: message %q", name, message)
		}
		h.Delete(t, pkgv1.GroupVersion.WithResource("configurations"), "", name)
	}
	h.apply(t, "Configuration", "c", "org/c", "v1.0.0")
	adopts := h.becomes(t, "c", "True", "TransactionComplete")
	if got := strings.Join(adopts.Status.Warnings, "; "); !strings.Contains(got, "Composition.apiextensions.crossplane.io/mine exists and has no controller; package c adopts it") {
		t.Errorf("warnings %q", got)
	}
	if mode, _, _ := unstructured.NestedString(h.Get(t, compositions, "", "db").Object, "spec", "mode"); mode != "a" {
		t.Errorf("Composition db is of %s", mode)
	}
}
