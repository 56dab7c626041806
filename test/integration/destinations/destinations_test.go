package destinations

import (
	"strings"
	"sync"
	"testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

const bucket = "{apiVersion: s3.example.org/v1, kind: Bucket, metadata: {name: theirs}, spec: {region: eu}}"

// TestStory: a package is installed, and updated. The update would break what another WDS has on
// one cluster.
func TestStory(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.cluster(t, "west", "prod")
	h.cluster(t, "lab", "test")
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")))
	h.push(t, "org/s3", "v2.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "size")))
	h.push(t, "org/ec2", "v1.0.0", testxpkg.Provider("ec2", testxpkg.CRD("ec2.example.org", "Instance", "size")))
	h.runBindings(t)
	h.runTransport(t)
	testenv.RunAgents(t, h.its, "east", "west")
	h.run(t)

	h.apply(t, "s3", "v1.0.0")
	first := h.becomes(t, "s3", "True", "TransactionComplete")
	const v1 = "CustomResourceDefinition buckets.s3.example.org region"
	const v2 = "CustomResourceDefinition buckets.s3.example.org size"
	for cluster, want := range map[string]string{"east": "s3 v1.0.0", "west": "s3 v1.0.0", "lab": ""} {
		if got := h.lock(t, cluster); got != want {
			t.Errorf("Lock of %s: %q, want %q", cluster, got, want)
		}
	}
	if got := message(first, "Installed"); !strings.Contains(got, "validated for 2 clusters, of which 0 keep what they have") {
		t.Errorf("Installed: %s", got)
	}
	if got := h.its.Get(t, locks, "", "east").GetAnnotations()["pkg.crossplane.io/last-transaction"]; got != "wds1/"+first.Name {
		t.Errorf("last transaction %q", got)
	}
	for _, cluster := range []string{"east", "west"} {
		eventually(t, v1, func() string { return h.manifests(t, cluster) })
	}
	eventually(t, "", func() string { return h.holds(t) })

	// Nothing changes anywhere if the update would break something somewhere.
	h.foreign(t, "east", "theirs", bucket)
	h.apply(t, "s3", "v2.0.0")
	refused := h.becomes(t, "s3", "False", "ValidationFailed")
	if got, want := message(refused, "Validated"), "SchemaIncompatible: cluster east: buckets.s3.example.org v1: spec.region is removed (1 object: theirs)"; got != want {
		t.Errorf("Validated: %s\nwant %s", got, want)
	}
	for _, cluster := range []string{"east", "west"} {
		if got := h.manifests(t, cluster); got != v1 {
			t.Errorf("mailbox of %s: %s", cluster, got)
		}
		if got := h.lock(t, cluster); got != "s3 v1.0.0" {
			t.Errorf("Lock of %s: %s", cluster, got)
		}
	}

	// With the policy Continue, this cluster keeps what it has.
	h.wds.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"pkg.crossplane.io/destination-policy":"Continue"}}}`)
	h.wds.Delete(t, pkgv1alpha1.Transactions, "", refused.Name)
	second := h.becomes(t, "s3", "True", "TransactionComplete")
	if warnings := strings.Join(second.Status.Warnings, "\n"); !strings.Contains(warnings, "these clusters keep what they have: cluster east: ") {
		t.Errorf("warnings %s", warnings)
	}
	eventually(t, v2, func() string { return h.manifests(t, "west") })
	eventually(t, `[{"transaction":"`+second.Name+`","uid":"`+string(second.UID)+`","objects":["customresourcedefinitions.apiextensions.k8s.io//buckets.s3.example.org"],"clusters":["east"]}]`,
		func() string { return h.holds(t) })
	if got := h.manifests(t, "east"); got != v1 {
		t.Errorf("mailbox of east: %s", got)
	}
	if east, west := h.lock(t, "east"), h.lock(t, "west"); east != "s3 v1.0.0" || west != "s3 v2.0.0" {
		t.Errorf("Locks of east and west: %s, %s", east, west)
	}

	// When nothing would break any more, the cluster gets the update.
	h.its.Remove(t, ocm.ManifestWorks, "east", "theirs")
	h.apply(t, "ec2", "v1.0.0") // the end of each transaction has all of them looked at
	h.becomes(t, "ec2", "True", "TransactionComplete")
	eventually(t, "", func() string { return h.holds(t) })
	eventually(t, "CustomResourceDefinition buckets.s3.example.org size; CustomResourceDefinition instances.ec2.example.org size", func() string { return h.manifests(t, "east") })
	eventually(t, "ec2 v1.0.0, s3 v2.0.0", func() string { return h.lock(t, "east") })

	// An update that changes no CRD, and a deletion.
	h.push(t, "org/s3", "v2.0.1", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "size")))
	h.apply(t, "s3", "v2.0.1")
	h.becomes(t, "s3", "True", "TransactionComplete")
	for _, cluster := range []string{"east", "west"} {
		eventually(t, "ec2 v1.0.0, s3 v2.0.1", func() string { return h.lock(t, cluster) })
	}
	h.wds.Delete(t, pkgv1.Providers, "", "ec2")
	for _, cluster := range []string{"east", "west"} {
		eventually(t, v2, func() string { return h.manifests(t, cluster) })
		eventually(t, "s3 v2.0.1", func() string { return h.lock(t, cluster) })
	}
}

var (
	locks    = pkgv1beta1.Locks
	bindings = controlv1alpha1.Bindings
)

// TestFreeze: while a transaction installs, clusters get nothing of it; a controller that ends in
// the middle leaves nothing held.
func TestFreeze(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")))
	h.push(t, "org/s3", "v1.1.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region", "size")))
	h.cluster(t, "lab", "test")
	h.deliverTo(t, "other", "app", "b", "prod")
	h.runBindings(t)
	stopTransport := h.runTransport(t)
	stop := h.run(t)
	h.apply(t, "s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	const v1 = "CustomResourceDefinition buckets.s3.example.org region"
	eventually(t, v1, func() string { return h.manifests(t, "east") })
	stop()

	reached, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.beforeLock = func() {
		once.Do(func() { close(reached) })
		<-proceed
	}
	stop = h.run(t)
	h.apply(t, "s3", "v1.1.0")
	<-reached // the CRD is written
	if got := h.wds.Get(t, crds, "", "buckets.s3.example.org").GetGeneration(); got < 2 {
		t.Errorf("generation %d of the CRD, which must have changed", got)
	}
	testenv.Never(t, testenv.Held, func() string {
		if got := h.manifests(t, "east"); got != v1 {
			return "the mailbox has " + got
		}
		return ""
	})
	if got := h.holds(t); !strings.Contains(got, "buckets.s3.example.org") {
		t.Errorf("held: %s", got)
	}

	// Bindings that come or change now are held as well, also by a transport that starts now.
	h.deliverTo(t, "late", "app", "a", "test")
	h.deliverTo(t, "other", "app", "a", "prod")
	eventually(t, "True Held: 1 object is held for transaction "+h.running(t)+" until it ends: customresourcedefinitions.apiextensions.k8s.io//buckets.s3.example.org",
		func() string { return h.held(t, "late") })
	stopTransport()
	h.runTransport(t)
	h.deliverTo(t, "latest", "app", "a", "test")
	testenv.Never(t, testenv.Held, func() string {
		if east, lab := h.manifests(t, "east"), h.manifests(t, "lab"); east != v1 || lab != "" {
			return "the mailboxes have " + east + " and " + lab
		}
		return ""
	})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	close(proceed)
	<-stopped

	// The next process continues, and releases what was held.
	h.run(t)
	h.becomes(t, "s3", "True", "TransactionComplete")
	eventually(t, "", func() string { return h.holds(t) })
	for _, cluster := range []string{"east", "lab"} {
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			got := h.manifests(t, cluster)
			return strings.Contains(got, "size") && strings.Contains(got, "region"), got
		})
	}
	eventually(t, "", func() string { return h.held(t, "late") })

	// A hold of a transaction that does not exist goes too.
	h.wds.Patch(t, bindings, "", pkgv1.HoldsBinding, `{"metadata":{"annotations":{"pkg.crossplane.io/held-objects":"[{\"transaction\":\"gone\",\"objects\":[\"customresourcedefinitions.apiextensions.k8s.io//buckets.s3.example.org\"]}]"}}}`)
	h.run(t)
	eventually(t, "", func() string { return h.holds(t) })
}

// TestLockChanges: another WDS changes the Lock of a cluster after the validation.
func TestLockChanges(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.cluster(t, "west", "prod")
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")))
	h.runBindings(t)
	h.runTransport(t)
	var once sync.Once
	change := func() {
		for cluster, constraint := range map[string]string{"east": ">=1.0.0", "west": "<1.0.0"} {
			h.its.Apply(t, `{apiVersion: pkg.crossplane.io/v1beta1, kind: Lock, metadata: {name: `+cluster+`, annotations: {packages.pkg.crossplane.io/other-uid: theirs-1}}, packages: [
				{name: theirs-1, source: example.org/theirs, version: v1, dependencies: [{package: "`+h.registry.Source("org/s3")+`", constraints: "`+constraint+`"}]}]}`)
		}
	}
	h.beforeLock = func() { once.Do(change) }
	h.run(t)
	h.apply(t, "s3", "v1.0.0")
	failed := h.becomes(t, "s3", "False", "InstallationFailed")
	if got, want := message(failed, "Installed"), "VersionConflict: cluster west: package theirs-1 of another workload definition space requires "+h.registry.Source("org/s3")+" <1.0.0, not v1.0.0"; !strings.HasPrefix(got, want) {
		t.Errorf("Installed: %s\nwant %s", got, want)
	}
	if got := h.lock(t, "west"); got != "theirs v1" {
		t.Errorf("Lock of west: %s", got)
	}
	if got := h.manifests(t, "west"); got != "" {
		t.Errorf("mailbox of west: %s", got)
	}
}
