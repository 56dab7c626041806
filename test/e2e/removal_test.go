package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestOrphanWhileAway: an option of a removal is in force when the cluster says so. What is to stay
// in the clusters stays there, also if the option and the deletion come while a cluster is away:
// the removal waits, and says for which cluster.
func TestOrphanWhileAway(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	s.namespace()
	for _, name := range []string{"kept", "rest", "own"} {
		s.configMap(name, "one")
	}
	s.policy(both)
	was := map[string]types.UID{}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		for _, name := range []string{"kept", "rest", "own"} {
			was[cluster+"/"+name] = s.arrives(cluster, name, "one").GetUID()
		}
	}
	s.isReady()
	annotate := func(option string) {
		t.Helper()
		s.patch("wds1", controlv1alpha1.BindingPolicies, "", s.name, fmt.Sprintf(`{"metadata":{"annotations":{"starling.io/on-removal":%q}}}`, option))
	}
	resume := s.fleet.Pause(t, "cluster2/klusterlet")

	s.Log("an object is annotated, and deleted")
	s.patch("wds1", configMaps, s.name, "kept", `{"metadata":{"annotations":{"starling.io/on-removal":"orphan"}}}`)
	testenv.Eventually(t, arrival, func() (bool, string) {
		return s.orphansIn("cluster2", "kept"), "the work of cluster2 does not say that the object is to be orphaned"
	})
	s.drop(configMaps, s.name, "kept")
	s.waitsFor("cluster2: configmaps " + s.name + "/kept stays until the cluster has reported that it will keep the object")

	s.Log("the policy is annotated, and deleted; one object has an annotation of its own")
	s.patch("wds1", configMaps, s.name, "own", `{"metadata":{"annotations":{"starling.io/on-removal":"delete"}}}`)
	annotate("orphan")
	s.drop(controlv1alpha1.BindingPolicies, "", s.name)
	s.waitsFor("cluster2: configmaps " + s.name + "/rest stays until the cluster has reported that it will keep the object")
	s.leaves("cluster1", configMaps, s.name, "own")

	s.Log("the cluster comes back")
	resume()
	s.leaves("wds1", controlv1alpha1.BindingPolicies, "", s.name)
	s.leaves("cluster2", configMaps, s.name, "own")
	for _, cluster := range []string{"cluster1", "cluster2"} {
		for _, name := range []string{"kept", "rest"} {
			obj, err := s.get(cluster, configMaps, s.name, name)
			if err != nil || obj.GetUID() != was[cluster+"/"+name] || len(obj.GetOwnerReferences()) > 0 {
				t.Errorf("%s has %s as %v: %v", cluster, name, obj, err)
			}
		}
	}

	for _, cluster := range []string{"cluster1", "cluster2"} { // what no policy has any more
		s.remove(cluster, namespaces, "", s.name)
	}
}

// TestSiblingOfAMissingKind: a custom resource whose kind a cluster lacks does not keep the other
// objects of its policy from being deleted there.
func TestSiblingOfAMissingKind(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("goes", "one")
	s.configMap("stays", "one")
	s.custom("Sibling", "not-carried", "missing")
	s.policy(both)
	s.arrives("cluster1", "goes", "one")
	s.waitsFor(`siblings.` + s.name + `.example.com ` + s.name + `/missing: the server doesn't have a resource type`)
	s.drop(configMaps, s.name, "goes")
	s.leaves("cluster1", configMaps, s.name, "goes")
	s.arrives("cluster1", "stays", "one")
}

// TestForbiddenSibling: while the agent of a cluster may not read one object of a ManifestWork, it
// neither deletes what leaves nor records what comes. The policy says so, and when the agent may,
// nothing is left behind: also not what came and left meanwhile. Only custom resources of the same
// API group are in a ManifestWork with what the agent may not read.
func TestForbiddenSibling(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	mayWrite := func(resource string) {
		s.create("cluster1", grouped("rbac.authorization.k8s.io", "clusterroles"), `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
			metadata: {name: $NAME-`+resource+`, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
			rules: [{apiGroups: [$NAME.example.com], resources: [`+resource+`], verbs: ["*"]}]}`)
	}
	mayWrite("cousins")
	s.namespace()
	s.configMap("apart", "one")
	cousins := s.custom("Cousin", "$NAME", "before")
	siblings := s.custom("Sibling", "$NAME", "forbidden")
	s.policy("{matchLabels: {name: cluster1}}")
	s.arrives("cluster1", "apart", "one")
	s.comes("cluster1", cousins, "before")
	forbidden := siblings.Resource + "." + siblings.Group + " " + s.name + "/forbidden"
	s.waitsFor(forbidden + ": ")
	s.create("wds1", cousins, `{apiVersion: $NAME.example.com/v1, kind: Cousin, metadata: {name: meanwhile, namespace: $NAME, labels: {story: $NAME}}}`)
	s.comes("cluster1", cousins, "meanwhile")
	for _, name := range []string{"before", "meanwhile"} {
		s.drop(cousins, s.name, name)
		s.waitsFor("cluster1: " + cousins.Resource + "." + cousins.Group + " " + s.name + "/" + name + " is not removed while the cluster's agent cannot read " + forbidden)
	}
	s.drop(configMaps, s.name, "apart")
	s.leaves("cluster1", configMaps, s.name, "apart")

	s.Log("the agent may read it")
	mayWrite("siblings")
	s.leaves("cluster1", cousins, s.name, "before")
	s.leaves("cluster1", cousins, s.name, "meanwhile")
	s.isReady()
	s.remove("wds1", controlv1alpha1.BindingPolicies, "", s.name) // and while it may
}

// comes waits until a cluster has an object of the story's Namespace.
func (s *story) comes(cluster string, gvr schema.GroupVersionResource, name string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := s.get(cluster, gvr, s.name, name)
		return err == nil, fmt.Sprint(err)
	})
}

// custom creates a custom resource of the story, and its CustomResourceDefinition with that value
// of the label of stories.
func (s *story) custom(kind, label, name string) schema.GroupVersionResource {
	s.Helper()
	singular := strings.ToLower(kind)
	s.create("wds1", definitions, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: `+singular+`s.$NAME.example.com, labels: {story: `+label+`}},
		spec: {group: $NAME.example.com, scope: Namespaced, names: {kind: `+kind+`, listKind: `+kind+`List, plural: `+singular+`s, singular: `+singular+`},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`)
	resource := schema.GroupVersionResource{Group: s.name + ".example.com", Version: "v1", Resource: singular + "s"}
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := s.space("wds1", resource).List(s.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	})
	s.create("wds1", resource, `{apiVersion: $NAME.example.com/v1, kind: `+kind+`, metadata: {name: `+name+`, namespace: $NAME, labels: {story: $NAME}}}`)
	return resource
}

// drop deletes an object of the WDS, and does not wait until it is gone.
func (s *story) drop(gvr schema.GroupVersionResource, namespace, name string) {
	s.Helper()
	if err := s.space("wds1", gvr).Namespace(namespace).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
}

// waitsFor waits until the policy says what it waits for.
func (s *story) waitsFor(text string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		policy, err := s.get("wds1", controlv1alpha1.BindingPolicies, "", s.name)
		if err != nil {
			return false, err.Error()
		}
		said, err := policy.MarshalJSON()
		return err == nil && strings.Contains(string(said), text), fmt.Sprintf("want %q, got %s (%v)", text, said, err)
	})
}

// orphansIn reports whether the works for a cluster say that a ConfigMap of the story is to be
// orphaned.
func (s *story) orphansIn(cluster, name string) bool {
	s.Helper()
	list, err := s.space("its1", manifestWorks).Namespace(cluster).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		raw, err := list.Items[i].MarshalJSON()
		if err == nil && strings.Contains(string(raw), fmt.Sprintf(`{"group":"","name":%q,"namespace":%q,"resource":"configmaps"}`, name, s.name)) {
			return true
		}
	}
	return false
}
