package destinations

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

const bucketsCRD = "buckets.s3.example.org"

// lastWith watches the works of a cluster. The function that it returns ends that, and returns the
// last state of a work that had a CRD.
func (h *hub) lastWith(t *testing.T, cluster, crd string) (last func() *workv1.ManifestWork) {
	t.Helper()
	watch := must[watch.Interface](t)(h.its.Client.Resource(ocm.ManifestWorks).Namespace(cluster).Watch(t.Context(), metav1.ListOptions{}))
	states := make(chan *workv1.ManifestWork, 1)
	go func() {
		var last *workv1.ManifestWork
		for event := range watch.ResultChan() {
			o, is := event.Object.(*unstructured.Unstructured)
			if raw, err := json.Marshal(o); is && err == nil && strings.Contains(string(raw), `"name":"`+crd+`"`) {
				work := &workv1.ManifestWork{}
				if err := json.Unmarshal(raw, work); err == nil && len(work.Spec.Workload.Manifests) > 0 {
					last = work
				}
			}
		}
		states <- last
	}()
	return func() *workv1.ManifestWork {
		watch.Stop()
		return <-states
	}
}

// TestDefinitionsStay: a package is deleted. Nothing is deleted before all mailboxes say that the
// clusters keep its CRDs, which they may have objects of.
func TestDefinitionsStay(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region")))
	h.runBindings(t)
	stop := h.runTransport(t)
	h.run(t)
	testenv.RunAgents(t, h.its, "east")
	h.apply(t, "s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	eventually(t, "CustomResourceDefinition "+bucketsCRD+" region", func() string { return h.manifests(t, "east") })

	stop()
	h.wds.Delete(t, pkgv1.Providers, "", "s3")
	tx := h.becomes(t, "s3", "False", "ValidationFailed")
	const wait = "ResourcesInUse: clusters would delete CRDs with all objects of their kinds: the mailbox does not say yet that the cluster keeps " + bucketsCRD + " of east"
	if got := message(tx, "Validated"); !strings.HasPrefix(got, wait) {
		t.Errorf("Validated: %s", got)
	}
	eventually(t, "", func() string { return h.running(t) })
	if crd := h.wds.Get(t, crds, "", bucketsCRD); crd.GetDeletionTimestamp() != nil {
		t.Error("the CRD is being deleted")
	}
	const warning = "cluster east: CRD " + bucketsCRD + " stays there, also with objects that no Binding delivers; "
	if got := strings.Join(tx.Status.Warnings, "; "); !strings.Contains(got, warning) {
		t.Errorf("warnings %q", got)
	}

	last := h.lastWith(t, "east", bucketsCRD)
	h.runTransport(t)
	eventually(t, "", func() string { return h.manifests(t, "east") })
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[pkgv1.Provider](t, h.wds.Client.Resource(pkgv1.Providers), "s3")
		return p == nil, "the package is still there"
	})
	if diff := cmp.Diff(orphaning(bucketsCRD), last().Spec.DeleteOption); diff != "" {
		t.Errorf("when the CRD left (-want +got):\n%s", diff)
	}
}

// TestRemovalIsGivenUp: a removal has told clusters to keep the CRDs of a package, and the package
// stays. Then clusters do with its CRDs what they did before.
func TestRemovalIsGivenUp(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.policy(t)
	keeps := testxpkg.CRD("s3.example.org", "Table", "region")
	keeps.SetAnnotations(map[string]string{controlv1alpha1.AnnotationOnRemoval: "orphan"})
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region"), keeps))
	h.runBindings(t)
	stop := h.runTransport(t)
	stopTransactions := h.run(t)
	testenv.RunAgents(t, h.its, "east")
	h.apply(t, "s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	eventually(t, "CustomResourceDefinition "+bucketsCRD+" region; CustomResourceDefinition tables.s3.example.org region", func() string { return h.manifests(t, "east") })
	stop() // so that no removal is valid

	onRemoval := func() string {
		return h.wds.Get(t, crds, "", bucketsCRD).GetAnnotations()[controlv1alpha1.AnnotationOnRemoval]
	}
	remove := func(name string) {
		h.wds.Apply(t, fmt.Sprintf(`{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: %s}, spec: {change: Delete, retryLimit: 100, delete: {source: %q}}}`,
			name, h.registry.Source("org/s3")))
		eventually(t, "orphan", onRemoval)
	}
	remove("running")
	h.wds.Delete(t, pkgv1alpha1.Transactions, "", "running")
	eventually(t, "", onRemoval)

	remove("stopped")
	stopTransactions()
	h.wds.Delete(t, pkgv1alpha1.Transactions, "", "stopped")
	h.run(t)
	eventually(t, "", onRemoval)
	if got := h.wds.Get(t, crds, "", "tables.s3.example.org").GetAnnotations()[controlv1alpha1.AnnotationOnRemoval]; got != "orphan" {
		t.Errorf("what the package requests is %q now", got)
	}
}

// orphaning are the options of a work whose cluster keeps these CRDs.
func orphaning(names ...string) *workv1.DeleteOption {
	kept := &workv1.SelectivelyOrphan{}
	for _, name := range names {
		kept.OrphaningRules = append(kept.OrphaningRules, workv1.OrphaningRule{Group: crds.Group, Resource: crds.Resource, Name: name})
	}
	return &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan, SelectivelyOrphan: kept}
}

// TestDeletionOfHalf: an update has failed in the middle, so the content of mailboxes does not
// change. The deletion of the package lets the clusters keep what they have nevertheless.
func TestDeletionOfHalf(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.policy(t)
	testenv.RunAgents(t, h.its, "east")
	for tag, fields := range map[string][]string{"v1.0.0": {"region"}, "v1.1.0": {"region", "size"}} {
		h.push(t, "org/s3", tag, testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", fields...), testxpkg.CRD("s3.example.org", "Table", fields...)))
	}
	h.runBindings(t)
	h.runTransport(t)
	h.run(t)
	h.apply(t, "s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.manifests(t, "east")
		return strings.Contains(got, bucketsCRD) && strings.Contains(got, "tables.s3.example.org"), got
	})
	accept := h.wds.RefuseChanges(t, "tables.s3.example.org")
	h.apply(t, "s3", "v1.1.0")
	h.becomes(t, "s3", "False", "InstallationFailed")
	accept()
	last := h.lastWith(t, "east", bucketsCRD)
	h.wds.Delete(t, pkgv1.Providers, "", "s3")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[pkgv1.Provider](t, h.wds.Client.Resource(pkgv1.Providers), "s3")
		return p == nil, "the package is still there"
	})
	eventually(t, "", func() string { return h.manifests(t, "east") })
	eventually(t, "", func() string { return h.holds(t) })
	if diff := cmp.Diff(orphaning(bucketsCRD, "tables.s3.example.org"), last().Spec.DeleteOption); diff != "" {
		t.Errorf("when the CRDs left (-want +got):\n%s", diff)
	}
}
