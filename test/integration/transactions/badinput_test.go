package transactions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/xpkg"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// ends waits until a Transaction has ended, and returns it.
func (h *hub) ends(t *testing.T, name string) *pkgv1alpha1.Transaction {
	t.Helper()
	var tx *pkgv1alpha1.Transaction
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		tx = testenv.Get[pkgv1alpha1.Transaction](t, h.Client.Resource(pkgv1alpha1.Transactions), name)
		if tx == nil {
			t.Fatalf("transaction %s is gone", name)
		}
		return transaction.Ended(tx), fmt.Sprintf("%+v", tx.Status.Conditions)
	})
	return tx
}

// try creates a Transaction that is tried once.
func (h *hub) try(t *testing.T, name, kind, image string) {
	t.Helper()
	h.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: %s}, spec: {change: Install, retryLimit: 1, install: {package: {
		apiVersion: pkg.crossplane.io/v1, kind: %s, metadata: {name: %s}, spec: {package: "%s"}}}}}`, name, kind, name, image))
}

// TestBadPackages: each mistake in a package has a reason and a message, and the Lock is free
// afterwards.
func TestBadPackages(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	content := func(path, text string) {
		image, err := xpkg.Build([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.registry.Push(t.Context(), path, "v1", image); err != nil {
			t.Fatal(err)
		}
	}
	const provider = "{apiVersion: meta.pkg.crossplane.io/v1, kind: Provider, metadata: {name: p}}\n"
	content("bad/two", provider+"---\n"+provider)
	content("bad/none", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
	content("bad/kind", provider+"---\n{apiVersion: v1, kind: Secret, metadata: {name: s}}")
	content("bad/yaml", "a: [")
	content("bad/empty", "")
	h.push(t, "good/configuration", "v1", testxpkg.Configuration("c"))
	h.push(t, "bad/itself", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("itself"), pkgv1.KindConfiguration, h.registry.Source("bad/itself"), "*"))
	h.push(t, "bad/a", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("a"), pkgv1.KindConfiguration, h.registry.Source("bad/b"), "*"))
	h.push(t, "bad/b", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("b"), pkgv1.KindConfiguration, h.registry.Source("bad/a"), "*"))
	h.Create(t, pkgv1beta1.Locks, "", "lock", map[string]any{})
	h.Patch(t, pkgv1beta1.Locks, "", "lock", `{"metadata":{"annotations":{"pkg.crossplane.io/transaction-history-limit":"0"}}}`)
	h.run(t)
	source := h.registry.Source
	cases := map[string]struct{ kind, image, reason, want string }{
		"two-metas":       {"Provider", source("bad/two") + ":v1", "InvalidPackage", "meta.pkg.crossplane.io"},
		"no-meta":         {"Provider", source("bad/none") + ":v1", "InvalidPackage", "meta.pkg.crossplane.io"},
		"kind-of-objects": {"Provider", source("bad/kind") + ":v1", "InvalidPackage", "Secret"},
		"yaml":            {"Provider", source("bad/yaml") + ":v1", "InvalidPackage", ""},
		"empty":           {"Provider", source("bad/empty") + ":v1", "InvalidPackage", ""},
		"kind":            {"Provider", source("good/configuration") + ":v1", "InvalidPackage", "Configuration"},
		"reference":       {"Provider", "registry/x", "InvalidPackage", "spec.package"},
		"unknown-kind":    {"Widget", source("good/configuration") + ":v1", "InvalidPackage", "Widget"},
		"missing-tag":     {"Configuration", source("good/configuration") + ":v2", "MissingDependency", "v2"},
		"itself":          {"Configuration", source("bad/itself") + ":v1.0.0", "CircularDependency", "itself"},
		"circle":          {"Configuration", source("bad/a") + ":v1.0.0", "CircularDependency", "->"},
	}
	for name, tc := range cases {
		h.try(t, name, tc.kind, tc.image)
	}
	for name, tc := range cases {
		tx := h.ends(t, name)
		message := conditionOf(t, tx.Status.Conditions, "Validated", tc.reason)
		if !strings.Contains(message, tc.want) {
			t.Errorf("%s: message %q does not say %q", name, message, tc.want)
		}
		t.Logf("%s: %s", name, message)
	}
	if lock := h.free(t); len(lock.Packages) > 0 {
		t.Errorf("%+v", lock)
	}
	for _, kind := range []string{"providers", "configurations", "providerrevisions", "configurationrevisions"} {
		if list, err := h.Client.Resource(pkgv1.GroupVersion.WithResource(kind)).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("%d %s, %v", len(list.Items), kind, err)
		}
	}
}

// TestLockEditedByHand: annotations and packages that somebody changed or removed are repaired from
// what is installed.
func TestLockEditedByHand(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		h.push(t, "org/"+name, "v1.0.0", testxpkg.Configuration(name))
	}
	h.run(t)
	install := func(name string) *pkgv1alpha1.Transaction {
		t.Helper()
		h.apply(t, "Configuration", name, "org/"+name, "v1.0.0")
		return h.becomes(t, name, "True", "TransactionComplete")
	}
	install("a")
	// The number is malformed, the holder does not exist, and the package is gone.
	h.Patch(t, pkgv1beta1.Locks, "", "lock", `{"metadata":{"annotations":{"pkg.crossplane.io/next-transaction-number":"x","pkg.crossplane.io/current-transaction":"nobody"}},"packages":[]}`)
	if number := install("b").Status.TransactionNumber; number != 2 {
		t.Errorf("number %d, want 2", number)
	}
	sources := func() string {
		var sources []string
		for _, locked := range h.lock(t).Packages {
			sources = append(sources, strings.TrimPrefix(locked.Source, h.registry.Host()+"/org/"))
		}
		return strings.Join(sources, " ")
	}
	if got := sources(); got != "a b" {
		t.Errorf("the Lock lists %s", got)
	}
	h.Remove(t, pkgv1beta1.Locks, "", "lock")
	if number := install("c").Status.TransactionNumber; number != 3 {
		t.Errorf("number %d, want 3", number)
	}
	if got := sources(); got != "a b c" {
		t.Errorf("the Lock lists %s", got)
	}
	// A package twice, and another at a revision that is not installed.
	lock := h.lock(t)
	installed := lock.Packages[1].Name
	lock.Packages[1].Name, lock.Packages[1].Version = "b-000000000000", "v0.9.0@sha256:"+strings.Repeat("0", 64)
	lock.Packages = append(lock.Packages, lock.Packages[0])
	h.Patch(t, pkgv1beta1.Locks, "", "lock", encode(t, map[string]any{"packages": lock.Packages}))
	install("d")
	if got := sources(); got != "a b c d" {
		t.Errorf("the Lock lists %s", got)
	}
	if got := h.lock(t).Packages[1]; got.Name != installed || !strings.HasPrefix(got.Version, "v1.0.0@") {
		t.Errorf("the Lock lists %s %s, want revision %s", got.Name, got.Version, installed)
	}
}

// TestTransactionIsDeleted: one that holds the Lock is deleted by a user. The Lock is free then,
// and its package gets another one.
func TestTransactionIsDeleted(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/slow", "v1.0.0", testxpkg.Configuration("slow"))
	h.push(t, "org/other", "v1.0.0", testxpkg.Configuration("other"))
	h.registry.Delay(2 * time.Second)
	h.run(t)
	h.apply(t, "Configuration", "slow", "org/slow", "v1.0.0")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		found, err := h.Client.Resource(pkgv1beta1.Locks).Get(t.Context(), "lock", getOptions)
		return err == nil && found.GetAnnotations()[pkgv1beta1.AnnotationCurrentTransaction] != "", "nobody holds the Lock"
	})
	tx := h.of(t, "slow")
	h.Delete(t, pkgv1alpha1.Transactions, "", tx.Name)
	h.registry.Delay(0)
	h.apply(t, "Configuration", "other", "org/other", "v1.0.0")
	h.becomes(t, "other", "True", "TransactionComplete")
	if again := h.becomes(t, "slow", "True", "TransactionComplete"); again.UID == tx.UID {
		t.Error("the deleted transaction still exists")
	}
}

// TestPackageIsRecreated: a package that is deleted and created again has the same name and
// generation, and is installed again.
func TestPackageIsRecreated(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/a", "v1.0.0", testxpkg.Provider("a", bucket("region")))
	h.run(t)
	for n := range 3 {
		h.apply(t, "Provider", "a", "org/a", "v1.0.0")
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "a")
			return meta.IsStatusConditionTrue(p.Status.Conditions, "Installed") && meta.IsStatusConditionTrue(p.Status.Conditions, "Healthy") &&
				len(h.lock(t).Packages) == 1, fmt.Sprintf("%d: %+v", n, p.Status)
		})
		h.exists(t, crds, "buckets.s3.aws.example.org")
		if n == 1 {
			h.Delete(t, pkgv1.Providers, "", "a")
		} else {
			// Somebody removes the finalizer, so what is installed stays. If the controller has set
			// it again before the deletion, the package is removed as any.
			h.Remove(t, pkgv1.Providers, "", "a")
		}
		h.gone(t, pkgv1.Providers, "a")
	}
}

// TestValidateOnly: the annotation ends a Transaction after its validation. Nothing changes.
func TestValidateOnly(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	digest := h.push(t, "org/a", "v1.0.0", testxpkg.Provider("a", bucket("region")))
	h.run(t)
	h.Apply(t, `{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: preview, annotations: {pkg.crossplane.io/validate-only: "true"}}, spec: {change: Install, install: {package: {
		apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: a}, spec: {package: "`+h.registry.Source("org/a")+`:v1.0.0"}}}}}`)
	got := statusOf(h.ends(t, "preview"))
	want := pkgv1alpha1.TransactionStatus{
		TransactionNumber: 1, ProposedLockPackages: got.ProposedLockPackages,
		Changes: []pkgv1alpha1.PackageChange{{
			Source: h.registry.Source("org/a"), To: "v1.0.0@" + digest, Created: []string{"CustomResourceDefinition.apiextensions.k8s.io/buckets.s3.aws.example.org"},
		}},
		Warnings: []string{notStarted("Provider a defines")},
		Conditions: []metav1.Condition{
			validated, condition("Installed", "Unknown", "ValidateOnly", "Only validation was requested; nothing was changed"),
			condition("Ready", "True", "TransactionComplete", "Transaction completed successfully"), synced,
		},
	}
	if diff := diffStatus(want, got); diff != "" {
		t.Error(diff)
	}
	if lock := h.free(t); len(got.ProposedLockPackages) != 1 || len(lock.Packages) != 0 {
		t.Errorf("proposed %v, Lock %+v", got.ProposedLockPackages, lock)
	}
	if _, err := h.Client.Resource(crds).Get(t.Context(), "buckets.s3.aws.example.org", getOptions); err == nil {
		t.Error("the CustomResourceDefinition was created")
	}
}
