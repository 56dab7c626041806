package packagecli

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
)

// make creates an object with a status, as the controllers do.
func (a *author) make(resource schema.GroupVersionResource, kind, text string) *unstructured.Unstructured {
	a.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		a.t.Fatal(err)
	}
	obj.SetAPIVersion(resource.GroupVersion().String())
	obj.SetKind(kind)
	client := a.dynamic.Resource(resource).Namespace(a.namespace)
	made, err := client.Create(a.t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	if status, ok := obj.Object["status"]; ok {
		raw, err := yaml.Marshal(map[string]any{"status": status})
		if err == nil {
			raw, err = yaml.YAMLToJSON(raw)
		}
		if err == nil {
			_, err = client.Patch(a.t.Context(), made.GetName(), types.MergePatchType, raw, metav1.PatchOptions{}, "status")
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
	return made
}

// TestVariantsOfSet: the variants of a set are shown, and those of them that can change are
// proposed and approved together.
func TestVariantsOfSet(t *testing.T) {
	a := newAuthor(t)
	const many = 12
	set := a.make(configv1alpha2.PackageVariantSets, "PackageVariantSet", "{metadata: {name: shops}, spec: {targets: []}}")
	variant := func(name, owners string) {
		a.ok("init", name, "--repository", "edge")
		a.make(configv1alpha1.PackageVariants, "PackageVariant", fmt.Sprintf(`{
			metadata: {name: shops-%[1]s, labels: {config.porch.kpt.dev/packagevariantset: %[2]q}, ownerReferences: %[3]s},
			spec: {downstream: {repo: edge, package: %[1]s}},
			status: {state: Draft, waitsFor: "somebody to propose it", downstreamTargets: [{name: edge.%[1]s.v1}]}}`, name, set.GetUID(), owners))
	}
	for i := range many {
		variant(fmt.Sprintf("shop-%02d", i), fmt.Sprintf("[{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, name: shops, uid: %q, controller: true}]", set.GetUID()))
	}
	variant("other", "[]") // it has the label, and no set has made it

	lines := strings.Split(strings.TrimSpace(a.ok("variants", "shops")), "\n")
	if len(lines) != many+1 || strings.Join(strings.Fields(lines[1]), " ") != "edge shop-00 Draft edge.shop-00.v1 Unknown somebody to propose it" {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	if out := a.ok("variants", "shops", "-o", "yaml"); strings.Count(out, "waitsFor: somebody to propose it") != many {
		t.Error(out)
	}
	a.fails(1, []string{"variants", "shops", "-o", "name"}, `unable to match a printer suitable for the output format "name"`)
	a.fails(1, []string{"variants", "nothing"}, "Error from server (NotFound)", `"nothing" not found`)

	proposed := strings.Split(strings.TrimSpace(a.ok("propose", "--set", "shops")), "\n")
	if len(proposed) != many || proposed[0] != "packagerevision.porch.kpt.dev/edge.shop-00.v1 proposed" {
		t.Errorf("%d were proposed: %s", len(proposed), proposed)
	}
	a.ok("propose", "edge.other.v1")
	// Another user changed one of them in between.
	a.ok("reject", "edge.shop-03.v1")
	if out := a.ok("approve", "--set", "shops", "-o", "name"); strings.Count(out, "\n") != many-1 || strings.Contains(out, "other") || strings.Contains(out, "shop-03") {
		t.Error(out)
	}
	out, errOut, code := a.run("approve", "--set", "shops")
	if code != 0 || out != "" || !strings.Contains(errOut, "No revisions that can be approved found") {
		t.Error(code, out, errOut)
	}
	a.fails(1, []string{"approve", "--set", "shops", "edge.other.v1"}, "specify either the revisions to be approved, or -l or --set")
	a.fails(1, []string{"approve", "--set", "nothing"}, `"nothing" not found`)
}
