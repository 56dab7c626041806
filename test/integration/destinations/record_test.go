package destinations

import (
	"strings"
	"testing"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestRecord: the Lock of a cluster lists what the cluster has, also if a policy or a cluster
// changes without a transaction.
func TestRecord(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.cluster(t, "lab", "test")
	h.its.Apply(t, `{apiVersion: pkg.crossplane.io/v1beta1, kind: Lock, metadata: {name: lab, annotations: {packages.pkg.crossplane.io/other-uid: theirs-1}}, packages: [
		{name: theirs-1, source: example.org/theirs, version: v1, dependencies: []}]}`)
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")))
	h.runBindings(t)
	stop := h.run(t)
	h.apply(t, "s3", "v1.0.0")
	tx := h.becomes(t, "s3", "True", "TransactionComplete")
	eventually(t, "s3 v1.0.0", func() string { return h.lock(t, "east") })

	// A policy that is created, edited and deleted.
	h.deliverTo(t, "late", "app", "a", "test")
	eventually(t, "s3 v1.0.0, theirs v1", func() string { return h.lock(t, "lab") })
	if got := h.its.Get(t, locks, "", "lab").GetAnnotations()["pkg.crossplane.io/last-transaction"]; got != "" {
		t.Errorf("no transaction has changed lab, not %s", got)
	}
	h.deliverTo(t, "late", "app", "b", "test")
	eventually(t, "theirs v1", func() string { return h.lock(t, "lab") })
	h.deliverTo(t, "late", "app", "a", "test")
	eventually(t, "s3 v1.0.0, theirs v1", func() string { return h.lock(t, "lab") })
	h.wds.Delete(t, policies, "", "late")
	eventually(t, "theirs v1", func() string { return h.lock(t, "lab") })

	// A cluster that moves from one policy to another, and one that joins.
	h.its.Patch(t, clusterv1.SchemeGroupVersion.WithResource("managedclusters"), "", "lab", `{"metadata":{"labels":{"env":"prod"}}}`)
	eventually(t, "s3 v1.0.0, theirs v1", func() string { return h.lock(t, "lab") })
	h.cluster(t, "west", "prod")
	eventually(t, "s3 v1.0.0", func() string { return h.lock(t, "west") })
	if got := h.its.Get(t, locks, "", "east").GetAnnotations()["pkg.crossplane.io/last-transaction"]; got != "wds1/"+tx.Name {
		t.Errorf("last transaction of east %q", got)
	}

	// What changed while nobody ran. A comparison that finds nothing writes nothing.
	stop()
	h.deliverTo(t, "all", "app", "b", "prod")
	h.run(t)
	for cluster, want := range map[string]string{"east": "", "lab": "theirs v1", "west": ""} {
		eventually(t, want, func() string { return h.lock(t, cluster) })
	}
	versions := func() string {
		var all []string
		for _, cluster := range []string{"east", "lab", "west"} {
			all = append(all, h.its.Get(t, locks, "", cluster).GetResourceVersion())
		}
		return strings.Join(all, " ")
	}
	h.deliverTo(t, "late", "app", "b", "test")
	testenv.Still(t, testenv.Held, versions)
}
