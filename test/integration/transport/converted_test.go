package transport

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestNotConverted: the storage version of a kind with a conversion webhook moves. What a cluster
// has of an object stays until the object was written in the new version, since a WDS reads it
// without the fields that only the old one has.
func TestNotConverted(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	group := schema.GroupVersion{Group: e.name + ".example.com", Version: "v1"}
	old, now := schema.GroupVersion{Group: group.Group, Version: "v1alpha1"}.WithResource("widgets"), group.WithResource("widgets")
	definition := "widgets." + group.Group
	object := func(properties ...string) map[string]any {
		fields := map[string]any{}
		for _, name := range properties {
			fields[name] = map[string]any{"type": "string"}
		}
		return map[string]any{"type": "object", "properties": fields}
	}
	versions := func(stored string) []any {
		version := func(name string, properties ...string) any {
			return map[string]any{"name": name, "served": true, "storage": name == stored, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": object(properties...)}},
			}}
		}
		return []any{version("v1alpha1", "size", "old"), version("v1", "size")}
	}
	crd := widgetCRD(group.Group)
	spec := crd["spec"].(map[string]any) //nolint:forcetypeassert // see widgetCRD
	spec["versions"] = versions("v1alpha1")
	spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"service": map[string]any{"namespace": e.name, "name": "convert"}},
	}}
	e.create(crds, "", definition, crd)
	widgets := e.wds.Resource(old).Namespace(e.name)
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := widgets.List(t.Context(), listAll)
		return err == nil, fmt.Sprint(err)
	})
	one := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": old.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": "one"},
		"spec": map[string]any{"size": "3", "old": "keep"},
	}}
	if _, err := widgets.Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	delivers := func(when, version string, want map[string]any) {
		t.Helper()
		var o unstructured.Unstructured
		if err := json.Unmarshal(e.works(sites[0])[0].Spec.Workload.Manifests[0].Raw, &o.Object); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, o.Object["spec"]); diff != "" || o.GroupVersionKind().Version != version {
			t.Errorf("%s: version %s, want %s; spec (-want +got):\n%s", when, o.GroupVersionKind().Version, version, diff)
		}
	}
	e.bind(sites, entry{resource: old, namespace: e.name, name: "one"})
	e.applied()
	delivers("at first", "v1alpha1", map[string]any{"size": "3", "old": "keep"})

	moved, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions("v1")}})
	if err != nil {
		t.Fatal(err)
	}
	e.patch(crds, "", definition, string(moved))
	e.rebind(sites, entry{resource: now, namespace: e.name, name: "one"})
	e.expectErrors(fmt.Sprintf("widgets.%s %s/one: cannot be delivered: it was written in version v1alpha1, and the WDS reads it in version v1 without converting it, "+
		"so fields can be missing: apply it in version v1, or remove the annotation %s if it is whole", group.Group, e.name, controlv1alpha1.AnnotationNotConverted))
	delivers("the storage version has moved", "v1alpha1", map[string]any{"size": "3", "old": "keep"})

	edit := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{"size":"4"}}`, controlv1alpha1.AnnotationNotConverted)
	if _, err := e.wds.Resource(now).Namespace(e.name).Patch(t.Context(), "one", types.MergePatchType, []byte(edit), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.expectErrors()
	e.applied()
	delivers("the object is whole", "v1", map[string]any{"size": "4"})
}
