package dynamicinformer

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/test/testenv"
)

const podTemplate = `{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`

// TestTracksContent edits objects of all resources whose generation is said to track the content.
// Each edit must change the generation. That of a PriorityClass does not: an edit of it would never
// be seen.
func TestTracksContent(t *testing.T) {
	source, set, _, client := start(t)
	crd := widgetCRD("v1")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	versions[0].(map[string]any)["schema"] = map[string]any{
		"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testenv.DeleteKind(t, client, crd.GetName()) })
	synced(t, set, widgets)

	workload := "{selector: {matchLabels: {a: b}}, template: " + podTemplate
	job := "{template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}"
	cases := map[string]struct{ spec, edit string }{
		"replicationcontrollers":      {"{selector: {a: b}, replicas: 0, template: " + podTemplate + "}", `{"spec":{"minReadySeconds":3}}`},
		"daemonsets.apps":             {workload + "}", `{"spec":{"minReadySeconds":3}}`},
		"deployments.apps":            {workload + ", replicas: 0}", `{"spec":{"minReadySeconds":3}}`},
		"replicasets.apps":            {workload + ", replicas: 0}", `{"spec":{"minReadySeconds":3}}`},
		"statefulsets.apps":           {workload + ", replicas: 0, serviceName: s}", `{"spec":{"minReadySeconds":3}}`},
		"cronjobs.batch":              {"{schedule: '* * * * *', suspend: true, jobTemplate: {spec: " + job + "}}", `{"spec":{"schedule":"1 * * * *"}}`},
		"jobs.batch":                  {job, `{"spec":{"suspend":true}}`},
		"poddisruptionbudgets.policy": {"{minAvailable: 1, selector: {matchLabels: {a: b}}}", `{"spec":{"minAvailable":2}}`},
		"ingresses.networking.k8s.io": {
			"{defaultBackend: {service: {name: a, port: {number: 1}}}}", `{"spec":{"defaultBackend":{"service":{"name":"b"}}}}`,
		},
		"flowschemas.flowcontrol.apiserver.k8s.io": {
			"{priorityLevelConfiguration: {name: exempt}, matchingPrecedence: 9000}", `{"spec":{"matchingPrecedence":9001}}`,
		},
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": {
			"{type: Limited, limited: {nominalConcurrencyShares: 1, limitResponse: {type: Reject}}}", `{"spec":{"limited":{"nominalConcurrencyShares":2}}}`,
		},
		"customresourcedefinitions.apiextensions.k8s.io": {"", `{"spec":{"names":{"shortNames":["wdg"]}}}`},
		"widgets.example.com":                            {"{a: b}", `{"spec":{"a":"c"}}`},
	}
	found := 0
	for gr, resource := range source.Resources() {
		tc, tested := cases[gr.String()]
		if resource.TracksContent != tested {
			t.Errorf("%s: tracks the content: %t, tested: %t", gr, resource.TracksContent, tested)
		}
		if !tested {
			continue
		}
		found++
		t.Run(gr.String(), func(t *testing.T) {
			into := client.Resource(resource.GroupVersionResource)
			one := into.Namespace("")
			if resource.Namespaced {
				one = into.Namespace("default")
			}
			name := "tracked"
			if gr == crds.GroupResource() {
				name = crd.GetName()
			} else {
				o := &unstructured.Unstructured{}
				text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s}, spec: %s}", resource.GroupVersion(), resource.Kind, name, tc.spec)
				if err := yaml.Unmarshal([]byte(text), o); err != nil {
					t.Fatal(err)
				}
				if _, err := one.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { remove(t, one, name) })
			}
			before, err := one.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			after, err := one.Patch(t.Context(), name, types.MergePatchType, []byte(tc.edit), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if after.GetGeneration() <= before.GetGeneration() {
				t.Errorf("an edit left the generation at %d, and was %d before", after.GetGeneration(), before.GetGeneration())
			}
		})
	}
	if found != len(cases) {
		t.Errorf("the space serves %d of %d resources", found, len(cases))
	}
}

// remove deletes an object and waits until it is gone.
func remove(t *testing.T, from dynamic.ResourceInterface, name string) {
	t.Helper()
	testenv.Eventually(t, patience, func() (bool, string) {
		background := metav1.DeletePropagationBackground
		err := from.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{PropagationPolicy: &background})
		return apierrors.IsNotFound(err), fmt.Sprintf("%s: %v", name, err)
	})
}
