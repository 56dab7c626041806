// Package inventory says what can be known of a cluster, and decides which of several of one name is meant by it. It is pure.
//
// Names of clusters are unique over all ITSes of a WDS: a Binding names a destination and nothing more. If several ITSes accept a
// cluster of one name, the one that was accepted first bears it, so that an ITS which is added later takes nothing away.
package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// HubAccepted is the condition by which OCM says that and since when a hub accepts a ManagedCluster.
const HubAccepted = "HubAcceptedManagedCluster"

// Candidate is a cluster that its ITS accepts.
type Candidate struct {
	// Since is when it was accepted.
	Since time.Time
	// UID decides between those that were accepted at the same time.
	UID types.UID
	// Refused tells that the cluster is marked as one whose name another one bears.
	Refused bool
}

// Conditions returns those of the conditions of a ManagedCluster that a Candidate is made of.
func Conditions(all []metav1.Condition) []metav1.Condition {
	var kept []metav1.Condition
	for _, kind := range []string{HubAccepted, controlv1alpha1.ManagedClusterConditionNameTaken} {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			kept = append(kept, *c)
		}
	}
	return kept
}

// NewCandidate returns what a ManagedCluster that is accepted says of itself.
func NewCandidate(cluster metav1.Object, conditions []metav1.Condition) Candidate {
	c := Candidate{
		Since:   cluster.GetCreationTimestamp().Time,
		UID:     cluster.GetUID(),
		Refused: meta.IsStatusConditionTrue(conditions, controlv1alpha1.ManagedClusterConditionNameTaken),
	}
	if accepted := meta.FindStatusCondition(conditions, HubAccepted); accepted != nil && accepted.Status == metav1.ConditionTrue {
		c.Since = accepted.LastTransitionTime.Time
	}
	return c
}

// Bearer returns the key of the candidate that bears the name; false if none does. While not every ITS is known, those that
// were refused stay so: the one that bears the name may be in an ITS that does not answer.
func Bearer[K comparable](candidates map[K]Candidate, allKnown bool) (bearer K, ok bool) {
	var first Candidate
	for key, c := range candidates {
		if c.Refused && !allKnown {
			continue
		}
		if !ok || before(c, first) {
			bearer, first, ok = key, c, true
		}
	}
	return bearer, ok
}

func before(a, b Candidate) bool {
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.UID < b.UID
}
