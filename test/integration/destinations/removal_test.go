package destinations

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

var (
	policies   = controlv1alpha1.BindingPolicies
	buckets    = schema.GroupVersionResource{Group: "s3.example.org", Version: "v1", Resource: "buckets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// carry has a policy carry objects with a label to clusters labelled env=prod.
func (h *hub) carry(t *testing.T, policy, label string) {
	t.Helper()
	h.wds.Apply(t, `{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy, metadata: {name: `+policy+`, annotations: {starling.io/removal-block: "off"}}, spec: {
		clusterSelectors: [{matchLabels: {env: prod}}], downsync: [{objectSelectors: [{matchLabels: {`+label+`: "1"}}]}]}}`)
}

// errors returns status.errors of a Binding.
func (h *hub) errors(t *testing.T, binding string) string {
	t.Helper()
	b := testenv.Get[controlv1alpha1.Binding](t, h.wds.Client.Resource(bindings), binding)
	if b == nil {
		return "no Binding"
	}
	return strings.Join(b.Status.Errors, "\n")
}

// TestDefinitionStaysWhileItIsNeeded: an edit of a policy, its deletion, and the deletion of the
// CRD in the WDS would each remove a CRD from a cluster that has objects of its kind.
func TestDefinitionStaysWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.cluster(t, "west", "prod")
	h.runBindings(t)
	stop := h.runTransport(t)
	testenv.RunAgents(t, h.its, "east", "west")

	definition := testxpkg.CRD("s3.example.org", "Bucket", "region")
	definition.SetLabels(map[string]string{"crd": "1"})
	h.wds.ApplyObject(t, definition)
	h.wds.Served(t, buckets)
	h.wds.Create(t, buckets, "", "mine", map[string]any{"metadata": map[string]any{"labels": map[string]any{"object": "1"}}, "spec": map[string]any{"region": "eu"}})
	h.carry(t, "crds", "crd")
	const crd = "CustomResourceDefinition buckets.s3.example.org region"
	for _, cluster := range []string{"east", "west"} {
		eventually(t, crd, func() string { return h.manifests(t, cluster) })
	}

	// An edit: another WDS has an object on east, nobody has one on west.
	h.foreign(t, "east", "theirs", bucket)
	h.seen(t, "east")
	h.carry(t, "crds", "other")
	eventually(t, "", func() string { return h.manifests(t, "west") })
	eventually(t, `east: customresourcedefinitions.apiextensions.k8s.io buckets.s3.example.org: stays, because 1 object of its kind would be deleted with it: buckets.s3.example.org theirs of WDS "other" (work theirs); remove it first, or select this object again`,
		func() string { return h.errors(t, "crds") })
	if got := h.manifests(t, "east"); got != crd {
		t.Errorf("mailbox of east: %s", got)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[controlv1alpha1.BindingPolicy](t, h.wds.Client.Resource(policies), "crds")
		return strings.Contains(fmt.Sprint(p.Status), "would be deleted with it"), fmt.Sprintf("%+v", p.Status)
	})

	// The deletion of the policy, across a restart of the transport.
	h.wds.Delete(t, policies, "", "crds")
	stop()
	h.runTransport(t)
	testenv.Never(t, testenv.Held, func() string {
		if got := h.manifests(t, "east"); got != crd {
			return "the mailbox has " + got
		}
		return ""
	})
	h.its.Remove(t, ocm.ManifestWorks, "east", "theirs")
	eventually(t, "", func() string { return h.manifests(t, "east") })
	h.gone(t, "crds")

	// An object of another policy, which is not delivered yet when the CRD is to leave.
	h.carry(t, "crds", "crd")
	eventually(t, crd, func() string { return h.manifests(t, "east") })
	h.carry(t, "objects", "object")
	for _, cluster := range []string{"east", "west"} {
		eventually(t, "Bucket mine; "+crd, func() string { return h.manifests(t, cluster) })
	}
	h.wds.Delete(t, policies, "", "crds")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.errors(t, "crds")
		return strings.Contains(got, `buckets.s3.example.org mine of Binding "objects"`), got
	})
	testenv.Never(t, testenv.Held, func() string {
		if got := h.manifests(t, "east"); got != "Bucket mine; "+crd {
			return "the mailbox has " + got
		}
		return ""
	})
	h.wds.Delete(t, policies, "", "objects") // the CRD follows the object
	for _, cluster := range []string{"east", "west"} {
		eventually(t, "", func() string { return h.manifests(t, cluster) })
	}
	h.gone(t, "crds", "objects")

	// One policy with both: they leave together.
	h.wds.Patch(t, buckets, "", "mine", `{"metadata":{"labels":{"crd":"1"}}}`)
	h.carry(t, "crds", "crd")
	eventually(t, "Bucket mine; "+crd, func() string { return h.manifests(t, "east") })
	h.wds.Patch(t, crds, "", "buckets.s3.example.org", `{"metadata":{"labels":{"crd":"2"}}}`) // it needs the CRD
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.errors(t, "crds")
		return strings.Contains(got, "buckets.s3.example.org mine of this Binding"), got
	})
	if got := h.manifests(t, "east"); got != "Bucket mine; "+crd {
		t.Errorf("mailbox of east: %s", got)
	}

	// The deletion of the CRD in the WDS deletes the object there. That of another WDS stays.
	h.foreign(t, "east", "theirs", bucket)
	h.seen(t, "east")
	h.wds.Delete(t, crds, "", "buckets.s3.example.org")
	eventually(t, "", func() string { return h.manifests(t, "west") })
	eventually(t, crd, func() string { return h.manifests(t, "east") })
	testenv.Never(t, testenv.Held, func() string {
		if got := h.manifests(t, "east"); got != crd {
			return "the mailbox has " + got
		}
		return ""
	})
	// A user who knows better releases it.
	h.wds.Delete(t, policies, "", "crds")
	h.wds.Patch(t, bindings, "", "crds", `{"metadata":{"annotations":{"starling.io/release":"force"}}}`)
	eventually(t, "", func() string { return h.manifests(t, "east") })
	h.gone(t, "crds")
}

// gone waits until policies do not exist.
// seen waits until the transport has seen what was written to a mailbox before: it repairs a work
// of ours that is edited now.
func (h *hub) seen(t *testing.T, cluster string) {
	t.Helper()
	mailbox := h.its.Client.Resource(ocm.ManifestWorks).Namespace(cluster)
	ours, err := mailbox.List(t.Context(), metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID + "=" + string(h.uid)})
	if err != nil || len(ours.Items) == 0 {
		t.Fatalf("works of %s: %v, %v", cluster, ours, err)
	}
	name := ours.Items[0].GetName()
	edited := h.its.Patch(t, ocm.ManifestWorks, cluster, name, `{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}}}`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		generation := h.its.Get(t, ocm.ManifestWorks, cluster, name).GetGeneration()
		return generation > edited.GetGeneration(), fmt.Sprintf("work %s of %s is not repaired: generation %d", name, cluster, generation)
	})
}

func (h *hub) gone(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			_, err := h.wds.Client.Resource(policies).Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})
	}
}

// TestNamespaceStaysWhileItIsNeeded: a Namespace that left a cluster would take with it what
// another WDS or another policy has in it.
func TestNamespaceStaysWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.cluster(t, "east", "prod")
	h.cluster(t, "west", "prod")
	h.runBindings(t)
	h.runTransport(t)
	testenv.RunAgents(t, h.its, "east", "west")
	h.wds.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {space: \"1\"}}}")
	h.carry(t, "spaces", "space")
	const namespace = "Namespace shop"
	for _, cluster := range []string{"east", "west"} {
		eventually(t, namespace, func() string { return h.manifests(t, cluster) })
	}

	// An edit: another WDS has an object in it on east, nobody has one on west.
	h.foreign(t, "east", "theirs", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}")
	h.seen(t, "east")
	h.carry(t, "spaces", "other")
	eventually(t, "", func() string { return h.manifests(t, "west") })
	eventually(t, `east: namespaces shop: stays, because 1 object in it would be deleted with it: configmaps shop/settings of WDS "other" (work theirs); remove it first, or select this object again`,
		func() string { return h.errors(t, "spaces") })
	h.wds.Delete(t, policies, "", "spaces")
	testenv.Never(t, testenv.Held, func() string {
		if got := h.manifests(t, "east"); got != namespace {
			return "the mailbox has " + got
		}
		return ""
	})
	h.its.Remove(t, ocm.ManifestWorks, "east", "theirs")
	eventually(t, "", func() string { return h.manifests(t, "east") })
	h.gone(t, "spaces")

	// The deletion of the policy of the Namespace; another policy has an object in it.
	h.wds.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: mine, namespace: shop, labels: {object: \"1\"}}}")
	h.carry(t, "spaces", "space")
	h.carry(t, "objects", "object")
	for _, cluster := range []string{"east", "west"} {
		eventually(t, "ConfigMap mine; "+namespace, func() string { return h.manifests(t, cluster) })
	}
	h.wds.Delete(t, policies, "", "spaces")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := h.errors(t, "spaces")
		return strings.Contains(got, `configmaps shop/mine of Binding "objects"`), got
	})
	h.wds.Delete(t, policies, "", "objects") // the Namespace follows the object
	for _, cluster := range []string{"east", "west"} {
		eventually(t, "", func() string { return h.manifests(t, cluster) })
	}
	h.gone(t, "spaces", "objects")

	// One policy with both: they leave together.
	h.wds.Patch(t, configMaps, "shop", "mine", `{"metadata":{"labels":{"space":"1"}}}`)
	h.carry(t, "spaces", "space")
	eventually(t, "ConfigMap mine; "+namespace, func() string { return h.manifests(t, "east") })
	h.wds.Delete(t, policies, "", "spaces")
	eventually(t, "", func() string { return h.manifests(t, "east") })
	h.gone(t, "spaces")
}
