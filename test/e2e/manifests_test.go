package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// manifests are what people install with kubectl, in the order in which they apply it: the kinds of
// kube-prometheus, cert-manager, Istio's base and Argo CD, each reduced to what is particular about
// it.
var manifests = []string{"kube-prometheus-setup", "cert-manager", "istio-base", "argocd", "kube-prometheus"} //nolint:gochecknoglobals // a constant

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// TestInstallManifests: the manifests of well-known programs, applied to a WDS as they are, get to
// two clusters as they were written, and their status returns. The WDS does not act on them: it
// serves everybody as before, and all of it can be deleted again.
func TestInstallManifests(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	clusters := []string{"shelf1", "shelf2"}
	for _, cluster := range clusters { // their own: a part of the manifests concerns whole clusters
		s.addCluster(cluster, "--labels", "story="+s.name)
		t.Cleanup(func() { s.removeCluster(cluster) })
	}
	// It goes after what only it lets the agents delete.
	s.create("wds1", clusterRoles, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: $NAME
  labels: {release: mesh, open-cluster-management.io/aggregate-to-work: "true"}
rules: [{apiGroups: [monitoring.example.com], resources: ["*"], verbs: ["*"]}]`)
	s.create("wds1", controlv1alpha1.BindingPolicies, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME}
spec:
  clusterSelectors: [{matchLabels: {story: $NAME}}]
  downsync:
  - objectSelectors: &programs
    - matchLabels: {app.kubernetes.io/part-of: kube-prometheus}
    - matchLabels: {app.kubernetes.io/instance: certificates}
    - matchLabels: {release: mesh}
    - matchLabels: {app.kubernetes.io/part-of: delivery}
  - {apiGroup: apps, objectSelectors: *programs, wantMultiWECReportedState: true}
  - {namespaces: [kube-system], objectSelectors: *programs}
  - {resources: [namespaces], objectNames: [kube-monitoring, delivery]}
  - {apiGroup: apiextensions.k8s.io, objectNames: [probers.monitoring.example.com, alertrules.monitoring.example.com]}`)

	s.Log("kubectl apply takes all of it, and what is not delivered is said")
	s.kubectl("create", "namespace", "delivery")
	t.Cleanup(func() { s.unapply(clusters) })
	for _, name := range manifests {
		s.apply(name)
	}
	s.isApplied()
	testenv.Eventually(s, arrival, func() (bool, string) { // Applied may be of before the last ones
		var all []string
		for _, cluster := range clusters {
			for _, name := range manifests {
				all = append(all, s.differences(cluster, name)...)
			}
		}
		return len(all) == 0, strings.Join(all, "\n")
	})

	s.Log("the status of the clusters returns")
	s.returned("kube-monitoring", "adapter", 2)
	s.returned("delivery", "delivery-server", 1)

	s.Log("the WDS does not act: no webhook and no token, and Namespaces can be deleted")
	s.carries()
}

// isApplied waits until all that is delivered is applied. The policy is not Ready: it says that the
// APIService is not delivered.
func (s *story) isApplied() {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		policy := s.observed()
		applied := meta.FindStatusCondition(policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionApplied)
		if applied == nil || applied.Status != metav1.ConditionTrue {
			return false, fmt.Sprintf("Applied is %v; errors %q", applied, policy.Status.Errors)
		}
		return strings.Contains(strings.Join(policy.Status.Errors, "\n"), "apiservices"), fmt.Sprintf("errors %q", policy.Status.Errors)
	})
}

// kubectl runs kubectl on the WDS.
func (s *story) kubectl(args ...string) string {
	s.Helper()
	return s.fleet.Kubectl(s, "wds1", args...)
}

func manifestFile(name string) string { return filepath.Join("testdata", "manifests", name+".yaml") }

// apply applies manifests, once more while a kind that they define is not served yet.
func (s *story) apply(name string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := s.fleet.Run("kubectl", "--", "--context", "wds1", "apply", "-f", manifestFile(name))
		if err != nil && !strings.Contains(err.Error(), "no matches for kind") {
			s.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
}

// unapply deletes all of it, also a Namespace whose name begins as those of Kubernetes do.
func (s *story) unapply(clusters []string) {
	s.Helper()
	for _, name := range slices.Backward(manifests) {
		s.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", manifestFile(name))
	}
	s.kubectl("delete", "--ignore-not-found", "--wait=false", "namespace", "delivery")
	for _, name := range []string{"kube-monitoring", "certificates", "mesh-system", "delivery"} {
		s.leaves("wds1", namespaces, "", name)
		for _, cluster := range clusters {
			s.leaves(cluster, namespaces, "", name)
		}
	}
}

// read returns the objects of manifests, those of lists one by one.
func (s *story) read(name string) []unstructured.Unstructured {
	s.Helper()
	file, err := os.Open(manifestFile(name))
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	var all []unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		obj := unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			s.Fatal(err)
		}
		if !obj.IsList() {
			all = append(all, obj)
			continue
		}
		if err := obj.EachListItem(func(item runtime.Object) error {
			all = append(all, *item.(*unstructured.Unstructured)) //nolint:forcetypeassert // items of an Unstructured
			return nil
		}); err != nil {
			s.Fatal(err)
		}
	}
}

// differences returns how a cluster differs from the manifests: each field of each object is to be
// there, except those that are not delivered.
func (s *story) differences(cluster, name string) (differences []string) {
	s.Helper()
	say := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	for _, written := range s.read(name) {
		gvr, _ := meta.UnsafeGuessKindToResource(written.GroupVersionKind())
		where := fmt.Sprintf("%s: %s %s", cluster, written.GetKind(), written.GetName())
		obj, err := s.get(cluster, gvr, written.GetNamespace(), written.GetName())
		if gvr == apiServices {
			if !apierrors.IsNotFound(err) {
				say("%s: an APIService is not delivered: %v", where, err)
			}
			continue
		}
		if err != nil {
			say("%s: %v", where, err)
			continue
		}
		want := written.Object
		if _, aggregates := want["aggregationRule"]; aggregates {
			delete(want, "rules") // the cluster makes them
		}
		if text, found, _ := unstructured.NestedMap(want, "stringData"); found {
			for key := range text {
				if _, found, _ := unstructured.NestedString(obj.Object, "data", key); !found {
					say("%s has no key %s", where, key)
				}
			}
			delete(want, "stringData")
		}
		if missing := missingFrom(want, obj.Object, ""); len(missing) > 0 {
			say("%s differs from what was written at %v", where, missing)
		}
	}
	return differences
}

// missingFrom returns the paths of the fields of want that got does not have. The API server fills
// in others, and does not store empty maps and lists.
func missingFrom(want, got any, path string) []string {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := got.(map[string]any)
		var missing []string
		for key, value := range want {
			missing = append(missing, missingFrom(value, fields[key], path+"."+key)...)
		}
		return missing
	case []any:
		items, _ := got.([]any)
		if len(items) != len(want) {
			return []string{path}
		}
		var missing []string
		for i, value := range want {
			missing = append(missing, missingFrom(value, items[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
		return missing
	default:
		if fmt.Sprint(want) != fmt.Sprint(got) {
			return []string{path}
		}
		return nil
	}
}

// returned waits until a Deployment in the WDS has this many available replicas, which both
// clusters have.
func (s *story) returned(namespace, name string, available int64) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		obj, err := s.get("wds1", deployments, namespace, name)
		if err != nil {
			return false, err.Error()
		}
		got, _, _ := unstructured.NestedInt64(obj.Object, "status", "availableReplicas")
		return got == available, fmt.Sprintf("Deployment %s has %d available replicas in the WDS, want %d", name, got, available)
	})
}

// carries fails the test if the WDS acts on what was applied.
func (s *story) carries() {
	s.Helper()
	s.create("wds1", schema.GroupVersionResource{Group: "certs.example.com", Version: "v1", Resource: "certs"},
		`{apiVersion: certs.example.com/v1, kind: Cert, metadata: {name: web, namespace: certificates}, spec: {secretName: web}}`)
	s.create("wds1", schema.GroupVersionResource{Group: "mesh.example.com", Version: "v1beta1", Resource: "routes"},
		`{apiVersion: mesh.example.com/v1beta1, kind: Route, metadata: {name: web, namespace: mesh-system}, spec: {hosts: [web]}}`)
	if _, err := s.fleet.Run("kubectl", "--", "--context", "wds1", "create", "token", "delivery-server", "-n", "delivery"); err == nil {
		s.Error("a WDS has issued a token for a ServiceAccount of a workload")
	}
	s.create("wds1", namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME-empty}}`)
	s.remove("wds1", namespaces, "", s.name+"-empty")
	list, err := s.space("wds1", controlv1alpha1.BindingPolicies).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		policy := testenv.Into[controlv1alpha1.BindingPolicy](s.T, &list.Items[i])
		if synced := meta.FindStatusCondition(policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionSynced); synced != nil && synced.Status == metav1.ConditionUnknown {
			s.Errorf("BindingPolicy %s: Synced is Unknown: %s", policy.Name, synced.Message)
		}
	}
}
