package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestDefinitionStaysForAnotherWDS: a WDS that removes a CustomResourceDefinition from a cluster
// does not take the objects of another WDS with it.
func TestDefinitionStaysForAnotherWDS(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	const group = "definitions.example.org"
	gadgets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "gadgets"}
	s.create("cluster1", grouped("rbac.authorization.k8s.io", "clusterroles"), `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
		metadata: {name: $NAME, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
		rules: [{apiGroups: [`+group+`], resources: ["*"], verbs: ["*"]}]}`)
	for space, label := range map[string]string{"wds1": "$NAME", "wds2": "not-carried"} {
		s.create(space, definitions, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.`+group+`, labels: {story: `+label+`}},
			spec: {group: `+group+`, scope: Cluster, names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}, versions: [
			{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}}}}}}}]}}`)
	}
	for _, space := range []string{"wds1", "wds2"} {
		s.create(space, controlv1alpha1.BindingPolicies, `{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy,
			metadata: {name: $NAME, annotations: {starling.io/removal-block: "off"}},
			spec: {clusterSelectors: [{matchLabels: {name: cluster1}}], downsync: [{objectSelectors: [{matchLabels: {story: $NAME}}]}]}}`)
	}
	testenv.Eventually(t, arrival, func() (bool, string) {
		_, err := s.space("wds2", gadgets).Create(t.Context(), testenv.Parse(t, `{apiVersion: `+group+`/v1, kind: Gadget, metadata: {name: theirs, labels: {story: `+s.name+`}}, spec: {size: "1"}}`), metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	uid := ""
	testenv.Eventually(t, arrival, func() (bool, string) {
		obj, err := s.get("cluster1", gadgets, "", "theirs")
		if err != nil {
			return false, err.Error()
		}
		uid = string(obj.GetUID())
		return true, ""
	})

	s.Log("the first WDS removes the definition: it stays, and its policy says why")
	s.patch("wds1", definitions, "", "gadgets."+group, `{"metadata":{"labels":{"story":"not-carried"}}}`)
	s.saysOn("wds1", "cluster1: customresourcedefinitions.apiextensions.k8s.io gadgets."+group+`: stays, because 1 object of its kind would be deleted with it: gadgets.`+group+` theirs of WDS "wds2" (Binding "`+s.name+`"); remove it first, or select this object again`)
	testenv.Never(t, testenv.Held, func() string {
		obj, err := s.get("cluster1", gadgets, "", "theirs")
		if err != nil || string(obj.GetUID()) != uid || obj.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("the object of the other WDS: %v, %v", obj, err)
		}
		return ""
	})

	s.Log("the other WDS removes its object: the definition follows")
	s.remove("wds2", gadgets, "", "theirs")
	s.leaves("cluster1", definitions, "", "gadgets."+group)
}
