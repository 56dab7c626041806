package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/test/testenv"
)

// planned is what a test reads of the JSON of a plan.
type planned struct {
	Groups []struct {
		Clusters []string `json:"clusters"`
		Items    []struct {
			Verb string `json:"verb"`
			Kind string `json:"kind"`
			Why  string `json:"why"`
			Ref  struct {
				Name string `json:"name"`
			} `json:"object"`
		} `json:"items"`
	} `json:"groups"`
	Unknown []string `json:"unknown"`
}

// TestPlanIsWhatClustersDo plans changes, makes them, and compares what clusters have then with
// what the plan said. OCM's agents apply the objects as their options say.
func TestPlanIsWhatClustersDo(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	autoscalers := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	transforms := schema.GroupVersionResource{Group: "control.kubestellar.io", Version: "v1alpha1", Resource: "customtransforms"}
	s.namespace()
	config := func(name, annotations, data string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: $NAME, labels: {story: $NAME}, annotations: {%s}}, data: {%s}}", name, annotations, data)
	}
	server := func(name, annotations string, replicas int, image string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: $NAME, labels: {story: $NAME}, annotations: {%[2]s}}, spec: {replicas: %[3]d,
			selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: "example.com/%[4]s"}]}}}}`, name, annotations, replicas, image)
	}
	const (
		createOnly = "starling.io/apply: create-only"
		ignore     = "starling.io/ignore-fields: .spec.replicas"
		orphan     = "starling.io/on-removal: orphan"
		expand     = `control.kubestellar.io/expand-templates: "true"`
	)
	s.create("wds1", transforms, "{apiVersion: control.kubestellar.io/v1alpha1, kind: CustomTransform, metadata: {name: $NAME}, spec: {apiGroup: \"\", resource: configmaps, remove: [$.data.secretofplan]}}")
	for _, text := range []string{
		config("plain", "", "a: b"), config("once", createOnly, "a: b"), config("kept", orphan, "a: b"), config("removed", "", "a: b"),
		config("banner", expand, `a: "{{.clusterName}}"`), config("secretive", "", "a: b, secretofplan: one"),
	} {
		s.create("wds1", configMaps, text)
	}
	s.create("wds1", deployments, server("scaled", "", 1, "c:1"))
	s.create("wds1", deployments, server("ignoring", ignore, 1, "c:1"))
	s.create("wds1", autoscalers, `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: scaled, namespace: $NAME, labels: {story: $NAME}},
		spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}}}`)
	s.policy(both)
	s.applied()
	for _, name := range []string{"scaled", "ignoring"} { // the cluster owns the replicas from now on
		for _, cluster := range []string{"cluster1", "cluster2"} {
			_, err := s.space(cluster, deployments).Namespace(s.name).Patch(t.Context(), name, types.MergePatchType,
				[]byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale")
			if err != nil {
				t.Fatal(err)
			}
		}
	}

	resources := map[string]schema.GroupVersionResource{"ConfigMap": configMaps, "Deployment": deployments, "HorizontalPodAutoscaler": autoscalers}
	for _, step := range []struct {
		name, text string // what is applied,
		deletes    string // or the ConfigMap that is deleted
		want       []string
	}{
		{"an edit", config("plain", "", "a: c"), "", []string{"update ConfigMap plain"}},
		{"a create-only object", config("once", createOnly, "a: c"), "", []string{"keep ConfigMap once: kept: create-only"}},
		{"it is create-only no more", config("once", "", "a: c"), "", []string{
			"update ConfigMap once: it was create-only: the cluster may have another content, which is updated, too",
		}},
		{"only an ignored field", server("ignoring", ignore, 2, "c:1"), "", []string{"keep Deployment ignoring: kept: ignored field .spec.replicas"}},
		{"an ignored field and another", server("ignoring", ignore, 4, "c:2"), "", []string{"update Deployment ignoring: kept: ignored field .spec.replicas"}},
		{"replicas beside an autoscaler", server("scaled", "", 2, "c:1"), "", []string{"keep Deployment scaled: kept: ignored field .spec.replicas"}},
		{"replicas and an image beside an autoscaler", server("scaled", "", 1, "c:2"), "", []string{"update Deployment scaled: kept: ignored field .spec.replicas"}},
		{"a template", config("banner", expand, `a: "I am {{.clusterName}}"`), "", []string{"update ConfigMap banner"}},
		{"what a CustomTransform removes", config("secretive", "", "a: b, secretofplan: two"), "", nil},
		{"an object that is orphaned", "", "kept", []string{
			"release ConfigMap kept", "update Namespace " + s.name + ": the cluster will delete it when it leaves",
		}},
		{"an object that is deleted", "", "removed", []string{"delete ConfigMap removed"}},
		{"a new create-only object", config("new", createOnly, "a: b"), "", []string{"create ConfigMap new"}},
	} {
		s.Logf("%s", step.name)
		args, do := []string{"plan", "--delete", "configmap/" + step.deletes, "-o", "json"}, func() { s.remove("wds1", configMaps, s.name, step.deletes) }
		if step.text != "" {
			name := s.file(step.text)
			args, do = []string{"plan", "-f", name, "-o", "json"}, func() { s.fleet.Kubectl(t, "wds1", "apply", "-f", name) }
		}
		out, code := s.starling(args...)
		var plan planned
		if err := json.Unmarshal([]byte(out), &plan); err != nil {
			t.Fatalf("%s: exit code %d: %v: %s", step.name, code, err, out)
		}
		if len(plan.Unknown) > 0 {
			t.Errorf("%s: unknown %q", step.name, plan.Unknown)
		}
		before := s.inClusters(resources)
		verbs := map[string]string{} // by cluster and object
		said := map[string][]string{"cluster1": nil, "cluster2": nil}
		for _, g := range plan.Groups {
			for _, cluster := range g.Clusters {
				for _, item := range g.Items {
					line := item.Verb + " " + item.Kind + " " + item.Ref.Name
					if item.Why != "" {
						line += ": " + item.Why
					}
					said[cluster] = append(said[cluster], line)
					if item.Kind != "Namespace" { // only what becomes of it when it leaves
						verbs[cluster+" "+item.Kind+" "+item.Ref.Name] = item.Verb
					}
				}
			}
		}
		if diff := cmp.Diff(map[string][]string{"cluster1": step.want, "cluster2": step.want}, said); diff != "" {
			t.Errorf("%s: the plan (-want +got):\n%s", step.name, diff)
		}
		do()
		s.applied()
		happened := map[string]string{}
		testenv.Eventually(t, arrival, func() (bool, string) { // a cluster deletes a moment after its report
			happened = testenv.Changed(before, s.inClusters(resources))
			want := map[string]string{}
			for key, verb := range verbs {
				if verb == "create" || verb == "update" || verb == "delete" {
					want[key] = verb
				}
			}
			diff := cmp.Diff(want, happened)
			return diff == "", step.name + ": what was planned (-), what the clusters did (+):\n" + diff
		})
	}
}

// file writes YAML in which $NAME is the story's name, and returns the name of the file.
func (s *story) file(text string) string {
	s.Helper()
	name := filepath.Join(s.TempDir(), "object.yaml")
	if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "$NAME", s.name)), 0o600); err != nil {
		s.Fatal(err)
	}
	return name
}

// TestPlanOfAnotherVersion: after the storage version of a kind with a conversion webhook moved, an
// apply in the new version delivers what is not delivered until then.
func TestPlanOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	definition := func(stored string) string {
		version := func(name string) string {
			return fmt.Sprintf(`{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties:
				{spec: {type: object, properties: {same: {type: string}, in%[1]s: {type: string}}}}}}}`, name, name == stored)
		}
		return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.$NAME.example.com},
			spec: {group: $NAME.example.com, scope: Namespaced, names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget},
			conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: $NAME, name: convert}}}},
			versions: [` + version("v1alpha1") + ", " + version("v1") + `]}}`
	}
	gadget := func(version string) string {
		return s.file(`{apiVersion: $NAME.example.com/` + version + `, kind: Gadget, metadata: {name: one, namespace: $NAME, labels: {story: $NAME}}, spec: {same: x, in` + version + `: here}}`)
	}
	s.create("wds1", definitions, definition("v1alpha1"))
	gadgets := schema.GroupVersionResource{Group: s.name + ".example.com", Version: "v1alpha1", Resource: "gadgets"}
	testenv.Eventually(t, arrival, func() (bool, string) {
		_, err := s.space("wds1", gadgets).List(t.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
	s.kubectl("apply", "-f", gadget("v1alpha1"))
	s.policy(both)
	s.waitsFor("gadgets." + gadgets.Group + " " + s.name + "/one: ") // the clusters do not have the kind
	s.kubectl("apply", "-f", s.file(definition("v1")))
	s.waitsFor("it was written in version v1alpha1")
	s.starlingSays(2, []string{"plan", "-f", gadget("v1")}, "~ gadgets."+gadgets.Group+" "+s.name+"/one")
	s.kubectl("apply", "-f", gadget("v1"))
	testenv.Eventually(t, arrival, func() (bool, string) {
		errs := s.observed().Status.Errors
		return len(errs) > 0 && !strings.Contains(strings.Join(errs, ""), "it was written in version"), fmt.Sprintf("%q", errs)
	})
}

// applied waits until all that the policy of the story selects is applied in all clusters.
func (s *story) applied() {
	s.Helper()
	out, code := s.starling("rollout", "status", "policy/"+s.name, "--for=applied", "--timeout="+arrival.String())
	if code != 0 {
		s.Fatalf("it is not applied: exit code %d: %s", code, out)
	}
}

// inClusters returns what clusters have of the objects of the story, as users write them.
func (s *story) inClusters(resources map[string]schema.GroupVersionResource) map[string]map[string]any {
	s.Helper()
	all := map[string]map[string]any{}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		for kind, resource := range resources {
			list, err := s.space(cluster, resource).Namespace(s.name).List(s.Context(), metav1.ListOptions{LabelSelector: "story=" + s.name})
			if err != nil && !apierrors.IsNotFound(err) {
				s.Fatal(err)
			}
			for i := range list.Items {
				o := &list.Items[i]
				content := map[string]any{"labels": o.GetLabels(), "data": o.Object["data"], "spec": o.Object["spec"]}
				if o.GetDeletionTimestamp() == nil {
					all[cluster+" "+kind+" "+o.GetName()] = content
				}
			}
		}
	}
	return all
}

// TestSettings: the controllers publish the settings that they run with, and correct what somebody
// else writes there.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	bindings, transport := settings.Defaults()
	bindings.PackagesUser = "system:serviceaccount:starling-system:binding-controller" // it runs the controllers of packages
	for name, want := range map[string]map[string]string{settings.OfBindings: bindings.Data(), settings.OfTransport: transport.Data()} {
		correct := func() (bool, string) {
			found, err := s.get("wds1", configMaps, settings.Namespace, name)
			if err != nil {
				return false, err.Error()
			}
			data, _, err := unstructured.NestedStringMap(found.Object, "data")
			diff := cmp.Diff(want, data)
			return diff == "" && err == nil, fmt.Sprintf("%s (-want +got): %v\n%s", name, err, diff)
		}
		testenv.Eventually(t, arrival, correct)
		s.patch("wds1", configMaps, settings.Namespace, name, `{"data":{"other":"x"}}`)
		testenv.Eventually(t, arrival, correct)
	}
}
