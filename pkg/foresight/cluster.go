package foresight

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/statusagent"
)

// ClusterLease is the name of the Lease that the agent of a cluster renews in its mailbox.
const ClusterLease = "managed-cluster-lease"

// ClusterOf returns what is known of a ManagedCluster of an ITS, which is named by its context. The
// lease and the add-on may be nil, if they do not exist. The labels are shared.
func ClusterOf(its string, c *clusterv1.ManagedCluster,
	lease foresight.Fact[*coordinationv1.Lease], addOn foresight.Fact[*addonv1alpha1.ManagedClusterAddOn],
) *foresight.Cluster {
	of := &foresight.Cluster{
		Name: c.Name, ITS: its, UID: c.UID, Created: c.CreationTimestamp.Time, Labels: c.Labels, Annotations: c.Annotations,
		Kubernetes: c.Status.Version.Kubernetes,
		Accepted:   c.Spec.HubAcceptsClient, Leaving: c.DeletionTimestamp != nil,
		Joined:    meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1.ManagedClusterConditionJoined),
		Available: availability(c.Status.Conditions, clusterv1.ManagedClusterConditionAvailable),
		Lease:     foresight.Unread[*foresight.Lease](lease.Unread),
		AddOn:     foresight.Unread[*foresight.AddOn](addOn.Unread),
	}
	if taken := meta.FindStatusCondition(c.Status.Conditions, controlv1alpha1.ManagedClusterConditionNameTaken); taken != nil && taken.Status == metav1.ConditionTrue {
		of.NameTaken = taken.Message
	}
	if lease.Value != nil && lease.Value.Spec.RenewTime != nil {
		of.Lease.Value = &foresight.Lease{
			Renewed: lease.Value.Spec.RenewTime.Time,
			Every:   time.Duration(c.Spec.LeaseDurationSeconds) * time.Second,
		}
	}
	if addOn.Value != nil {
		conditions := addOn.Value.Status.Conditions
		of.AddOn.Value = &foresight.AddOn{Available: availability(conditions, addonv1alpha1.ManagedClusterAddOnConditionAvailable)}
		if denied := meta.FindStatusCondition(conditions, statusagent.ConditionPermitted); denied != nil && denied.Status == metav1.ConditionFalse {
			of.AddOn.Value.NotPermitted = denied.Message
		}
	}
	return of
}

func availability(conditions []metav1.Condition, kind string) foresight.Availability {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return foresight.Availability{}
	}
	return foresight.Availability{Status: c.Status, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
}

// Cluster reads what is known of a cluster and its mailbox.
func (r *Reader) Cluster(ctx context.Context, name string) *explain.Cluster {
	c := &explain.Cluster{}
	var boxes explain.Fleet
	boxes.Cluster, boxes.Mailboxes = name, map[string]*explain.Mailbox{}
	together(
		func() { c.Fleet = r.fleet(ctx, name) },
		func() {
			if len(r.itses) == 1 {
				r.readMailboxes(ctx, &boxes, reading{cluster: name})
			}
		},
	)
	if len(r.itses) == 1 {
		c.Mailboxes = boxes.Mailboxes
	} else {
		r.readMailboxes(ctx, &c.Fleet, reading{cluster: name})
	}
	return c
}
