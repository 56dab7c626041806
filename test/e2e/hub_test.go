package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

var services = schema.GroupVersionResource{Version: "v1", Resource: "services"}

// balanced begins a story with a Service whose status nobody in the clusters writes but the test:
// it goes to the clusters that the selector selects, and its status comes back.
func balanced(t *testing.T, selector string) *story {
	t.Helper()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.create("wds1", services, `
apiVersion: v1
kind: Service
metadata: {name: door, namespace: $NAME, labels: {story: $NAME}}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}`)
	s.create("wds1", controlv1alpha1.BindingPolicies, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME}
spec:
  clusterSelectors: [`+selector+`]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]
    wantSingletonReportedState: true`)
	return s
}

// address sets the status of the Service in a cluster, as a load balancer would.
func (s *story) address(cluster, ip string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := s.get(cluster, services, s.name, "door")
		return err == nil, fmt.Sprint(err)
	})
	s.patchStatus(cluster, services, s.name, "door", `{"status":{"loadBalancer":{"ingress":[{"ip":"`+ip+`","ipMode":"VIP"}]}}}`)
}

// shows waits until the WDS has that address; "" is none.
func (s *story) shows(ip string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		got := s.shown()
		return got == ip, fmt.Sprintf("the WDS has address %q, want %q", got, ip)
	})
}

func (s *story) shown() string {
	s.Helper()
	return s.shownIn("wds1")
}

func (s *story) shownIn(space string) string {
	s.Helper()
	obj, err := s.get(space, services, s.name, "door")
	if err != nil {
		s.Fatal(err)
	}
	ingress, _, err := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
	if err != nil || len(ingress) == 0 {
		return ""
	}
	first, _ := ingress[0].(map[string]any)
	return fmt.Sprint(first["ip"])
}

// keeps expects that the WDS never shows another address while something is done.
func (s *story) keeps(ip string) (done func()) {
	s.Helper()
	watcher, err := s.space("wds1", services).Namespace(s.name).Watch(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return func() {
		s.Helper()
		watcher.Stop()
		for event := range watcher.ResultChan() {
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			ingress, _, err := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
			if err != nil || len(ingress) == 0 || !strings.Contains(fmt.Sprint(ingress[0]), ip) {
				s.Errorf("the address became %v (%v), and nothing had changed in the cluster", ingress, err)
			}
		}
	}
}

// TestSingletonMoves: an object that moves to another cluster takes the status of that one.
func TestSingletonMoves(t *testing.T) {
	t.Parallel()
	s := balanced(t, `{matchLabels: {name: cluster1}}`)
	s.address("cluster1", "192.0.2.1")
	s.shows("192.0.2.1")
	s.patch("wds1", controlv1alpha1.BindingPolicies, "", s.name, `{"spec":{"clusterSelectors":[{"matchLabels":{"name":"cluster2"}}]}}`)
	s.address("cluster2", "192.0.2.2")
	s.shows("192.0.2.2")
	s.leaves("cluster1", services, s.name, "door")
	if got := s.shown(); got != "192.0.2.2" {
		t.Errorf("the address is %q after the object left the first cluster", got)
	}
}

// TestHubIsCutOff: a change in a cluster while its hub does not answer is reported when the hub
// answers again.
func TestHubIsCutOff(t *testing.T) {
	s := balanced(t, `{matchLabels: {name: cluster1}}`)
	s.address("cluster1", "192.0.2.1")
	s.shows("192.0.2.1")
	done := s.keeps("192.0.2.1")
	resume := s.fleet.Pause(t, "its1/kube-apiserver")
	s.address("cluster1", "192.0.2.9")
	s.address("cluster1", "192.0.2.3")
	testenv.Never(t, 5*time.Second, func() string {
		if got := s.shown(); got != "192.0.2.1" {
			return "the address is " + got + ", and the hub does not answer"
		}
		return ""
	})
	done()
	resume()
	s.shows("192.0.2.3")
	s.isReady()
}

// TestAgentIsKilled: a change while the agent does not run is reported after it has started again.
// Until then the last report stays.
func TestAgentIsKilled(t *testing.T) {
	t.Parallel()
	s := balanced(t, `{matchLabels: {name: cluster1}}`)
	s.address("cluster1", "192.0.2.1")
	s.shows("192.0.2.1")
	done := s.keeps("192.0.2.1")
	s.fleet.Restart(t, "cluster1/status-agent")
	done()
	s.fleet.Kill(t, "cluster1/status-agent")
	s.address("cluster1", "192.0.2.4")
	s.shows("192.0.2.4")
}

// TestWorkStatusIsDeleted: a report that somebody deletes is made again.
func TestWorkStatusIsDeleted(t *testing.T) {
	t.Parallel()
	s := balanced(t, `{matchLabels: {name: cluster1}}`)
	s.address("cluster1", "192.0.2.1")
	s.shows("192.0.2.1")
	reports := s.space("its1", controlv1alpha1.WorkStatuses).Namespace("cluster1")
	list, err := reports.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleted := 0
	for i := range list.Items {
		ref, _, _ := unstructured.NestedStringMap(list.Items[i].Object, "spec", "sourceRef")
		if ref["namespace"] == s.name {
			deleted++
			if err := reports.Delete(t.Context(), list.Items[i].GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if deleted != 1 {
		t.Fatalf("deleted %d reports on the story's Service", deleted)
	}
	s.address("cluster1", "192.0.2.5")
	s.shows("192.0.2.5")
}
