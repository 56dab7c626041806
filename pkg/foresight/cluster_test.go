package foresight

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/core/foresight"
)

func TestClusterOf(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	condition := func(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Message: message, LastTransitionTime: at}
	}
	renewed := metav1.NewMicroTime(at.Time)
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	addOn := &addonv1alpha1.ManagedClusterAddOn{Status: addonv1alpha1.ManagedClusterAddOnStatus{Conditions: []metav1.Condition{
		condition("Available", metav1.ConditionFalse, "no lease"), condition("Permitted", metav1.ConditionFalse, "denied"),
	}}}
	given := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "u", DeletionTimestamp: &at, Labels: map[string]string{"a": "b"}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: 30},
		Status: clusterv1.ManagedClusterStatus{
			Version: clusterv1.ManagedClusterVersion{Kubernetes: "v1.35.0"},
			Conditions: []metav1.Condition{
				condition("ManagedClusterJoined", metav1.ConditionTrue, ""), condition("ManagedClusterConditionAvailable", metav1.ConditionUnknown, "stopped"),
				condition("starling.io/NameTaken", metav1.ConditionTrue, "its2 has it"),
			},
		},
	}
	want := &foresight.Cluster{
		Name: "c1", ITS: "its1", UID: "u", Labels: map[string]string{"a": "b"}, Kubernetes: "v1.35.0",
		Accepted: true, Leaving: true, NameTaken: "its2 has it", Joined: true,
		Available: foresight.Availability{Status: metav1.ConditionUnknown, Message: "stopped", Since: at.Time},
		Lease:     foresight.Known(&foresight.Lease{Renewed: at.Time, Every: 30 * time.Second}),
		AddOn: foresight.Known(&foresight.AddOn{
			Available: foresight.Availability{Status: metav1.ConditionFalse, Message: "no lease", Since: at.Time}, NotPermitted: "denied",
		}),
	}
	if diff := cmp.Diff(want, ClusterOf("its1", given, foresight.Known(lease), foresight.Known(addOn))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bare := &foresight.Cluster{
		Name: "c2", ITS: "its1", Lease: foresight.Unread[*foresight.Lease]("you may not get leases"), AddOn: foresight.Known[*foresight.AddOn](nil),
	}
	got := ClusterOf("its1", &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c2"}},
		foresight.Unread[*coordinationv1.Lease]("you may not get leases"), foresight.Known[*addonv1alpha1.ManagedClusterAddOn](nil))
	if diff := cmp.Diff(bare, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
