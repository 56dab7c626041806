package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestHandOver lets an object pass to and fro between two policies, by its own label and by that of its cluster: it is never made anew.
func TestHandOver(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("settings", "one")
	s.labelCluster("cluster1", map[string]string{"story-" + s.name: "a"})
	s.patch("wds1", configMaps, s.name, "settings", `{"metadata":{"labels":{"to":"a"}}}`)
	for _, side := range []string{"a", "b"} {
		// One of each pair follows the object's label, the other the cluster's.
		s.create("wds1", controlv1alpha1.BindingPolicies, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME-%[1]s}
spec:
  clusterSelectors: [{matchLabels: {name: cluster2}}]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME, to: %[1]s}}]
  - {resources: [namespaces], objectSelectors: [{matchLabels: {story: $NAME}}]}`, side))
		s.create("wds1", controlv1alpha1.BindingPolicies, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME-cluster-%[1]s}
spec:
  clusterSelectors: [{matchLabels: {story-$NAME: %[1]s}}]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]`, side))
	}
	before := map[string]metav1.Object{}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		before[cluster] = s.arrives(cluster, "settings", "one")
	}
	for i := range 10 {
		side := []string{"b", "a"}[i%2]
		value := fmt.Sprint("round ", i)
		s.patch("wds1", configMaps, s.name, "settings", fmt.Sprintf(`{"metadata":{"labels":{"to":%q}}}`, side))
		s.labelCluster("cluster1", map[string]string{"story-" + s.name: side})
		s.patch("wds1", configMaps, s.name, "settings", fmt.Sprintf(`{"data":{"key":%q}}`, value))
		for cluster, was := range before {
			if now := s.arrives(cluster, "settings", value); now.GetUID() != was.GetUID() {
				t.Fatalf("round %d: the object in %s was deleted and made anew", i, cluster)
			}
		}
	}
}
