package deploy

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

// RepositoryInput is all that the Repository of a cluster follows from. All of it has been read.
type RepositoryInput struct {
	// Namespace of the Repository, and the Cluster's name.
	Namespace, Name string
	// Cluster is what is known of the cluster; Labels are its labels, if it is Accepted.
	Cluster inventory.State
	Labels  map[string]string
	// Stored is the Repository of that name; nil if there is none.
	Stored *configv1alpha1.Repository
	// Empty tells that there is no revision in it.
	Empty bool
	Now   time.Time
}

// RepositoryPlan is what is to be written; mostly nothing.
type RepositoryPlan struct {
	Create, Update *configv1alpha1.Repository
	// UpdateStatus is written after Update.
	UpdateStatus *configv1alpha1.RepositoryStatus
	Delete       bool
}

// PlanRepository returns what is to be done about the Repository of a cluster.
//
// One that somebody else made is used as it is. What is in a Repository stays, whatever becomes of the cluster; only one of ours goes with
// its cluster, when nothing is in it.
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
		if ours || attached != nil { // else it never was that of a cluster
			say(in, status, configv1alpha1.RepositoryConditionDetached, metav1.ConditionTrue, configv1alpha1.ReasonClusterGone,
				fmt.Sprintf("there is no accepted ManagedCluster %s; what is in this Repository stays, and goes there when it comes back", in.Name))
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
			Description: "What is published here goes to the cluster " + in.Name + ".",
			Deployment:  true, Type: configv1alpha1.RepositoryTypeHub,
		},
	}
}

// featurePrefix is that of the labels by which OCM says how add-ons do in a cluster.
const featurePrefix = "feature.open-cluster-management.io/"

// labelsOf returns the labels of a cluster that its Repository has: all but those that change with the health of add-ons. Each change
// would be a write, and a selector of Repositories that asked for one would take packages away whenever an add-on misses a heartbeat.
func labelsOf(cluster map[string]string) map[string]string {
	labels := maps.Clone(cluster)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, featurePrefix) })
	return labels
}

// attach is for a cluster that is there. Of our own Repositories that need not be said: they are there for it.
func attach(in *RepositoryInput, status *configv1alpha1.RepositoryStatus, ours, said bool) {
	message := "what is published here goes to the cluster " + in.Name
	if in.Stored.Spec.Deployment {
		meta.RemoveStatusCondition(&status.Conditions, configv1alpha1.RepositoryConditionDeployed)
	} else {
		message = "the cluster " + in.Name + " is there; see condition " + configv1alpha1.RepositoryConditionDeployed
		say(in, status, configv1alpha1.RepositoryConditionDeployed, metav1.ConditionFalse, configv1alpha1.ReasonNoDeployment,
			fmt.Sprintf("in this namespace, the Repository named like the ManagedCluster %s is the one from which packages go there; nothing goes there from "+
				"this one, since spec.deployment is not true: set it, or give this Repository another name and delete it here", in.Name))
	}
	if said || !ours && in.Stored.Spec.Deployment {
		say(in, status, configv1alpha1.RepositoryConditionDetached, metav1.ConditionFalse, configv1alpha1.ReasonAttached, message)
	}
}

// say sets a condition.
func say(in *RepositoryInput, of *configv1alpha1.RepositoryStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&of.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: in.Stored.Generation, LastTransitionTime: metav1.Time{Time: in.Now.UTC().Truncate(time.Second)},
	})
}
