package manager

import (
	"context"
	"fmt"
	"reflect"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"open-cluster-management.io/addon-framework/pkg/agent"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/writer"
)

// permit gives the agent of a cluster the rights to its own mailbox, or takes them from that of a
// cluster that the hub denies. The framework calls it at each change of the add-on there. The
// rights are a ClusterRole that is installed with the ITS; the manager may bind only that one.
func (m *Manager) permit(ctx context.Context) agent.PermissionConfigFunc {
	return func(cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn) error {
		want := roleBinding(cluster.Name, addon)
		target := writer.Target{
			Resource:  rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
			Namespace: want.Namespace, Name: want.Name,
		}
		have, err := m.hub.RbacV1().RoleBindings(want.Namespace).Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case m.inventory.denied(cluster.Name):
			return m.cleaner.revoke(ctx, cluster.Name)
		case apierrors.IsNotFound(err):
			_, err = m.writer.Create(ctx, target, want, "permit")
			return err
		case err != nil:
			return fmt.Errorf("read %s: %w", target, err)
		case !reflect.DeepEqual(have.RoleRef, want.RoleRef):
			// It cannot be changed. The next call, when the framework retries, creates ours.
			if err := m.writer.Delete(ctx, target, have.UID, "permit"); err != nil {
				return err
			}
			return fmt.Errorf("%s bound %s %s; it was deleted", target, have.RoleRef.Kind, have.RoleRef.Name)
		case reflect.DeepEqual(have.Subjects, want.Subjects):
			return nil
		}
		want.ResourceVersion = have.ResourceVersion
		_, err = m.writer.Update(ctx, target, want, "permit")
		return err
	}
}

// roleBinding binds the rights of an agent in the cluster's mailbox to the group that only that
// cluster's agent is in.
func roleBinding(cluster string, addon *addonv1alpha1.ManagedClusterAddOn) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      statusagent.HubRole,
			Namespace: cluster,
			// Removed with the add-on.
			OwnerReferences: []metav1.OwnerReference{ownedBy(addon)},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: statusagent.HubRole},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: agentGroup(cluster)}},
	}
}

// ownedBy makes an object go with the add-on.
func ownedBy(addon *addonv1alpha1.ManagedClusterAddOn) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: addonv1alpha1.GroupVersion.String(), Kind: "ManagedClusterAddOn", Name: addon.Name, UID: addon.UID,
	}
}
