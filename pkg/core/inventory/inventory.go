// Package inventory decides which of several clusters of one name the name stands for, and what is
// known of it. It is pure.
//
// Names of clusters are unique over all ITSes of a WDS: a Binding names a destination and nothing
// more. If several ITSes accept a cluster of one name, the name stands for the one that was
// accepted first, so that an ITS which is added later takes nothing away.
package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// HubAccepted is the condition of a ManagedCluster by which OCM reports whether, and since when, a
// hub accepts it.
const HubAccepted = "HubAcceptedManagedCluster"

// State is what is known of a cluster.
type State int

// States.
const (
	// Unknown: it could be in an ITS that has not synced.
	Unknown State = iota
	// Absent: no ITS has, or accepts, a cluster of that name.
	Absent
	// Leaving: it is being deleted. Its hub waits until nothing is delivered to it any more.
	Leaving
	// Accepted: objects may be delivered to it.
	Accepted
)

// Drained reports whether an administrator has taken a cluster with these labels out of use: it
// stays accepted, and is a destination of nothing. What is Unknown is not drained: of a cluster
// that could be in an ITS that has not synced, the labels are not known.
func Drained(labels map[string]string) bool { return labels[controlv1alpha1.LabelDrained] == "true" }

// Candidate is a cluster that its ITS accepts.
type Candidate struct {
	// Since is when it was accepted.
	Since time.Time
	// UID decides between those that were accepted at the same time.
	UID types.UID
	// Refused: the condition NameTaken says that the name stands for another cluster.
	Refused bool
}

// Member is a cluster of one name in one ITS.
type Member struct {
	Candidate
	// Accepted by its ITS; Leaving if it is being deleted.
	Accepted, Leaving bool
	// Chosen: the name was seen to stand for it, now or earlier.
	Chosen bool
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

// NewCandidate returns what a ManagedCluster that is accepted reports of itself.
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

// Choose returns what is known of the cluster of one name, and if it is Accepted, in which ITS it
// is. all reports whether every ITS has synced.
//
// As long as an ITS has not synced, the cluster could be there. That it left is known nevertheless
// if it was seen to leave: only of a cluster that the name stands for, since one that was never
// accepted, or that was refused, says nothing of another one. Those that were refused stay so
// meanwhile: the one that the name stands for may be in an ITS that does not answer.
func Choose[K comparable](members map[K]Member, all bool) (chosen K, state State) {
	accepted, leaving, left := false, false, false
	for key, m := range members {
		switch {
		case m.Leaving:
			leaving = true
			left = left || m.Accepted && !m.Refused
		case m.Accepted && (all || !m.Refused) && (!accepted || before(m.Candidate, members[chosen].Candidate)):
			chosen, accepted = key, true
		}
		left = left || m.Chosen
	}
	switch {
	case accepted:
		return chosen, Accepted
	case !all && !left:
		return chosen, Unknown
	case leaving:
		return chosen, Leaving
	}
	return chosen, Absent
}

func before(a, b Candidate) bool {
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.UID < b.UID
}
