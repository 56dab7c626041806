package e2e

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestReplaceWhileTheNamespaceTerminates: OCM reports a terminating Namespace as applied, and
// checks it again only after minutes. In one cluster an object that is deleted slowly keeps the
// Namespace of a policy's objects terminating, while another policy replaces the first one.
func TestReplaceWhileTheNamespaceTerminates(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("settings", "one")
	s.policy(both)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.arrives(cluster, "settings", "one")
	}
	s.create("cluster1", configMaps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: slow, namespace: $NAME, finalizers: [example.com/slow]}}`)
	s.Cleanup(func() { s.letGo("cluster1", "slow") })

	if err := s.space("wds1", controlv1alpha1.BindingPolicies).Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, arrival, func() (bool, string) {
		namespace, err := s.get("cluster1", namespaces, "", s.name)
		return err == nil && namespace.GetDeletionTimestamp() != nil, fmt.Sprintf("the Namespace is not terminating (%v)", err)
	})
	s.create("wds1", controlv1alpha1.BindingPolicies, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME-again}
spec:
  clusterSelectors: [`+both+`]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]`)

	s.Log("the other cluster does not wait")
	s.arrives("cluster2", "settings", "one")

	s.Log("the successor has delivered its Namespace to the terminating one")
	testenv.Eventually(t, arrival, func() (bool, string) {
		binding, err := s.get("wds1", controlv1alpha1.Bindings, "", s.name+"-again")
		if err != nil {
			return false, err.Error()
		}
		works, err := s.space("its1", manifestWorks).Namespace("cluster1").List(t.Context(), metav1.ListOptions{
			LabelSelector: controlv1alpha1.LabelBindingUID + "=" + string(binding.GetUID()),
		})
		return err == nil && len(works.Items) > 0, fmt.Sprintf("no works of the successor in the mailbox (%v)", err)
	})
	s.letGo("cluster1", "slow")
	released := time.Now()
	s.arrives("cluster1", "settings", "one")
	s.Logf("the object was in the cluster %s after its Namespace could go", time.Since(released).Round(time.Millisecond))
}

// letGo takes the finalizers from a ConfigMap of the story.
func (s *story) letGo(cluster, name string) {
	s.Helper()
	client := s.space(cluster, configMaps).Namespace(s.name)
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := client.Patch(contextOf(s.T), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err == nil || apierrors.IsNotFound(err), fmt.Sprintf("take the finalizers of %s: %v", name, err)
	})
}
