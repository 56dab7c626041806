package charts_test

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/charts"
	"github.com/starlinghq/starling/pkg/hostedspace/installation"
	"github.com/starlinghq/starling/test/testenv"
)

var (
	definitions  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	policies     = schema.GroupVersionResource{Group: "control.kubestellar.io", Version: "v1alpha1", Resource: "bindingpolicies"}
)

// TestDefinitions: CustomResourceDefinitions of an external space are brought to their version, if
// others have created them too. Those that are missing are created, even if the release has not
// changed. They and their objects stay when the release is uninstalled.
func TestDefinitions(t *testing.T) {
	const name = "bindingpolicies.control.kubestellar.io"
	space := testenv.Shared(t).Space(t, "its1")
	install := func() {
		t.Helper()
		i := &installation.Installer{Charts: charts.FS, Out: io.Discard}
		if err := i.Install(t.Context(), space.Config, &installation.Request{Type: installation.WDS, Name: "wds1", Timeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	schemaOf := func(crd *unstructured.Unstructured) string {
		t.Helper()
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil || len(versions) != 1 {
			t.Fatalf("%d versions: %v", len(versions), err)
		}
		text, err := json.Marshal(versions[0].(map[string]any)["schema"])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// As an older version or KubeStellar would have it: without what was added since.
	older := func() {
		t.Helper()
		space.Apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+name+`}
spec:
  group: control.kubestellar.io
  scope: Cluster
  names: {kind: BindingPolicy, listKind: BindingPolicyList, plural: bindingpolicies, singular: bindingpolicy}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
    subresources: {status: {}}
`)
	}
	older()
	first := schemaOf(space.Get(t, definitions, "", name))
	space.Apply(t, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: mine}
spec: {clusterSelectors: [{matchLabels: {a: b}}], downsync: [{objectSelectors: [{matchLabels: {a: b}}]}]}
`)
	mine := space.Get(t, policies, "", "mine").GetUID()

	install()
	want := schemaOf(space.Get(t, definitions, "", name))
	if want == first {
		t.Error("the older CustomResourceDefinition was not upgraded")
	}
	uid := space.Get(t, definitions, "", name).GetUID()

	older()
	install()
	if diff := cmp.Diff(want, schemaOf(space.Get(t, definitions, "", name))); diff != "" {
		t.Errorf("an older CustomResourceDefinition in an unchanged release stays (-want +got):\n%s", diff)
	}
	const missing = "packagenumbers.store.starling.io"
	// An API server that does not serve it yet cannot delete it.
	space.Served(t, schema.GroupVersionResource{Group: "store.starling.io", Version: "v1alpha1", Resource: "packagenumbers"})
	space.Remove(t, definitions, "", missing)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return space.Get(t, definitions, "", missing) == nil, "it is not deleted yet"
	})
	install()
	if space.Get(t, definitions, "", missing) == nil {
		t.Error("the missing CustomResourceDefinition was not created")
	}

	if _, err := connect(t, "its1", system).uninstall("starling"); err != nil {
		t.Fatal(err)
	}
	if space.Get(t, clusterRoles, "", "starling:binding-controller") != nil {
		t.Error("the rights of the controllers stay")
	}
	install()
	if got := space.Get(t, definitions, "", name); got == nil || got.GetUID() != uid {
		t.Error("the CustomResourceDefinition was not kept")
	}
	if got := space.Get(t, policies, "", "mine"); got == nil || got.GetUID() != mine {
		t.Error("the object was not kept")
	}
	if space.Get(t, clusterRoles, "", "starling:binding-controller") == nil {
		t.Error("the rights were not created again")
	}
}
