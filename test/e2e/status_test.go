package e2e

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

func TestStatusComesBack(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.create("wds1", deployments, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: $NAME, labels: {story: $NAME}}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec: {containers: [{name: server, image: "example.com/server:1"}]}`)
	s.returning("")

	s.available("server", 2)
	obj, err := s.get("wds1", deployments, s.name, "server")
	if err != nil {
		t.Fatal(err)
	}
	if got := obj.GetLabels()[controlv1alpha1.LabelSingletonStatus]; got != "true" {
		t.Errorf("label %s is %q, want true", controlv1alpha1.LabelSingletonStatus, got)
	}
	s.isReady()

	s.Log("the status follows, and what comes back causes no new delivery")
	s.patch("wds1", deployments, s.name, "server", `{"spec":{"replicas":3}}`)
	s.available("server", 3)
	delivered, err := s.get("cluster1", deployments, s.name, "server")
	if err != nil {
		t.Fatal(err)
	}
	if _, there := delivered.GetLabels()[controlv1alpha1.LabelSingletonStatus]; there {
		t.Errorf("the cluster got our label %s", controlv1alpha1.LabelSingletonStatus)
	}

	s.Log("what is well, and what is not, shows on the policy")
	health := func(reason, healthy string, problems int) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			policy := s.observed()
			c, rollup := meta.FindStatusCondition(policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionHealthy), policy.Status.Rollup
			return c != nil && rollup != nil && c.Reason == reason && rollup.HealthyOf == healthy && len(policy.Status.Problems) == problems,
				fmt.Sprintf("want %s %s, status %+v, %+v", reason, healthy, policy.Status, rollup)
		})
	}
	health("Healthy", "2/2", 0)
	s.patch("wds1", deployments, s.name, "server",
		`{"spec":{"progressDeadlineSeconds":1,"template":{"spec":{"nodeSelector":{"no":"such"}}}}}`)
	health("Unhealthy", "1/2", 1)
	s.patch("wds1", deployments, s.name, "server", `{"spec":{"template":{"spec":{"nodeSelector":null}}}}`)
	health("Healthy", "2/2", 0)

	s.Log("it is cleared when no longer wanted")
	s.remove("wds1", controlv1alpha1.BindingPolicies, "", s.name)
	s.available("server", 0)
}
