package transactions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

var buckets = schema.GroupVersionResource{Group: "s3.aws.example.org", Version: "v1", Resource: "buckets"}

// TestLife: a package is installed, updated, refused, and deleted, with a dependency and an object
// of its kind.
func TestLife(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	family := h.registry.Source("org/family")
	h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	h.push(t, "org/family", "v1.1.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account", "role")))
	version := func(tag, constraint string, fields ...string) {
		h.push(t, "org/s3", tag, testxpkg.Requires(testxpkg.Provider("s3", bucket(fields...)), pkgv1.KindProvider, family, constraint))
	}
	version("v1.0.0", "<v1.1.0", "region")
	version("v1.1.0", ">=v1.1.0", "region", "size")
	version("v2.0.0", ">=v1.1.0", "size")
	h.run(t)

	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	first := h.becomes(t, "s3", "True", "TransactionComplete")
	uid := h.Get(t, crds, "", "buckets.s3.aws.example.org").GetUID()
	dependency := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "org-family")
	if dependency.Spec.Package != family+":v1.0.0" || dependency.Labels[pkgv1.LabelTransaction] != first.Name || len(dependency.OwnerReferences) > 0 {
		t.Errorf("dependency %+v", dependency)
	}

	// An update upgrades the dependency, and its package has no transaction of its own.
	h.apply(t, "Provider", "s3", "org/s3", "v1.1.0")
	second := h.becomes(t, "s3", "True", "TransactionComplete")
	if second.Name == first.Name || second.Status.TransactionNumber != first.Status.TransactionNumber+1 {
		t.Errorf("transactions %s and %s, numbers %d and %d", first.Name, second.Name, first.Status.TransactionNumber, second.Status.TransactionNumber)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "s3")
		return p.Status.CurrentRevision == second.Status.ProposedLockPackages[1].Name, fmt.Sprintf("%+v", p.Status)
	})
	if n := len(h.transactions(t)); n != 2 {
		t.Errorf("%d transactions", n)
	}
	h.hasOwners(t, "buckets.s3.aws.example.org", second.Status.ProposedLockPackages[1].Name, "s3", second.Name)
	if got := h.Get(t, crds, "", "buckets.s3.aws.example.org").GetUID(); got != uid {
		t.Error("the CustomResourceDefinition was created again")
	}

	// What would break an object that exists is refused, and nothing changes.
	h.Create(t, buckets, "", "mine", map[string]any{"spec": map[string]any{"region": "eu", "size": "1"}})
	before := h.Get(t, crds, "", "buckets.s3.aws.example.org")
	h.apply(t, "Provider", "s3", "org/s3", "v2.0.0")
	refused := h.becomes(t, "s3", "False", "ValidationFailed")
	if message := conditionOf(t, refused.Status.Conditions, "Validated", "SchemaIncompatible"); !strings.Contains(message, "mine") || !strings.Contains(message, "region") {
		t.Errorf("message %q", message)
	}
	if diff := cmp.Diff(before.Object, h.Get(t, crds, "", "buckets.s3.aws.example.org").Object); diff != "" {
		t.Error("the CustomResourceDefinition changed:", diff)
	}
	// A user goes back: the transaction is superseded, and the next one has nothing to do.
	h.apply(t, "Provider", "s3", "org/s3", "v1.1.0")
	h.becomes(t, "s3", "True", "TransactionComplete")

	// A deletion is refused while another package, or an object, needs it.
	h.Delete(t, pkgv1.Providers, "", "org-family")
	h.becomes(t, "org-family", "False", "ValidationFailed")
	h.Delete(t, pkgv1.Providers, "", "s3")
	inUse := h.becomes(t, "s3", "False", "ValidationFailed")
	if message := conditionOf(t, inUse.Status.Conditions, "Validated", "ResourcesInUse"); !strings.Contains(message, "1 object of buckets.s3.aws.example.org") {
		t.Errorf("message %q", message)
	}
	if h.Get(t, buckets, "", "mine").GetDeletionTimestamp() != nil {
		t.Error("the object is being deleted")
	}
	h.Remove(t, buckets, "", "mine")
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"again":"1"}}}`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		list, err := h.Client.Resource(pkgv1.Providers).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, fmt.Sprintf("%v, %d packages: %v", err, len(list.Items), h.lock(t).Packages)
	})
	if packages := h.lock(t).Packages; len(packages) > 0 {
		t.Errorf("the Lock lists %v", packages)
	}
	found, err := h.Client.Resource(crds).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range found.Items {
		if strings.Contains(crd.GetName(), "aws.example.org") {
			t.Errorf("%s still exists", crd.GetName())
		}
	}
	if len(h.transactions(t)) == 0 {
		t.Error("the history is gone with the packages")
	}
}

func conditionOf(t *testing.T, conditions []metav1.Condition, kind, reason string) string {
	t.Helper()
	for _, c := range conditions {
		if c.Type == kind && c.Reason == reason {
			return c.Message
		}
	}
	t.Errorf("no condition %s with reason %s: %+v", kind, reason, conditions)
	return ""
}

// hasOwners checks that a revision controls a CustomResourceDefinition, and that its package and
// the last transaction own it too.
func (h *hub) hasOwners(t *testing.T, crd, revision, pkg, tx string) {
	t.Helper()
	kinds := map[string]string{}
	for _, owner := range h.Get(t, crds, "", crd).GetOwnerReferences() {
		if controls := owner.Controller != nil && *owner.Controller; controls != (owner.Name == revision) {
			t.Errorf("%s %s controls %s: %v", owner.Kind, owner.Name, crd, controls)
		}
		if owner.Kind == "Provider" || owner.Kind == "Transaction" || owner.Name == revision {
			kinds[owner.Kind] = owner.Name
		}
	}
	if diff := cmp.Diff(map[string]string{"ProviderRevision": revision, "Provider": pkg, "Transaction": tx}, kinds); diff != "" {
		t.Errorf("owners of %s: %s", crd, diff)
	}
}
