package transactions

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// fields returns the fields of spec that a CustomResourceDefinition has.
func (h *hub) fields(t *testing.T, crd string) string {
	t.Helper()
	versions, _, _ := unstructured.NestedSlice(h.exists(t, crds, crd).Object, "spec", "versions")
	properties, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties")
	var names []string
	for _, name := range []string{"region", "size", "mine"} {
		if _, has := properties[name]; has {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// healthy waits until the condition Healthy of a Provider has this status, and its message all of
// these texts.
func (h *hub) healthy(t *testing.T, pkg string, status metav1.ConditionStatus, reason string, texts ...string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), pkg)
		found := meta.FindStatusCondition(p.Status.Conditions, "Healthy")
		if found == nil || found.Status != status || found.Reason != reason {
			return false, fmt.Sprintf("%+v", found)
		}
		for _, text := range texts {
			if !strings.Contains(found.Message, text) {
				return false, fmt.Sprintf("%+v lacks %q", found, text)
			}
		}
		return true, ""
	})
}

const (
	bucketsCRD = "buckets.s3.aws.example.org"
	tablesCRD  = "tables.s3.aws.example.org"
)

// TestUndo: an update fails when a part of it is written. The user applies the earlier manifest, as
// the documentation says, and has all of the earlier version again.
func TestUndo(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region"), testxpkg.CRD("s3.aws.example.org", "Table", "region")))
	h.push(t, "org/s3", "v2.0.0", testxpkg.Provider("s3", bucket("region", "size"), testxpkg.CRD("s3.aws.example.org", "Table", "region", "size")))
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.healthy(t, "s3", "True", "HealthyPackageRevision")
	accept := h.RefuseChanges(t, tablesCRD)
	h.apply(t, "Provider", "s3", "org/s3", "v2.0.0")
	h.becomes(t, "s3", "False", "InstallationFailed")
	if got := h.fields(t, bucketsCRD); got != "region size" {
		t.Fatalf("%s has %s: the test wants half of an update", bucketsCRD, got)
	}
	h.healthy(t, "s3", "False", "UnhealthyPackageRevision", bucketsCRD)
	accept()
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	undone := h.becomes(t, "s3", "True", "TransactionComplete")
	if len(undone.Status.Changes) != 1 {
		t.Errorf("changes %+v, want those of s3", undone.Status.Changes)
	}
	for _, crd := range []string{bucketsCRD, tablesCRD} {
		if got := h.fields(t, crd); got != "region" {
			t.Errorf("%s has %s", crd, got)
		}
		h.controlled(t, crd)
	}
	h.healthy(t, "s3", "True", "HealthyPackageRevision")
}

// TestVersionOfAFailedInstall: a package names the version that is in force, also when a user's
// Transaction could not install another one.
func TestVersionOfAFailedInstall(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region")))
	h.push(t, "org/s3", "v1.1.0", testxpkg.Provider("s3", bucket("region", "size")))
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	install := func(name string) *pkgv1alpha1.Transaction {
		h.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: %s}, spec: {change: Install, retryLimit: 1, install: {package: {
			apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: s3}, spec: {package: %q}}}}}`, name, h.registry.Source("org/s3")+":v1.1.0"))
		var tx *pkgv1alpha1.Transaction
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			tx = testenv.Get[pkgv1alpha1.Transaction](t, h.Client.Resource(pkgv1alpha1.Transactions), name)
			return transaction.Ended(tx), fmt.Sprintf("%+v", tx.Status.Conditions)
		})
		return tx
	}
	version := func() string {
		p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "s3")
		return p.Spec.Package[strings.LastIndexByte(p.Spec.Package, ':')+1:]
	}

	accept := h.RefuseChanges(t, bucketsCRD)
	if tx := install("refused"); transaction.Succeeded(tx) || version() != "v1.0.0" {
		t.Errorf("conditions %+v; the package has version %s", tx.Status.Conditions, version())
	}
	accept()
	if tx := install("accepted"); !transaction.Succeeded(tx) || version() != "v1.1.0" {
		t.Errorf("conditions %+v; the package has version %s", tx.Status.Conditions, version())
	}
	h.healthy(t, "s3", "True", "HealthyPackageRevision")
	h.free(t)
	if got := h.of(t, "s3"); generation(t, got) != 1 {
		t.Errorf("the package has another transaction %s", got.Name)
	}
}

// TestLiveObjectsDecide: what somebody deletes, edits or adopts is shown by the package, and the
// next Transaction repairs it, whatever package it is about.
func TestLiveObjectsDecide(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region"), testxpkg.CRD("s3.aws.example.org", "Table", "region")))
	h.push(t, "org/other", "v1.0.0", testxpkg.Provider("other"))
	h.push(t, "org/other", "v1.0.1", testxpkg.Provider("other"))
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0", "commonLabels: {app: storage}")
	h.becomes(t, "s3", "True", "TransactionComplete")
	tag := 0
	repaired := func() {
		t.Helper()
		h.apply(t, "Provider", "other", "org/other", fmt.Sprintf("v1.0.%d", tag%2))
		tag++
		h.becomes(t, "other", "True", "TransactionComplete")
		h.healthy(t, "s3", "True", "HealthyPackageRevision")
		for _, crd := range []string{bucketsCRD, tablesCRD} {
			h.controlled(t, crd)
			if got := h.fields(t, crd); got != "region" {
				t.Errorf("%s has %s", crd, got)
			}
			if got := h.exists(t, crds, crd).GetLabels()["app"]; got != "storage" {
				t.Errorf("%s has label app=%q", crd, got)
			}
		}
	}
	for name, c := range map[string]struct {
		change func()
		says   string
	}{
		"Deleted": {func() { h.Remove(t, crds, "", bucketsCRD) }, bucketsCRD + " does not exist"},
		"CreatedAgain": {func() {
			h.Remove(t, crds, "", bucketsCRD)
			h.gone(t, crds, bucketsCRD)
			h.Apply(t, encode(t, bucket("region", "mine")))
		}, bucketsCRD},
		"Edited":     {func() { h.Apply(t, encode(t, bucket("region", "mine"))) }, bucketsCRD + " was changed"},
		"Released":   {func() { h.Patch(t, crds, "", bucketsCRD, `{"metadata":{"ownerReferences":null}}`) }, bucketsCRD},
		"Relabelled": {func() { h.Patch(t, crds, "", bucketsCRD, `{"metadata":{"labels":{"app":"mine"}}}`) }, bucketsCRD},
	} {
		c.change()
		h.healthy(t, "s3", "False", "UnhealthyPackageRevision", c.says)
		repaired()
		if t.Failed() {
			t.Fatalf("after %s", name)
		}
	}

	// The commands of the message: with the Transaction, and when the history does not have it.
	for _, command := range []string{"kubectl delete transaction ", "kubectl label provider s3 pkg.crossplane.io/transaction-generation-"} {
		h.Remove(t, crds, "", tablesCRD)
		h.healthy(t, "s3", "False", "UnhealthyPackageRevision", tablesCRD+" does not exist", command)
		if tx := h.of(t, "s3"); tx != nil {
			h.Delete(t, pkgv1alpha1.Transactions, "", tx.Name)
		} else {
			h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"labels":{"pkg.crossplane.io/transaction-generation":null}}}`)
		}
		h.healthy(t, "s3", "True", "HealthyPackageRevision")
		h.exists(t, crds, tablesCRD)
		tx := h.becomes(t, "s3", "True", "TransactionComplete") // one that has not ended would be carried out again
		h.Delete(t, pkgv1alpha1.Transactions, "", tx.Name)
		h.gone(t, pkgv1alpha1.Transactions, tx.Name)
	}
}

// TestRepairsAreNoReasonToFail: of three packages whose objects somebody has changed, the API
// server refuses one, and the validation another one. The third is installed again, and the package
// that the Transaction is about is installed.
func TestRepairsAreNoReasonToFail(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, name := range []string{"forbidden", "invalid", "deleted"} {
		h.push(t, "org/"+name, "v1.0.0", testxpkg.Provider(name, testxpkg.CRD(name+".example.org", "Thing", "region")))
	}
	h.push(t, "org/other", "v1.0.0", testxpkg.Provider("other"))
	h.run(t)
	for _, name := range []string{"forbidden", "invalid", "deleted"} {
		h.apply(t, "Provider", name, "org/"+name, "v1.0.0")
		h.becomes(t, name, "True", "TransactionComplete")
	}
	h.Apply(t, encode(t, testxpkg.CRD("forbidden.example.org", "Thing", "region", "mine")))
	h.RefuseChanges(t, "things.forbidden.example.org")
	h.Apply(t, encode(t, testxpkg.CRD("invalid.example.org", "Thing", "region", "mine")))
	h.Create(t, schema.GroupVersionResource{Group: "invalid.example.org", Version: "v1", Resource: "things"}, "", "mine", map[string]any{"spec": map[string]any{"mine": "x"}})
	h.Remove(t, crds, "", "things.deleted.example.org")
	h.healthy(t, "deleted", "False", "UnhealthyPackageRevision", "does not exist")

	h.apply(t, "Provider", "other", "org/other", "v1.0.0")
	tx := h.becomes(t, "other", "True", "TransactionComplete")
	warnings := strings.Join(tx.Status.Warnings, "\n")
	for _, want := range []string{
		"Provider/deleted is not as it was installed: CustomResourceDefinition things.deleted.example.org does not exist. It is installed again",
		"its generation is 2, and was 1. It stays so: it could not be installed again: ",
		"its generation is 2, and was 1. It stays so: things.invalid.example.org v1: spec.mine is removed",
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings %s\nlack %s", warnings, want)
		}
	}
	if n := strings.Count(warnings, "It is installed again"); n != 1 {
		t.Errorf("%d warnings say that something is installed again, want 1:\n%s", n, warnings)
	}
	h.healthy(t, "deleted", "True", "HealthyPackageRevision")
	h.healthy(t, "forbidden", "False", "UnhealthyPackageRevision", "was changed")
	h.healthy(t, "invalid", "False", "UnhealthyPackageRevision", "was changed")
	for name, want := range map[string]string{"deleted": "region", "forbidden": "region mine", "invalid": "region mine"} {
		if got := h.fields(t, "things."+name+".example.org"); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
}
