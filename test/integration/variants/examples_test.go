package variants

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/testenv"
)

// base is a package of the catalogue.
func base() map[string]string {
	return map[string]string{
		"Kptfile": `apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: base-ns # kept
info:
  description: A namespace
pipeline:
  mutators:
  - image: gcr.io/kpt-fn/set-labels:v0.1
    configMap: {team: platform}
`,
		"namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: example # set per cluster\n",
		"deployment.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: example}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.27"}]}
`,
		"endpoints.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: endpoints
  annotations:
    kpt.dev/config-injection: required
    config.kubernetes.io/local-config: "true"
data: {region: none}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: more
  annotations: {kpt.dev/config-injection: optional}
data: {}
`,
	}
}

// TestExamples: what the design of package variants shows of single PackageVariants, with all that
// comes of it.
func TestExamples(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "base-ns", "v1", "", base())
	e.create(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: useast1-endpoints}, data: {region: useast1, dns: 10.0.0.1}}")
	for _, example := range []struct{ name, pv string }{
		{"plain", variantText("ns-1", "package: base-ns, revision: v1", "ns-1", "labels: {package-type: namespace, org: hr}, annotations: {owner: team}")},
		{"context", variantText("ns-2", "package: base-ns, revision: 1", "ns-2", "packageContext: {data: {region: useast1, zone: a, gone: x}, removeKeys: [gone]}")},
		{"pipeline", variantText("my-pv", "package: base-ns, workspaceName: v1", "team/ns-3", `pipeline: {mutators: [
			{image: "gcr.io/kpt-fn/set-namespace:v0.1", configMap: {namespace: my-ns}, name: my-func},
			{image: "gcr.io/kpt-fn/set-labels:v0.1", configMap: {app: foo}}]}`)},
		{"dotted", variantText("my.dotted-pv", "package: base-ns, revision: v1", "ns-4", `pipeline: {mutators: [
			{image: "gcr.io/kpt-fn/set-namespace:v0.1", configMap: {namespace: my-ns}, name: my.dotted.func}]}`)},
		{"injection", variantText("ns-5", "package: base-ns, revision: v1", "ns-5", "injectors: [{name: useast1-endpoints}]")},
		{"injection-by-kind", variantText("ns-6", "package: base-ns, revision: v1", "ns-6",
			"injectors: [{kind: Deployment, group: apps, name: useast1-endpoints}, {kind: ConfigMap, name: absent}, {version: v1, group: '', kind: ConfigMap, name: useast1-endpoints}]")},
		{"injection-without", variantText("ns-7", "package: base-ns, revision: v1", "ns-7", "injectors: [{name: absent}]")},
	} {
		t.Run(example.name, func(t *testing.T) {
			pv := testenv.Into[configv1alpha1.PackageVariant](t, e.create(t, example.pv))
			got := e.ready(t, pv.Name, v1, configv1alpha1.VariantDraft)
			golden.Compare(t, "TestExamples/"+example.name, e.described(t, "edge", pv.Spec.Downstream.Package)+"# status of the PackageVariant\n"+statusText(t, got))
		})
	}
	// None of it moves once it is there.
	e.quiet(t)
	e.traffic.Reset()
	if _, err := e.revisions().Patch(t.Context(), v1, "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.quiet(t)
	if all := e.traffic.Written(""); len(all) != 0 {
		t.Errorf("nothing happened, yet it writes %q", all)
	}
}
