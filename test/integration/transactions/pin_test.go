package transactions

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestPinADependency: a user installs what another package requires under a name of their own,
// before that package or after it, as tools do that apply what is in git.
func TestPinADependency(t *testing.T) {
	t.Parallel()
	const crd = "providerconfigs.aws.example.org"
	configuration := func(t *testing.T, h *hub) {
		t.Helper()
		h.apply(t, "Configuration", "platform", "org/platform", "v1.0.0")
		h.becomes(t, "platform", "True", "TransactionComplete")
	}
	provider := func(tag string) func(*testing.T, *hub) {
		return func(t *testing.T, h *hub) {
			t.Helper()
			h.apply(t, "Provider", "family", "org/family", tag, "commonLabels: {app: platform}")
			h.becomes(t, "family", "True", "TransactionComplete")
		}
	}
	deletion := func(t *testing.T, h *hub) { // it is refused, so the dependency stays, and is being deleted
		t.Helper()
		h.Delete(t, pkgv1.Providers, "", "org-family")
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "org-family")
			synced := meta.FindStatusCondition(p.Status.Conditions, "Synced")
			return synced != nil && strings.Contains(synced.Message, "platform requires"), fmt.Sprintf("%+v", p.Status)
		})
	}
	for name, steps := range map[string][]func(*testing.T, *hub){
		"WhileItIsDeleted":    {configuration, deletion, provider("v1.1.0")},
		"AfterIt":             {configuration, provider("v1.1.0")},
		"AfterItOlder":        {configuration, provider("v1.0.0"), provider("v1.1.0")},
		"BeforeIt":            {provider("v1.1.0"), configuration},
		"BeforeItAndUpgraded": {provider("v1.0.0"), configuration, provider("v1.1.0")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			for tag, fields := range map[string][]string{"v1.0.0": {"account"}, "v1.1.0": {"account", "role"}} {
				h.push(t, "org/family", tag, testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", fields...)))
			}
			h.push(t, "org/platform", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("platform"), pkgv1.KindProvider, h.registry.Source("org/family"), ">=v1.0.0"))
			h.run(t)
			for _, step := range steps {
				step(t, h)
			}
			if got := h.sources(t); got != "org/family:v1.1.0 org/platform:v1.0.0" {
				t.Errorf("the Lock lists %s", got)
			}
			h.gone(t, pkgv1.Providers, "org-family")
			h.controlled(t, crd)
			if got := h.exists(t, crds, crd).GetLabels()["app"]; got != "platform" {
				t.Errorf("%s has label app=%q", crd, got)
			}
			h.healthy(t, "family", "True", "HealthyPackageRevision")

			// Either is deleted, and the other one stays until its turn.
			h.Delete(t, pkgv1.Providers, "", "family")
			h.becomes(t, "family", "False", "ValidationFailed")
			h.Delete(t, pkgv1.GroupVersion.WithResource("configurations"), "", "platform")
			h.gone(t, pkgv1.GroupVersion.WithResource("configurations"), "platform")
			h.gone(t, pkgv1.Providers, "family")
			h.gone(t, crds, crd)
			if got := h.sources(t); got != "" {
				t.Errorf("the Lock lists %s", got)
			}
		})
	}
}

// TestPinADependencyByHand: of a package that its user activates, the dependency stays in force
// until then.
func TestPinADependencyByHand(t *testing.T) {
	t.Parallel()
	const crd = "providerconfigs.aws.example.org"
	h := newHub(t)
	h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	h.push(t, "org/platform", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("platform"), pkgv1.KindProvider, h.registry.Source("org/family"), ">=v1.0.0"))
	h.run(t)
	h.apply(t, "Configuration", "platform", "org/platform", "v1.0.0")
	h.becomes(t, "platform", "True", "TransactionComplete")
	h.apply(t, "Provider", "family", "org/family", "v1.0.0", "revisionActivationPolicy: Manual")
	h.becomes(t, "family", "True", "TransactionComplete")
	h.exists(t, pkgv1.Providers, "org-family")
	h.controlled(t, crd)
	if got := h.sources(t); got != "org/family:v1.0.0 org/platform:v1.0.0" {
		t.Errorf("the Lock lists %s", got)
	}
	for name, r := range testenv.List[pkgv1.ProviderRevision](t, h.Client.Resource(pkgv1.ProviderRevisions), metav1.ListOptions{LabelSelector: "pkg.crossplane.io/package=family"}) {
		if r.Spec.DesiredState != pkgv1.RevisionInactive {
			t.Errorf("revision %s is %s", name, r.Spec.DesiredState)
		}
		h.Patch(t, pkgv1.ProviderRevisions, "", r.Name, `{"spec":{"desiredState":"Active"}}`)
	}
	h.gone(t, pkgv1.Providers, "org-family")
	h.healthy(t, "family", "True", "HealthyPackageRevision")
	h.controlled(t, crd)
	if got := h.sources(t); got != "org/family:v1.0.0 org/platform:v1.0.0" {
		t.Errorf("the Lock lists %s", got)
	}
}

// TestDeletionIsOfItsOwnPackage: the Transaction of a package that is being deleted comes when
// another package has adopted its source. It removes nothing of that.
func TestDeletionIsOfItsOwnPackage(t *testing.T) {
	t.Parallel()
	const crd = "providerconfigs.aws.example.org"
	h := newHub(t)
	h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	h.run(t)
	h.apply(t, "Provider", "family", "org/family", "v1.0.0")
	h.becomes(t, "family", "True", "TransactionComplete")
	h.apply(t, "Provider", "old", "org/none", "v1.0.0")
	old := h.exists(t, pkgv1.Providers, "old")
	h.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: late, ownerReferences: [
		{apiVersion: pkg.crossplane.io/v1, kind: Provider, name: old, uid: %s}]}, spec: {change: Delete, delete: {source: %q}}}`, old.GetUID(), h.registry.Source("org/family")))
	if late := h.ends(t, "late"); !transaction.Succeeded(late) || len(late.Status.Changes) > 0 {
		t.Errorf("%+v", late.Status)
	}
	h.controlled(t, crd)
	if got := h.sources(t); got != "org/family:v1.0.0" {
		t.Errorf("the Lock lists %s", got)
	}
}

// TestKindIsNotServed: of objects of a kind that the WDS does not serve any more it is not known
// whether they exist. That is said, and other packages are installed.
func TestKindIsNotServed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	compositions := testxpkg.CRD("apiextensions.crossplane.io", "Composition", "mode")
	h.Apply(t, encode(t, compositions))
	composition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": map[string]any{"name": "db"}, "spec": map[string]any{"mode": "a"},
	}}
	h.push(t, "org/a", "v1.0.0", testxpkg.Configuration("a", composition))
	h.push(t, "org/other", "v1.0.0", testxpkg.Provider("other"))
	stop := h.run(t)
	h.apply(t, "Configuration", "a", "org/a", "v1.0.0")
	h.becomes(t, "a", "True", "TransactionComplete")
	h.Patch(t, crds, "", "compositions.apiextensions.crossplane.io", `{"spec":{"versions":[{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	stop()
	h.run(t)
	h.apply(t, "Provider", "other", "org/other", "v1.0.0")
	tx := h.becomes(t, "other", "True", "TransactionComplete")
	if warnings := strings.Join(tx.Status.Warnings, "; "); !strings.Contains(warnings, "Configuration/a cannot be compared with what was installed") {
		t.Errorf("warnings %q", warnings)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Configurations), "a")
		healthy := meta.FindStatusCondition(p.Status.Conditions, "Healthy")
		return healthy != nil && healthy.Status == metav1.ConditionUnknown && strings.Contains(healthy.Message, "Composition db cannot be compared"), fmt.Sprintf("%+v", healthy)
	})
}
