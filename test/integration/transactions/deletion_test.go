package transactions

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestDeletionThatCannotEnd: an object has a finalizer that nothing removes. Nothing is deleted,
// the condition says what to do, and others go on.
func TestDeletionThatCannotEnd(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.push(t, "org/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region")))
	h.push(t, "org/other", "v1.0.0", testxpkg.Provider("other"))
	h.run(t)
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	h.Create(t, buckets, "", "mine", map[string]any{"spec": map[string]any{"region": "eu"}, "metadata": map[string]any{"finalizers": []any{"finalizer.managedresource.crossplane.io"}}})
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"pkg.crossplane.io/allow-deletion-of-resources":"true"}}}`)
	h.Delete(t, pkgv1.Providers, "", "s3")
	refused := h.becomes(t, "s3", "False", "ValidationFailed")
	const command = `kubectl patch buckets.s3.aws.example.org mine --type=merge -p '{"metadata":{"finalizers":null}}'`
	if message := conditionOf(t, refused.Status.Conditions, "Validated", "ResourcesInUse"); !strings.Contains(message, "would not end") || !strings.Contains(message, command) {
		t.Errorf("message %q", message)
	}
	for resource, name := range map[schema.GroupVersionResource]string{crds: bucketsCRD, buckets: "mine"} {
		if h.exists(t, resource, name).GetDeletionTimestamp() != nil {
			t.Errorf("%s is being deleted", name)
		}
	}
	h.free(t)

	// The finalizer comes when the deletion has begun: the Lock is free between the tries.
	h.Patch(t, buckets, "", "mine", `{"metadata":{"finalizers":null}}`)
	h.Patch(t, crds, "", bucketsCRD, `{"metadata":{"finalizers":["example.org/mine","customresourcecleanup.apiextensions.k8s.io"]}}`)
	h.becomes(t, "s3", "False", "InstallationFailed")
	h.apply(t, "Provider", "other", "org/other", "v1.0.0")
	h.becomes(t, "other", "True", "TransactionComplete")
	h.Patch(t, crds, "", bucketsCRD, `{"metadata":{"finalizers":null}}`)
	h.gone(t, pkgv1.Providers, "s3")
	h.gone(t, crds, bucketsCRD)
}
