package transactions

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// labels fails unless an object has these labels, besides the name of the last Transaction.
func (h *hub) labels(t *testing.T, crd string, want map[string]string) {
	t.Helper()
	got := h.exists(t, crds, crd).GetLabels()
	delete(got, pkgv1.LabelTransaction)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels of %s (-want +got):\n%s", crd, diff)
	}
}

// TestLabels: objects lose what a package does not write any more, keep what others write, and
// always have the name of their package. Labels of a dependency survive its upgrade.
func TestLabels(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	labelled := func(crd *unstructured.Unstructured, labels map[string]string) *unstructured.Unstructured {
		crd.SetLabels(labels)
		return crd
	}
	family := h.registry.Source("org/family")
	s3 := func(constraint string, labels map[string]string) *core.Package {
		return testxpkg.Requires(testxpkg.Provider("s3", labelled(bucket("region"), labels)), pkgv1.KindProvider, family, constraint)
	}
	h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	h.push(t, "org/family", "v1.1.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account", "role")))
	h.push(t, "org/s3", "v1.0.0", s3("=v1.0.0", map[string]string{"of-the-package": "1"}))
	h.push(t, "org/s3", "v1.1.0", s3("=v1.1.0", nil))
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0", "commonLabels: {app: a, tier: b}")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.labels(t, bucketsCRD, map[string]string{"pkg.crossplane.io/package": "s3", "of-the-package": "1", "app": "a", "tier": "b"})
	h.labels(t, "providerconfigs.aws.example.org", map[string]string{"pkg.crossplane.io/package": "org-family"})

	h.Patch(t, crds, "", bucketsCRD, `{"metadata":{"labels":{"mine":"x"}}}`)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0", "commonLabels: {app: c}")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.labels(t, bucketsCRD, map[string]string{"pkg.crossplane.io/package": "s3", "of-the-package": "1", "app": "c", "mine": "x"})
	h.healthy(t, "s3", "True", "HealthyPackageRevision")

	h.Patch(t, pkgv1.Providers, "", "org-family", `{"spec":{"commonLabels":{"team":"cloud"}}}`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.exists(t, crds, "providerconfigs.aws.example.org").GetLabels()
		return got["team"] == "cloud", fmt.Sprint(got)
	})
	h.free(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.1.0", "commonLabels: {app: c}")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.labels(t, bucketsCRD, map[string]string{"pkg.crossplane.io/package": "s3", "app": "c", "mine": "x"})
	h.labels(t, "providerconfigs.aws.example.org", map[string]string{"pkg.crossplane.io/package": "org-family", "team": "cloud"})
}

// TestPrivateDependencies: what a package requires is read with its pull secrets, also when the
// dependency is upgraded later.
func TestPrivateDependencies(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, tag := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		h.push(t, "org/family", tag, testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
		h.push(t, "org/platform", tag, testxpkg.Requires(testxpkg.Configuration("platform"), pkgv1.KindProvider, h.registry.Source("org/family"), "="+tag))
	}
	h.registry.RequirePassword("ann", "secret")
	secret := base64.StdEncoding.EncodeToString(h.registry.PullSecret("ann", "secret"))
	h.Apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: pull, namespace: starling-system}, type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: "+secret+"}}")
	h.run(t)
	for _, tag := range []string{"v1.0.0", "v1.1.0"} {
		h.apply(t, "Configuration", "platform", "org/platform", tag, "packagePullSecrets: [{name: pull}]")
		h.becomes(t, "platform", "True", "TransactionComplete")
		if got, want := h.sources(t), "org/family:"+tag+" org/platform:"+tag; got != want {
			t.Errorf("the Lock lists %s, want %s", got, want)
		}
	}
	h.Patch(t, pkgv1.Providers, "", "org-family", `{"spec":{"commonLabels":{"team":"cloud"}}}`)
	h.becomes(t, "org-family", "True", "TransactionComplete")

	// The Secret gets another name: that of the Configuration counts.
	h.Apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: rotated, namespace: starling-system}, type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: "+secret+"}}")
	h.Remove(t, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "starling-system", "pull")
	h.apply(t, "Configuration", "platform", "org/platform", "v1.2.0", "packagePullSecrets: [{name: rotated}]")
	h.becomes(t, "platform", "True", "TransactionComplete")
	h.Patch(t, pkgv1.Providers, "", "org-family", `{"spec":{"commonLabels":{"team":"platform"}}}`)
	h.becomes(t, "org-family", "True", "TransactionComplete")
}

// TestDenied: a registry that wants credentials uses up no tries. The message names it, and what
// would help; with that, the installation goes on at once.
func TestDenied(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region")))
	h.registry.RequirePassword("ann", "secret")
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		tx := h.of(t, "s3")
		if tx == nil {
			return false, "no transaction"
		}
		synced := meta.FindStatusCondition(tx.Status.Conditions, "Synced")
		return synced != nil && synced.Reason == "ReconcileError", fmt.Sprintf("%+v", tx.Status)
	})
	tx := h.of(t, "s3")
	message := conditionOf(t, tx.Status.Conditions, "Synced", "ReconcileError")
	for _, want := range []string{h.registry.Source("org/s3"), "does not count as a try", "ImageConfig with the prefix " + h.registry.Host() + "/"} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q lacks %q", message, want)
		}
	}
	if tx.Status.Failures > 0 || transaction.Ended(tx) {
		t.Errorf("%+v", tx.Status)
	}
	h.free(t)
	secret := base64.StdEncoding.EncodeToString(h.registry.PullSecret("ann", "secret"))
	h.Apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: pull, namespace: starling-system}, type: kubernetes.io/dockerconfigjson, data: {.dockerconfigjson: "+secret+"}}")
	h.Apply(t, fmt.Sprintf("{apiVersion: pkg.crossplane.io/v1beta1, kind: ImageConfig, metadata: {name: a}, spec: {matchImages: [{prefix: %q}], registry: {authentication: {pullSecretRef: {name: pull}}}}}", h.registry.Host()+"/"))
	h.becomes(t, "s3", "True", "TransactionComplete")
}

// TestTagMovesBack: with the pull policy Always, the tag points to A, B, A and B.
func TestTagMovesBack(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.run(t)
	for n, field := range []string{"region", "size", "region", "size"} {
		h.push(t, "org/s3", "latest", testxpkg.Provider("s3", bucket(field)))
		if n == 0 {
			h.apply(t, "Provider", "s3", "org/s3", "latest", "packagePullPolicy: Always")
		}
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			// Each change of the package has its tag resolved.
			h.Patch(t, pkgv1.Providers, "", "s3", fmt.Sprintf(`{"metadata":{"annotations":{"again":"%d"}}}`, time.Now().UnixNano()))
			if h.Get(t, crds, "", bucketsCRD) == nil {
				return false, "not installed"
			}
			got := h.fields(t, bucketsCRD)
			return got == field, fmt.Sprintf("%d: %q, want %q", n, got, field)
		})
	}
}
