package plan_test

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// TestUnread: which failures say that the agent may be unable to read the object as well.
func TestUnread(t *testing.T) {
	quota := objref.Ref{Resource: "resourcequotas", Namespace: "web", Name: "q"}
	for message, want := range map[string]bool{
		`the server doesn't have a resource type "Widget"`:                                                                                             true,
		`widgets.example.com "w" is forbidden: User "agent" cannot patch resource "widgets" in API group "example.com"`:                                true,
		`conversion webhook for example.com/v1, Kind=Widget failed: Post "https://x": service "x" not found`:                                           true,
		`Get "https://10.0.0.1:443/api": dial tcp 10.0.0.1:443: connect: connection refused`:                                                           true,
		`Internal error occurred: failed calling webhook "x": Post "https://x": dial tcp 10.0.0.2:443: connect: connection refused`:                    false,
		`pods "x" is forbidden: violates PodSecurity "restricted:latest"`:                                                                              false,
		`pods "x" is forbidden: exceeded quota: q`:                                                                                                     false,
		`clusterroles.rbac.authorization.k8s.io "r" is forbidden: user "agent" (groups=[]) is attempting to grant RBAC permissions not currently held`: false,
		`Service "x" is invalid: spec.clusterIP: Invalid value: field is immutable`:                                                                    false,
		`Deployment.apps "web" is invalid: spec.template.spec.containers[0].livenessProbe.timeoutSeconds: Invalid value: 0: must be greater than 0`:    false,
		`admission webhook "validation.istio.io" denied the request: http timeout must be a valid duration greater than 1ms`:                           false,
		`widgets.example.com "w" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: dial tcp is not the way`:                 false,
	} {
		item := plan.Item{Ref: widget, State: plan.Failed, Message: "Failed to apply manifest: " + message}
		if got := item.Unread(); got != want {
			t.Errorf("%s: got %t, want %t", message, got, want)
		}
	}
	message := `resourcequotas "q" is forbidden: User "agent" cannot patch resource "resourcequotas" in API group "" in the namespace "web"`
	if item := (plan.Item{Ref: quota, State: plan.Failed, Message: message}); item.Unread() {
		t.Error("the agent may read all ResourceQuotas")
	}
}

// TestDenied: the text of a webhook or policy of a cluster is anybody's. Nothing follows from its
// words.
func TestDenied(t *testing.T) {
	for _, said := range []string{
		`admission webhook "freeze.example.com" denied the request: `, `deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: `,
	} {
		for _, words := range []string{
			"updates to production workloads are frozen until Monday", "the field is immutable", "the server doesn't have a resource type for that",
			"object is being deleted", "no timeout", `Apply failed with 1 conflict: conflict with "kubectl"`, `namespaces "x" not found`,
		} {
			item := plan.Item{
				Ref: nginx, State: plan.Failed, Message: "Failed to apply manifest: " + said + words,
				Options: plan.Options{IgnoredFields: ".spec.replicas", Stage: plan.Stage{Begun: true, By: ".spec.replicas"}},
			}
			got := map[string]bool{
				"immutable": plan.IsImmutable(item.Message), "not served": item.NotServed(), "unread": item.Unread(), "transient": item.Transient(), "passed": item.Passed(),
			}
			for what, is := range got {
				if is {
					t.Errorf("%s: taken for %s", item.Message, what)
				}
			}
		}
	}
}
