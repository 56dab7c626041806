package e2e

import (
	"fmt"
	"testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestNamespaceStaysForAnotherWDS: a WDS that removes a Namespace from a cluster does not take the
// objects of another WDS with it.
func TestNamespaceStaysForAnotherWDS(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	for space, label := range map[string]string{"wds1": "$NAME", "wds2": "not-carried"} {
		s.create(space, namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME, labels: {story: `+label+`}}}`)
		s.create(space, controlv1alpha1.BindingPolicies, `{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy,
			metadata: {name: $NAME, annotations: {starling.io/removal-block: "off"}},
			spec: {clusterSelectors: [{matchLabels: {name: cluster1}}], downsync: [{objectSelectors: [{matchLabels: {story: $NAME}}]}]}}`)
	}
	s.create("wds2", configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: $NAME, labels: {story: $NAME}}}`)
	uid := ""
	testenv.Eventually(t, arrival, func() (bool, string) {
		obj, err := s.get("cluster1", configMaps, s.name, "theirs")
		if err != nil {
			return false, err.Error()
		}
		uid = string(obj.GetUID())
		return true, ""
	})

	s.Log("the first WDS removes the Namespace: it stays, and its policy says why")
	s.patch("wds1", namespaces, "", s.name, `{"metadata":{"labels":{"story":"not-carried"}}}`)
	s.saysOn("wds1", "cluster1: namespaces "+s.name+": stays, because 1 object in it would be deleted with it: configmaps "+s.name+`/theirs of WDS "wds2" (Binding "`+s.name+`"); remove it first, or select this object again`)
	testenv.Never(t, testenv.Held, func() string {
		obj, err := s.get("cluster1", configMaps, s.name, "theirs")
		if err != nil || string(obj.GetUID()) != uid || obj.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("the object of the other WDS: %v, %v", obj, err)
		}
		return ""
	})

	s.Log("the other WDS removes its object: the Namespace follows")
	s.remove("wds2", configMaps, s.name, "theirs")
	s.leaves("cluster1", namespaces, "", s.name)
}
