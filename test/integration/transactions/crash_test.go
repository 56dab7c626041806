package transactions

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// anyWrite is any write but those of Events.
const anyWrite = "(POST|PUT|PATCH|DELETE) (transactions|locks|providers|providerrevisions|customresourcedefinitions)(/status)?"

// killAfterWrite runs the controller until it has written once.
func (h *hub) killAfterWrite(t *testing.T) {
	t.Helper()
	proxy := testenv.NewProxy(t, h.Config)
	proxy.KillAfter(t, anyWrite, 1, "binding-controller", "--controllers=transactions", "--leader-elect=false", "-v=4", "--wds-kubeconfig="+proxy.Kubeconfig(t))()
}

// TestKilledAfterEachWrite: the controller is killed after each single write of an installation, of
// an update with hand-over, and of a deletion. Each time the next process continues: the number of
// the transaction stays, no second transaction is created, and no object is created again.
func TestKilledAfterEachWrite(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	family := h.registry.Source("org/family")
	h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	h.push(t, "org/s3", "v1.0.0", testxpkg.Requires(testxpkg.Provider("s3", bucket("region"), testxpkg.CRD("s3.aws.example.org", "Old", "x")), pkgv1.KindProvider, family, "*"))
	h.push(t, "org/s3", "v1.1.0", testxpkg.Requires(testxpkg.Provider("s3", bucket("region", "size")), pkgv1.KindProvider, family, "*"))

	uids := map[string]types.UID{}
	const most = 60
	until := func(what string, done func() bool) {
		t.Helper()
		numbers := map[string]int64{}
		for n := range most {
			if done() {
				t.Logf("%s: done after %d writes", what, n)
				return
			}
			h.killAfterWrite(t)
			for name, tx := range h.transactions(t) {
				number := tx.Status.TransactionNumber
				if before := numbers[name]; before != 0 && number != before {
					t.Fatalf("%s: the number of %s was %d, is %d", what, name, before, number)
				}
				numbers[name] = number
			}
			for _, name := range []string{"buckets.s3.aws.example.org", "olds.s3.aws.example.org", "providerconfigs.aws.example.org"} {
				found, err := h.Client.Resource(crds).Get(t.Context(), name, getOptions)
				if err != nil {
					continue
				}
				if before, known := uids[name]; known && before != found.GetUID() {
					t.Fatalf("%s: %s was created again", what, name)
				}
				uids[name] = found.GetUID()
				if transaction.Orphaned(found.GetOwnerReferences()) {
					t.Fatalf("%s: only transactions own %s: %v", what, name, found.GetOwnerReferences())
				}
				if what == "update" && transaction.ControllerOf(found) == nil && name != "olds.s3.aws.example.org" {
					t.Fatalf("%s: nothing controls %s", what, name)
				}
			}
		}
		t.Fatalf("%s: not done after %d writes", what, most)
	}
	ended := func(generation string) func() bool {
		return func() bool {
			tx := h.of(t, "s3")
			return tx != nil && tx.Labels[pkgv1.LabelGeneration] == generation && transaction.Succeeded(tx)
		}
	}

	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	until("installation", ended("1"))
	h.apply(t, "Provider", "s3", "org/s3", "v1.1.0")
	until("update", ended("2"))
	if n := len(h.transactions(t)); n != 2 {
		t.Errorf("%d transactions, want 2", n)
	}
	if packages := h.lock(t).Packages; len(packages) != 2 || !strings.HasPrefix(packages[1].Version, "v1.1.0@") {
		t.Errorf("the Lock lists %v", packages)
	}
	h.exists(t, crds, "olds.s3.aws.example.org") // the new version does not have it; it stays
	h.Delete(t, pkgv1.Providers, "", "s3")
	until("deletion", func() bool {
		_, err := h.Client.Resource(pkgv1.Providers).Get(t.Context(), "s3", getOptions)
		return err != nil
	})
	for _, name := range []string{"buckets.s3.aws.example.org", "olds.s3.aws.example.org"} {
		if _, err := h.Client.Resource(crds).Get(t.Context(), name, getOptions); err == nil {
			t.Errorf("%s still exists", name)
		}
	}
	h.run(t)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		lock := h.lock(t)
		return transaction.Holder(lock) == "" && len(lock.Packages) == 1, fmt.Sprintf("%+v", lock)
	})
}

// TestChangedBeforeTheCommit: the controller is killed when everything is installed and the Lock
// does not have it yet, and the package changes then. What was installed is in the Lock before the
// next Transaction begins, which keeps the dependency.
func TestChangedBeforeTheCommit(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	family := h.registry.Source("org/family")
	h.push(t, "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	for tag, fields := range map[string][]string{"v1.0.0": {"region"}, "v1.1.0": {"region", "size"}} {
		h.push(t, "org/s3", tag, testxpkg.Requires(testxpkg.Provider("s3", bucket(fields...)), pkgv1.KindProvider, family, "*"))
	}
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	installed := false
	for range 60 {
		tx := h.of(t, "s3")
		if installed = tx != nil && meta.IsStatusConditionTrue(tx.Status.Conditions, "Installed"); installed {
			break
		}
		h.killAfterWrite(t)
	}
	first := h.of(t, "s3")
	if !installed || transaction.Ended(first) || len(h.lock(t).Packages) > 0 {
		t.Fatalf("%+v, Lock %+v", first.Status, h.lock(t))
	}
	h.apply(t, "Provider", "s3", "org/s3", "v1.1.0")
	h.run(t)
	second := h.becomes(t, "s3", "True", "TransactionComplete")
	if first = h.ends(t, first.Name); !transaction.Succeeded(first) {
		t.Errorf("%+v", first.Status.Conditions)
	}
	if len(second.Status.Changes) != 1 || second.Status.Changes[0].From == "" {
		t.Errorf("changes %+v, want an update of one package", second.Status.Changes)
	}
}
