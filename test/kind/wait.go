package kindtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/starlinghq/starling/test/testenv"
)

// waitForNode blocks until the node is Ready: kind only warns if it is not.
func (c *Cluster) waitForNode(t testing.TB) {
	t.Helper()
	client := c.Client(t)
	testenv.Eventually(t, patience, func() (bool, string) {
		nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, node := range nodes.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
					return false, fmt.Sprintf("node %q is not Ready: %s", node.Name, condition.Message)
				}
			}
		}
		return len(nodes.Items) > 0, "there is no node"
	})
}

// Client returns a client of the cluster.
func (c *Cluster) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// WaitForDeployment blocks until all replicas of a Deployment are available. What pods say that are
// not ready is in the log of the test.
func (c *Cluster) WaitForDeployment(t testing.TB, namespace, name string) {
	t.Helper()
	client := c.Client(t)
	testenv.Eventually(t, patience, func() (bool, string) {
		d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if isAvailable(d) {
			return true, ""
		}
		return false, fmt.Sprintf("Deployment %q has %d available replicas of %d%s",
			name, d.Status.AvailableReplicas, replicas(d), notReady(t, client, d))
	})
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func isAvailable(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == replicas(d) && s.AvailableReplicas == replicas(d) && s.Replicas == replicas(d)
}

// notReady returns why pods of a Deployment are not ready.
func notReady(t testing.TB, client kubernetes.Interface, d *appsv1.Deployment) string {
	t.Helper()
	pods, err := client.CoreV1().Pods(d.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
	if err != nil {
		return ": " + err.Error()
	}
	var why strings.Builder
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				fmt.Fprintf(&why, "; pod %q: %s", pod.Name, condition.Message)
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if waiting := container.State.Waiting; waiting != nil {
				fmt.Fprintf(&why, "; pod %q: %s %s", pod.Name, waiting.Reason, waiting.Message)
			} else if ended := container.State.Terminated; ended != nil {
				fmt.Fprintf(&why, "; pod %q: ended with code %d", pod.Name, ended.ExitCode)
			}
		}
	}
	return why.String()
}

// until blocks until check returns ok, like testenv.Eventually, for goroutines that may not end a
// test. The error is the last reason.
func until(ctx context.Context, check func() (ok bool, reason string)) error {
	var reason string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (ok bool, _ error) {
		ok, reason = check()
		return ok, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, reason)
	}
	return nil
}
