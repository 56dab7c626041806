package kindtest

import (
	"fmt"
	"maps"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// restore: the WDS and the ITS are restored from a backup into new pods and volumes. The clusters
// connect again, and nothing is created again or removed in them, although an edit and an object
// were written after the backup. The old volumes stay. Then the hold is released.
func (h *hub) restore(t *testing.T) {
	pods := h.running(t)
	h.deliver(t, "before the backup", h.prod, h.edge)
	for _, space := range []string{"wds1", "its1"} {
		h.backUp(t, space)
	}
	h.since(t, "the spaces are backed up")
	h.deliver(t, "after the backup", h.prod, h.edge)
	h.wds.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: unknown, namespace: settings, labels: {app: settings}}}`)
	before := map[*Cluster]map[string]string{}
	for _, c := range []*Cluster{h.prod, h.edge} {
		testenv.Eventually(t, patience, func() (bool, string) {
			unknown, err := c.Client(t).CoreV1().ConfigMaps("settings").Get(t.Context(), "unknown", metav1.GetOptions{})
			if err != nil {
				return false, "the ConfigMap written after the backup is not in cluster " + c.Name
			}
			// OCM's agent creates an object, and makes itself the owner in a second write.
			return len(unknown.OwnerReferences) > 0, "OCM's agent has no account of the ConfigMap in cluster " + c.Name
		})
		before[c] = h.settings(t, c)
	}

	values := h.values(h.tag)
	for _, list := range []string{"ITSes", "WDSes"} {
		spaces, _ := values[list].([]any)
		for _, space := range spaces {
			space.(map[string]any)["restore"] = map[string]any{"id": "r1", "from": "latest"} //nolint:forcetypeassert // h.values has made it
		}
	}
	h.release.upgrade(t, values)
	h.since(t, "the spaces are restored")
	// The API server of before lets a request wait for its etcd, up to a minute.
	testenv.Eventually(t, patience, func() (bool, string) {
		object, err := h.wds.Client.Resource(controlv1alpha1.Bindings).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		held := meta.FindStatusCondition(testenv.Into[controlv1alpha1.Binding](t, object).Status.Conditions, controlv1alpha1.BindingConditionHeld)
		return held != nil && held.Status == metav1.ConditionTrue && held.Reason == controlv1alpha1.ReasonHeld, "the Binding has the condition " + text(held)
	})
	// What is new arrives: the clusters have seen all restored works by then.
	h.wds.Apply(t, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: restored}
spec:
  clusterSelectors: [{matchExpressions: [{key: env, operator: In, values: [prod, edge]}]}]
  downsync: [{objectSelectors: [{matchLabels: {app: restored}}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: restored, labels: {app: restored}}
`)
	for _, c := range []*Cluster{h.prod, h.edge} {
		testenv.Eventually(t, patience, func() (bool, string) {
			_, err := c.Client(t).CoreV1().Namespaces().Get(t.Context(), "restored", metav1.GetOptions{})
			return err == nil, fmt.Sprintf("cluster %s: %v", c.Name, err)
		})
		if now := h.settings(t, c); !maps.Equal(before[c], now) {
			t.Errorf("cluster %s has %v, and had %v", c.Name, now, before[c])
		}
	}
	h.still(t, pods)
	h.since(t, "the clusters are as they were")
	for _, space := range []string{"wds1", "its1"} {
		claim, err := h.host.Client(t).CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "data-"+space+"-etcd-0", metav1.GetOptions{})
		if err != nil || claim.DeletionTimestamp != nil {
			t.Errorf("the volume of the old etcd: %v", err)
		}
	}

	for _, binding := range []string{"settings", "hello"} {
		h.wds.Patch(t, controlv1alpha1.Bindings, "", binding, `{"metadata":{"annotations":{"starling.io/hold":null}}}`)
	}
	h.arrives(t, h.prod, "before the backup")
	h.deliver(t, "after the restoration", h.prod, h.edge)
	h.still(t, pods)
}

// backUp runs the CronJob of a space now.
func (h *hub) backUp(t *testing.T, space string) {
	t.Helper()
	name := fmt.Sprintf("%s-backup-%d", space, time.Now().Unix())
	client := h.host.Client(t).BatchV1()
	cronJob, err := client.CronJobs(namespace).Get(t.Context(), space+"-backup", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	job := cronJob.Spec.JobTemplate.DeepCopy()
	if _, err := client.Jobs(namespace).Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: job.Spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		job, err := client.Jobs(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return job.Status.Succeeded > 0, fmt.Sprintf("Job %s: %s", name, text(job.Status))
	})
}

// settings returns the UIDs, versions and data of the ConfigMaps that were delivered to a cluster,
// by name.
func (h *hub) settings(t *testing.T, c *Cluster) map[string]string {
	t.Helper()
	list, err := c.Client(t).CoreV1().ConfigMaps("settings").List(t.Context(), metav1.ListOptions{LabelSelector: "app=settings"})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for i := range list.Items {
		configMap := &list.Items[i]
		all[configMap.Name] = stateOf(configMap)
	}
	return all
}

func stateOf(c *corev1.ConfigMap) string {
	return fmt.Sprintf("%s %s %v", c.UID, c.ResourceVersion, c.Data)
}
