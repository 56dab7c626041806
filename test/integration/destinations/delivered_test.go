package destinations

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// restricted returns the CRD of buckets with a pattern for the field region, and the field size
// required.
func restricted(t *testing.T, pattern string) *unstructured.Unstructured {
	t.Helper()
	crd := testxpkg.CRD("s3.example.org", "Bucket", "region", "size")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	if err := unstructured.SetNestedField(version, pattern, "schema", "openAPIV3Schema", "properties", "spec", "properties", "region", "pattern"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedStringSlice(version, []string{"size"}, "schema", "openAPIV3Schema", "properties", "spec", "required"); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	return crd
}

// works returns the manifests in a mailbox as text.
func (h *hub) works(t *testing.T, cluster string) string {
	t.Helper()
	list, err := h.its.Client.Resource(ocm.ManifestWorks).Namespace(cluster).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range list.Items {
		manifests, _, _ := unstructured.NestedSlice(list.Items[i].Object, "spec", "workload", "manifests")
		for _, m := range manifests {
			o, _ := m.(map[string]any)
			raw, _ := (&unstructured.Unstructured{Object: o}).MarshalJSON()
			text.Write(raw)
		}
	}
	return text.String()
}

// TestValidatedAsDelivered: custom resources are validated in the form that each cluster gets:
// after CustomTransforms, and with the properties of the cluster.
func TestValidatedAsDelivered(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, cluster := range []string{"east", "lab", "west"} {
		h.cluster(t, cluster, "prod")
	}
	h.property(t, "east", "region: eu-1")
	h.property(t, "west", "region: us-1")
	h.policy(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", testxpkg.CRD("s3.example.org", "Bucket", "region", "size")))
	h.push(t, "org/s3", "v2.0.0", testxpkg.Provider("s3", restricted(t, "^(eu|[{]{2})"))) // the space has "{{"
	h.runBindings(t)
	h.runTransport(t)
	testenv.RunAgents(t, h.its, "east", "lab", "west")
	h.run(t)
	h.apply(t, "s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.wds.Served(t, buckets)
	h.wds.Create(t, buckets, "", "mine", map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "a"}, "annotations": map[string]any{"control.kubestellar.io/expand-templates": "true"}},
		"spec":     map[string]any{"region": "{{.region}}", "size": "1"},
	})
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.works(t, "east")
		return strings.Contains(got, `"region":"eu-1"`), got
	})

	// What a CustomTransform removes is missing on clusters, though not in the space.
	h.wds.Apply(t, `{apiVersion: control.kubestellar.io/v1alpha1, kind: CustomTransform, metadata: {name: no-size}, spec: {apiGroup: s3.example.org, resource: buckets, remove: ["$.spec.size"]}}`)
	h.apply(t, "s3", "v2.0.0")
	refused := h.becomes(t, "s3", "False", "ValidationFailed")
	if got, want := message(refused, "Validated"), "SchemaIncompatible: cluster west: buckets.s3.example.org v1: spec.region: should match '^(eu|[{]{2})' (1 object: mine); "+
		"clusters east, west: buckets.s3.example.org v1: spec.size is required now (1 object: mine)"; got != want {
		t.Errorf("Validated: %s\nwant %s", got, want)
	}
	h.wds.Delete(t, controlv1alpha1.CustomTransforms, "", "no-size")
	h.again(t, refused)
	refused = h.becomes(t, "s3", "False", "ValidationFailed")
	if got, want := message(refused, "Validated"), "SchemaIncompatible: cluster west: buckets.s3.example.org v1: spec.region: should match '^(eu|[{]{2})' (1 object: mine)"; got != want {
		t.Errorf("Validated: %s\nwant %s", got, want)
	}

	// The property of the cluster is corrected. That of lab is still missing.
	h.property(t, "west", "region: eu-2")
	h.again(t, refused)
	done := h.becomes(t, "s3", "True", "TransactionComplete")
	if got, want := strings.Join(done.Status.Warnings, "\n"), "cluster lab: 1 object of buckets.s3.example.org (mine): not delivered, and what was delivered stays, which is not checked: .spec.region cannot be expanded"; !strings.Contains(got, want) {
		t.Errorf("warnings %s\nwant %s", got, want)
	}
	for cluster, want := range map[string]string{"east": `"spec":{"region":"eu-1","size":"1"}`, "west": `"spec":{"region":"eu-2","size":"1"}`, "lab": ""} {
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			got := h.works(t, cluster)
			return strings.Contains(got, want) && strings.Contains(got, `"pattern":"^(eu`), got
		})
	}
	if got := h.works(t, "lab"); strings.Contains(got, `"kind":"Bucket","metadata"`) {
		t.Errorf("lab got an object that cannot be rendered: %s", got)
	}
}

// property sets the properties of a cluster.
func (h *hub) property(t *testing.T, cluster, data string) {
	t.Helper()
	h.its.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+cluster+", namespace: customization-properties}, data: {"+data+"}}")
}

// again has a Transaction that failed tried again, as a user does.
func (h *hub) again(t *testing.T, failed *pkgv1alpha1.Transaction) {
	t.Helper()
	h.wds.Delete(t, pkgv1alpha1.Transactions, "", failed.Name)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		for _, other := range testenv.List[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), metav1.ListOptions{}) {
			if other.Labels[pkgv1.LabelPackage] == failed.Labels[pkgv1.LabelPackage] && other.Labels[pkgv1.LabelGeneration] == failed.Labels[pkgv1.LabelGeneration] {
				return other.UID != failed.UID, "the Transaction exists still"
			}
		}
		return false, "no Transaction yet"
	})
}
