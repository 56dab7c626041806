package destinations

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestContinueOnManyClusters: an update that would break something on most of 16 clusters, in two
// ways, changes the others. A cluster where nothing would break any more gets it by itself.
func TestContinueOnManyClusters(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.recheck = 500 * time.Millisecond
	var objects, versions, good []string
	add := func(to *[]string, from, n int) {
		for i := from; i < from+n; i++ {
			*to = append(*to, fmt.Sprintf("c%02d", i))
		}
	}
	add(&objects, 1, 11)
	add(&versions, 12, 2)
	add(&good, 14, 3)
	for _, cluster := range append(append(append([]string{}, objects...), versions...), good...) {
		h.cluster(t, cluster, "prod")
	}
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")))
	h.push(t, "org/s3", "v2.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "size")))
	h.runBindings(t)
	h.runTransport(t)
	h.run(t)
	h.apply(t, "s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	const v1 = "CustomResourceDefinition buckets.s3.example.org region"
	const v2 = "CustomResourceDefinition buckets.s3.example.org size"
	for _, cluster := range objects {
		h.foreign(t, cluster, "theirs", bucket)
	}
	for _, cluster := range versions {
		h.its.Apply(t, `{apiVersion: pkg.crossplane.io/v1beta1, kind: Lock, metadata: {name: `+cluster+`, annotations: {packages.pkg.crossplane.io/other-uid: theirs-1}}, packages: [
			{name: theirs-1, source: example.org/theirs, version: v1, dependencies: [{package: "`+h.registry.Source("org/s3")+`", constraints: "<2.0.0"}]}]}`)
	}
	for _, cluster := range good {
		eventually(t, v1, func() string { return h.manifests(t, cluster) })
	}

	h.apply(t, "s3", "v2.0.0", "pkg.crossplane.io/destination-policy: Continue")
	tx := h.becomes(t, "s3", "True", "TransactionComplete")
	if got := message(tx, "Installed"); !strings.Contains(got, "validated for 16 clusters, of which 13 keep what they have") {
		t.Errorf("Installed: %s", got)
	}
	for _, want := range []string{
		"these clusters keep what they have: clusters c12, c13: package theirs-1 of another workload definition space requires " + h.registry.Source("org/s3") + " <2.0.0, not v2.0.0",
		"; clusters c01, c02, c03, c04, c05, c06, c07, c08, c09, c10 … and 1 more: buckets.s3.example.org v1: spec.region is removed (1 object: theirs)",
	} {
		if got := strings.Join(tx.Status.Warnings, "\n"); !strings.Contains(got, want) {
			t.Errorf("warnings %s\nwant %s", got, want)
		}
	}
	for _, cluster := range good {
		eventually(t, v2, func() string { return h.manifests(t, cluster) })
		eventually(t, "s3 v2.0.0", func() string { return h.lock(t, cluster) })
	}
	check := func(clusters []string, lock string) {
		t.Helper()
		for _, cluster := range clusters {
			if got := h.manifests(t, cluster); got != v1 {
				t.Errorf("mailbox of %s: %s", cluster, got)
			}
			if got := h.lock(t, cluster); got != lock {
				t.Errorf("Lock of %s: %s, want %s", cluster, got, lock)
			}
		}
	}
	check(objects, "s3 v1.0.0")

	// One cluster becomes good: the object is removed there. It gets the update, the others do not.
	h.its.Remove(t, ocm.ManifestWorks, objects[0], "theirs")
	eventually(t, v2, func() string { return h.manifests(t, objects[0]) })
	eventually(t, "s3 v2.0.0", func() string { return h.lock(t, objects[0]) })
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.holds(t)
		return !strings.Contains(got, `"c01"`) && strings.Contains(got, `"c02"`) && strings.Contains(got, `"c12"`), got
	})
	check(objects[1:], "s3 v1.0.0")
	for _, cluster := range versions {
		if got := h.manifests(t, cluster); got != v1 {
			t.Errorf("mailbox of %s: %s", cluster, got)
		}
	}
}

// TestOutageOfAnITS: that an ITS cannot be reached does not count as a try, neither before nor
// during the installation.
func TestOutageOfAnITS(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")))
	h.push(t, "org/s3", "v1.1.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region", "size")))
	h.runBindings(t)
	h.runTransport(t)
	var once sync.Once
	h.beforeLock = func() { once.Do(func() { h.outage.Store(true) }) } // after the CRD is written
	h.run(t)
	const unreachable = "space its1 cannot be reached, which does not count as a try; the transaction continues when it can"
	check := func() {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			for _, tx := range testenv.List[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), metav1.ListOptions{}) {
				if got := message(tx, "Synced"); strings.Contains(got, unreachable) {
					if tx.Status.Failures != 0 || tx.Status.CompletionTime != nil {
						t.Errorf("%d failures, completed %v", tx.Status.Failures, tx.Status.CompletionTime)
					}
					return true, ""
				}
			}
			return false, "no Transaction says that the ITS cannot be reached"
		})
		h.outage.Store(false)
	}
	h.apply(t, "s3", "v1.0.0")
	check()
	if got := h.manifests(t, "east"); got != "" {
		t.Errorf("during the outage, east got %s", got)
	}
	h.becomes(t, "s3", "True", "TransactionComplete")
	eventually(t, "s3 v1.0.0", func() string { return h.lock(t, "east") })

	h.outage.Store(true)
	h.apply(t, "s3", "v1.1.0")
	check()
	h.becomes(t, "s3", "True", "TransactionComplete")
	eventually(t, "s3 v1.1.0", func() string { return h.lock(t, "east") })
}
