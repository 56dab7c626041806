package binding

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

func managedCluster(name string, accepted bool, labels map[string]string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted},
	}
}

func TestInventory(t *testing.T) {
	known := map[string]map[string]string{}
	v := newInventory([]Inventory{{Name: "its1"}, {Name: "its2"}}, clock.RealClock{}, func(name string, labels map[string]string, accepted bool) {
		if accepted {
			known[name] = labels
		} else {
			delete(known, name)
		}
	}, nil)
	defer v.marks.ShutDown()
	first, second := map[string]string{"its": "1"}, map[string]string{"its": "2"}
	deleting := managedCluster("leaving", true, first)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	since := func(c *clusterv1.ManagedCluster, seconds int64) *clusterv1.ManagedCluster {
		c.CreationTimestamp = metav1.Unix(seconds, 0)
		return c
	}
	refused := since(managedCluster("refused", true, first), 1)
	refused.Status.Conditions = []metav1.Condition{{Type: controlv1alpha1.ManagedClusterConditionNameTaken, Status: metav1.ConditionTrue}}

	v.set(0, since(managedCluster("both", true, first), 2))
	v.set(1, since(managedCluster("both", true, second), 1))
	v.set(0, managedCluster("pending", false, first))
	v.set(0, deleting)
	v.set(0, refused)
	v.set(1, managedCluster("other", true, second))
	if diff := cmp.Diff(map[string]map[string]string{"both": second, "other": second}, known); diff != "" {
		t.Errorf("destinations (-want +got):\n%s", diff)
	}

	v.remove(1, managedCluster("both", true, second))
	if diff := cmp.Diff(first, known["both"]); diff != "" {
		t.Errorf("the cluster of the other inventory takes over (-want +got):\n%s", diff)
	}
	v.remove(1, managedCluster("other", true, second))

	if v.setRead(0) {
		t.Error("all are read, but one is not")
	}
	for name, want := range map[string]bool{"both": false, "pending": false, "other": false, "never-seen": true, "refused": true} {
		if got := v.unread(name); got != want {
			t.Errorf("unread(%s) = %t, want %t", name, got, want)
		}
	}
	if diff := cmp.Diff([]string{"inventory its2"}, v.missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if _, ok := known["refused"]; ok {
		t.Error("a cluster that was refused is a destination, though an inventory is unread that may hold the one that bears its name")
	}
	if !v.setRead(1) || v.unread("never-seen") || v.missing() != nil {
		t.Error("all are read, and something is said to be missing")
	}
	if _, ok := known["refused"]; !ok {
		t.Error("nobody else bears the name, and the cluster is still refused")
	}
}

func TestKeepDestination(t *testing.T) {
	full := managedCluster("c1", true, map[string]string{"a": "b"})
	full.Annotations = map[string]string{"big": "text"}
	full.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id", Value: "x"}}
	got, err := keepDestination(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(managedCluster("c1", true, map[string]string{"a": "b"}), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
