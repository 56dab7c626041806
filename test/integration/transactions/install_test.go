package transactions

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/test/testxpkg"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	family := testxpkg.Provider("family", testxpkg.CRD("family.example.org", "Config", "account"))
	h.push(t, "org/family", "v1.1.0", family)
	s3 := testxpkg.Requires(testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")), pkgv1.KindProvider, h.registry.Source("org/family"), ">=v1.1.0")
	h.push(t, "org/s3", "v1.0.0", s3)
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	tx := h.becomes(t, "s3", metav1.ConditionTrue, "TransactionComplete")
	if tx.Status.TransactionNumber != 1 || len(tx.Status.ProposedLockPackages) != 2 {
		t.Errorf("status %+v", tx.Status)
	}
	t.Logf("%+v", h.lock(t))
}
