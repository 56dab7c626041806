package destinations

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// conversions returns the conversions of the CustomResourceDefinitions in a mailbox, by name.
func (h *hub) conversions(t *testing.T, cluster string) map[string]any {
	t.Helper()
	list, err := h.its.Client.Resource(ocm.ManifestWorks).Namespace(cluster).List(t.Context(), metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID + "=" + string(h.uid)})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for i := range list.Items {
		work := testenv.Into[workv1.ManifestWork](t, &list.Items[i])
		for n := range work.Spec.Workload.Manifests {
			o := &unstructured.Unstructured{}
			if err := json.Unmarshal(work.Spec.Workload.Manifests[n].Raw, &o.Object); err != nil {
				t.Fatal(err)
			}
			found[o.GetName()], _, _ = unstructured.NestedFieldCopy(o.Object, "spec", "conversion")
		}
	}
	return found
}

// TestConversionWebhooks: a package whose CustomResourceDefinitions leave their webhook to
// Crossplane, as those of provider-upjet-aws do, installs. Clusters get such a kind without a
// conversion that could not be called, and one with a service as it is written.
func TestConversionWebhooks(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.policy(t)
	crd := func(kind string, service map[string]any) *unstructured.Unstructured {
		o := testxpkg.CRD("s3.example.org", kind, "region")
		conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"service": service},
		}}
		if err := unstructured.SetNestedMap(o.Object, conversion, "spec", "conversion"); err != nil {
			t.Fatal(err)
		}
		return o
	}
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3",
		crd("Bucket", map[string]any{"path": "/convert"}), crd("Table", map[string]any{"path": "/convert", "name": "mine", "namespace": "apps"})))
	h.runBindings(t)
	h.runTransport(t)
	h.run(t)
	h.apply(t, "s3", "v1.0.0")
	tx := h.becomes(t, "s3", "True", "TransactionComplete")
	if warnings := strings.Join(tx.Status.Warnings, "; "); !strings.Contains(warnings, "conversion webhook of buckets.s3.example.org to a package manager") || strings.Contains(warnings, "tables") {
		t.Errorf("warnings %q", warnings)
	}
	want := map[string]any{
		"buckets.s3.example.org": nil,
		"tables.s3.example.org": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"service": map[string]any{"path": "/convert", "name": "mine", "namespace": "apps", "port": float64(443)}},
		}},
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		diff := cmp.Diff(want, h.conversions(t, "east"))
		return diff == "", diff
	})
}
