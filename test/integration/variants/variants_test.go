// Package variants tests against a real API server the APIs of package variants.
package variants

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}, Packages: true})
}

func serve(t *testing.T) dynamic.Interface {
	t.Helper()
	space := testenv.Shared(t).Space(t, "wds1")
	space.Install(t, testenv.APIs(t, "config.porch.kpt.dev_")...)
	return space.Client
}

// roundTrips fails the test if the API server does not store all of an object and its status.
func roundTrips[T any](t *testing.T, client dynamic.Interface, resource schema.GroupVersionResource, text string) {
	t.Helper()
	in := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &in.Object); err != nil {
		t.Fatal(err)
	}
	in.SetNamespace("default")
	in.SetGenerateName("test-")
	out, err := client.Resource(resource).Namespace("default").Create(t.Context(), in, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	if status, ok := in.Object["status"]; ok {
		out.Object["status"] = status
		if out, err = client.Resource(resource).Namespace("default").UpdateStatus(t.Context(), out, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatal(err)
		}
	}
	var want, got struct {
		Spec, Status json.RawMessage
	}
	for _, part := range []struct {
		from *unstructured.Unstructured
		to   any
	}{{in, &want}, {out, &got}} {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(part.from.Object, typed, true); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(typed)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, part.to); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.AcyclicTransformer("text", func(raw json.RawMessage) string { return string(raw) })); diff != "" {
		t.Errorf("(-sent +kept):\n%s", diff)
	}
}

// TestExamplesAreAccepted: what the design of package variants shows, in its own words, unknown
// fields refused.
func TestExamplesAreAccepted(t *testing.T) {
	client := serve(t)
	files, err := filepath.Glob("../../../pkg/core/packages/variant/testdata/TestExamples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			roundTrips[configv1alpha2.PackageVariantSet](t, client, configv1alpha2.PackageVariantSets, "apiVersion: config.porch.kpt.dev/v1alpha2\nkind: PackageVariantSet\n"+string(text))
		})
	}
	t.Run("Variant", func(t *testing.T) {
		roundTrips[configv1alpha1.PackageVariant](t, client, configv1alpha1.PackageVariants, `
apiVersion: config.porch.kpt.dev/v1alpha1
kind: PackageVariant
spec:
  upstream: {repo: up, package: web, revision: 3, workspaceName: w, tag: stable}
  downstream: {repo: edge, package: team/web}
  adoptionPolicy: adoptExisting
  deletionPolicy: orphan
  labels: {a: b}
  annotations: {c: d}
  packageContext: {data: {x: "1"}, removeKeys: [z]}
  pipeline:
    mutators:
    - {image: set-labels, tag: "0.1", exec: program, configPath: a.yaml, configMap: {x: "1"}, name: fn}
    validators:
    - image: kubeval
      selectors: [{apiVersion: v1, kind: K, name: one, namespace: ns, labels: {a: b}, annotations: {c: d}}]
      exclude: [{kind: Other}]
  injectors: [{group: g, version: v1, kind: K, name: one}]
status:
  conditions: [{type: Ready, status: "True", reason: NoErrors, message: fine, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
  downstreamTargets:
  - name: edge.team.web.w
    renderStatus: {error: "no", result: {exitCode: 1, items: [{image: x, exitCode: 1, results: [{message: m, severity: error, file: {path: p, index: 1}}]}]}}
  observedGeneration: 1
  upstream: {name: up.web.w, revision: 3, digest: "sha256:1"}
  state: Draft
  waitsFor: somebody
  settled: abc
  injected: [{group: g, version: v1, kind: K, name: one}]
`)
	})
	t.Run("Set", func(t *testing.T) {
		roundTrips[configv1alpha2.PackageVariantSet](t, client, configv1alpha2.PackageVariantSets, `
apiVersion: config.porch.kpt.dev/v1alpha2
kind: PackageVariantSet
spec: {upstream: {repo: up, package: web, revision: latest}, targets: [{objectSelector: {apiVersion: v1, kind: Namespace, name: one, packageNames: [a]}}]}
status:
  conditions: [{type: Ready, status: "True", reason: Reconciled, message: fine, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  observedGeneration: 1
  targets: 6
  draft: 5
  proposed: 4
  published: 3
  applied: 2
  healthy: 1
  problems: [{target: t, message: m}]
  moreProblems: 7
`)
	})
	// What is wrong is said by the controllers, all at once: the schema must not be in their way.
	t.Run("Wrong", func(t *testing.T) {
		roundTrips[configv1alpha1.PackageVariant](t, client, configv1alpha1.PackageVariants, "apiVersion: config.porch.kpt.dev/v1alpha1\nkind: PackageVariant\nspec: {adoptionPolicy: x, deletionPolicy: z, injectors: [{name: ''}]}")
		roundTrips[configv1alpha2.PackageVariantSet](t, client, configv1alpha2.PackageVariantSets, "apiVersion: config.porch.kpt.dev/v1alpha2\nkind: PackageVariantSet\nspec: {targets: [{repositories: [{name: ''}], repositorySelector: {}}, {template: {adoptionPolicy: x}}]}")
	})
}
