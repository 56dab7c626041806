package destinations

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestHalfStaysHeld: an update is given up when a part of it is written. No cluster gets that part,
// however it is given up, until the user has what is in force installed again.
func TestHalfStaysHeld(t *testing.T) {
	t.Parallel()
	const (
		v1     = "CustomResourceDefinition buckets.s3.example.org region; CustomResourceDefinition tables.s3.example.org region"
		update = "update"
	)
	for name, c := range map[string]struct {
		retries int
		giveUp  func(t *testing.T, h *hub)
	}{
		"Fails": {1, func(*testing.T, *hub) {}},
		"FailsTwice": {2, func(t *testing.T, h *hub) { // the second try finds what the first has written
			testenv.Eventually(t, testenv.Patience, func() (bool, string) {
				tx := testenv.Get[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), update)
				return tx.Status.Failures == 2, fmt.Sprintf("%+v", tx.Status)
			})
		}},
		"Deleted": {5, func(t *testing.T, h *hub) { h.wds.Remove(t, pkgv1alpha1.Transactions, "", update) }},
		"CreatedAgain": {5, func(t *testing.T, h *hub) { // another Transaction of this name succeeds, and changes nothing
			h.wds.Remove(t, pkgv1alpha1.Transactions, "", update)
			testenv.Eventually(t, testenv.Patience, func() (bool, string) {
				return testenv.Get[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), update) == nil, "it is still there"
			})
			h.wds.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: %s, annotations: {pkg.crossplane.io/validate-only: "true"}}, spec: {
				change: Install, install: {package: {apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: s3}, spec: {package: %q, commonLabels: {app: a}}}}}}`,
				update, h.registry.Source("org/s3")+":v1.0.0"))
			testenv.Eventually(t, testenv.Patience, func() (bool, string) {
				tx := testenv.Get[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), update)
				return transaction.Succeeded(tx), fmt.Sprintf("%+v", tx.Status)
			})
		}},
		"Killed": {1, func(t *testing.T, h *hub) { // the next process finds the hold of a Transaction that has ended
			h.wds.Patch(t, bindings, "", "all", `{"metadata":{"annotations":{"again":"1"}}}`)
			h.run(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			h.cluster(t, "east", "prod")
			h.policy(t)
			for tag, fields := range map[string][]string{"v1.0.0": {"region"}, "v1.1.0": {"region", "size"}} {
				h.push(t, "org/s3", tag, testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", fields...), testxpkg.CRD("s3.example.org", "Table", fields...)))
			}
			h.runBindings(t)
			h.runTransport(t)
			stop := h.run(t)
			h.apply(t, "s3", "v1.0.0")
			h.becomes(t, "s3", "True", "TransactionComplete")
			eventually(t, v1, func() string { return h.manifests(t, "east") })

			accept := h.wds.RefuseChanges(t, "tables.s3.example.org")
			h.wds.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: %s}, spec: {change: Install, retryLimit: %d, install: {package: {
				apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: s3}, spec: {package: %q, commonLabels: {app: a}}}}}}`, update, c.retries, h.registry.Source("org/s3")+":v1.1.0"))
			testenv.Eventually(t, testenv.Patience, func() (bool, string) {
				tx := testenv.Get[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), update)
				return tx.Status.Failures == 1, fmt.Sprintf("%+v", tx.Status)
			})
			if name == "Killed" {
				stop()
			}
			c.giveUp(t, h)
			h.deliverTo(t, "late", "app", "a", "prod")
			testenv.Never(t, testenv.Held, func() string {
				if got := h.manifests(t, "east"); got != v1 {
					return "the mailbox has " + got
				}
				if got := h.holds(t); !strings.Contains(got, "buckets.s3.example.org") {
					return "held: " + got
				}
				return ""
			})
			if tx := testenv.Get[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), update); tx != nil && !transaction.ValidateOnly(tx) &&
				(!transaction.Ended(tx) || !strings.Contains(strings.Join(tx.Status.Warnings, "; "), "clusters keep what they had")) {
				t.Errorf("warnings %q, conditions %+v", tx.Status.Warnings, tx.Status.Conditions)
			}

			accept()
			// The package names what is in force, and its condition how that is installed again.
			command := "kubectl delete transaction " + h.becomes(t, "s3", "True", "TransactionComplete").Name
			testenv.Eventually(t, testenv.Patience, func() (bool, string) {
				p := testenv.Get[pkgv1.Provider](t, h.wds.Client.Resource(pkgv1.Providers), "s3")
				healthy := meta.FindStatusCondition(p.Status.Conditions, pkgv1.PackageConditionHealthy)
				return strings.HasSuffix(p.Spec.Package, ":v1.0.0") && strings.HasSuffix(healthy.Message, command), p.Spec.Package + ": " + healthy.Message
			})
			h.wds.Delete(t, pkgv1alpha1.Transactions, "", strings.Fields(command)[3])
			eventually(t, "", func() string { return h.holds(t) })
			if got := h.manifests(t, "east"); !strings.Contains(got, "region") || strings.Contains(got, "size") {
				t.Errorf("the mailbox has %s", got)
			}
			h.apply(t, "s3", "v1.1.0")
			h.becomes(t, "s3", "True", "TransactionComplete")
			testenv.Eventually(t, testenv.Patience, func() (bool, string) {
				got := h.manifests(t, "east")
				return strings.Count(got, "size") >= 2 && strings.Count(got, "size") == strings.Count(got, "region"), got
			})
		})
	}
}
