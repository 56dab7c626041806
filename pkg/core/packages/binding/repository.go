package binding

import (
	"fmt"
	"maps"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
)

// RepositoryInput holds all inputs of the Repository of a cluster. All of them are synced.
type RepositoryInput struct {
	// Namespace of the Repository, and the Name of the Repository and the cluster.
	Namespace, Name string
	// Cluster is the state of the cluster. Labels are its labels, if it is Accepted.
	Cluster inventory.State
	Labels  map[string]string
	// Stored is the current Repository of that name; nil if it does not exist.
	Stored *configv1alpha1.Repository
	// Empty is true if the Repository has no revisions.
	Empty bool
	Now   time.Time
}

// RepositoryPlan holds the writes for the Repository of a cluster. Mostly there are none.
type RepositoryPlan struct {
	Create, Update *configv1alpha1.Repository
	// UpdateStatus is written after Update.
	UpdateStatus *configv1alpha1.RepositoryStatus
	Delete       bool
}

// PlanRepository returns the writes for the Repository of a cluster.
//
// A Repository that a user created is used unchanged. The packages in a Repository stay even if the
// cluster is deleted. Only a Repository that this controller created, and that is empty, is deleted
// with its cluster.
func PlanRepository(in *RepositoryInput) RepositoryPlan {
	stored := in.Stored
	switch {
	case stored == nil && in.Cluster == inventory.Accepted:
		return RepositoryPlan{Create: newRepository(in)}
	case stored == nil, stored.DeletionTimestamp != nil, in.Cluster == inventory.Unknown:
		return RepositoryPlan{}
	}
	plan := RepositoryPlan{}
	ours := stored.MadeForCluster()
	attached := meta.FindStatusCondition(stored.Status.Conditions, configv1alpha1.RepositoryConditionDetached)
	status := stored.Status.DeepCopy()
	switch {
	case in.Cluster == inventory.Accepted:
		if labels := labelsOf(in.Labels); ours && !maps.Equal(stored.Labels, labels) {
			plan.Update = stored.DeepCopy()
			plan.Update.TypeMeta = repositoryType()
			plan.Update.Labels = labels
		}
		attach(in, status, ours, attached != nil)
	case ours && in.Empty:
		return RepositoryPlan{Delete: true}
	default:
		meta.RemoveStatusCondition(&status.Conditions, configv1alpha1.RepositoryConditionDeployed)
		if ours || attached != nil { // otherwise it never belonged to a cluster
			setCondition(in, status, configv1alpha1.RepositoryConditionDetached, metav1.ConditionTrue, configv1alpha1.ReasonClusterGone,
				fmt.Sprintf("there is no accepted ManagedCluster %s; the packages in this Repository stay, and are delivered when the cluster is accepted again", in.Name))
		}
	}
	if !apiequality.Semantic.DeepEqual(status.Conditions, stored.Status.Conditions) {
		plan.UpdateStatus = status
	}
	return plan
}

func repositoryType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: configv1alpha1.GroupVersion.String(), Kind: "Repository"}
}

func newRepository(in *RepositoryInput) *configv1alpha1.Repository {
	return &configv1alpha1.Repository{
		TypeMeta: repositoryType(),
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Namespace, Name: in.Name, Labels: labelsOf(in.Labels),
			Annotations: map[string]string{configv1alpha1.ClusterAnnotation: in.Name},
		},
		Spec: configv1alpha1.RepositorySpec{
			Description: "Packages that are published here are delivered to cluster " + in.Name + ".",
			Deployment:  true, Type: configv1alpha1.RepositoryTypeHub,
		},
	}
}

// featurePrefix is the prefix of the labels in which OCM reports the health of add-ons in a
// cluster.
const featurePrefix = "feature.open-cluster-management.io/"

// labelsOf returns the labels that a Repository copies from its cluster: all except those that
// change with the health of add-ons. Each change would be a write, and a selector of Repositories
// with such a label would remove packages whenever an add-on misses a heartbeat.
func labelsOf(cluster map[string]string) map[string]string {
	labels := maps.Clone(cluster)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, featurePrefix) })
	return labels
}

// attach sets the conditions if the cluster exists. Repositories that were created for a cluster
// need no condition Detached before it is True for the first time.
func attach(in *RepositoryInput, status *configv1alpha1.RepositoryStatus, ours, hasCondition bool) {
	message := "packages that are published here are delivered to cluster " + in.Name
	switch {
	case in.Stored.Spec.Deployment && inventory.Drained(in.Labels):
		message = "cluster " + in.Name + " exists; see condition " + configv1alpha1.RepositoryConditionDeployed
		setCondition(in, status, configv1alpha1.RepositoryConditionDeployed, metav1.ConditionFalse, configv1alpha1.ReasonClusterDrained,
			fmt.Sprintf("no packages are delivered to ManagedCluster %s, because it is drained. Deliver to it again with: "+
				"kubectl starling cluster undrain %[1]s", in.Name))
	case in.Stored.Spec.Deployment:
		meta.RemoveStatusCondition(&status.Conditions, configv1alpha1.RepositoryConditionDeployed)
	default:
		message = "cluster " + in.Name + " exists; see condition " + configv1alpha1.RepositoryConditionDeployed
		setCondition(in, status, configv1alpha1.RepositoryConditionDeployed, metav1.ConditionFalse, configv1alpha1.ReasonNoDeployment,
			fmt.Sprintf("no packages are delivered to ManagedCluster %s, because spec.deployment of the Repository of its name is not true: "+
				"set it to true, or re-create this Repository under another name", in.Name))
	}
	if hasCondition || !ours && in.Stored.Spec.Deployment {
		setCondition(in, status, configv1alpha1.RepositoryConditionDetached, metav1.ConditionFalse, configv1alpha1.ReasonAttached, message)
	}
}

func setCondition(in *RepositoryInput, of *configv1alpha1.RepositoryStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&of.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: in.Stored.Generation, LastTransitionTime: metav1.Time{Time: in.Now.UTC().Truncate(time.Second)},
	})
}
