package health

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rules evaluate the kinds that have status fields of their own. The API reference of Kubernetes
// documents these fields.
var rules = map[schema.GroupKind]func(fields) Verdict{
	{Group: "apps", Kind: "Deployment"}:  deployment,
	{Group: "apps", Kind: "StatefulSet"}: statefulSet,
	{Group: "apps", Kind: "DaemonSet"}:   daemonSet,
	{Group: "apps", Kind: "ReplicaSet"}:  replicaSet,
	{Kind: "ReplicationController"}:      replicaSet,
	{Group: "batch", Kind: "Job"}:        job,
	{Kind: "Pod"}:                        pod,
	{Kind: "PersistentVolumeClaim"}:      phases("Bound", "Lost"),
	{Kind: "PersistentVolume"}:           phases("Available Bound Released", "Failed"),
	{Kind: "Namespace"}:                  phases("Active", ""),

	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: definition,
	// The conditions of these kinds describe load or policy, not the health of the object.
	{Group: "policy", Kind: "PodDisruptionBudget"}:          always,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: autoscaler,
}

func always(fields) Verdict { return healthy() }

// general evaluates common conditions. Conditions that report a problem come first: an object may
// still be Ready with its previous content.
func general(s fields) Verdict {
	for _, kind := range []string{"Stalled", "Failed", "Degraded"} {
		if s.is(kind, "True") {
			return unhealthy(s.why(kind))
		}
	}
	for _, kind := range []string{"Reconciling", "Progressing"} {
		if s.is(kind, "True") && !s.is("Ready", "True") && !s.is("Available", "True") {
			return progressing(s.why(kind))
		}
	}
	for _, kind := range []string{"Ready", "Available", "Healthy", "Succeeded", "Established"} {
		switch {
		case s.condition(kind) == nil:
		case s.is(kind, "False"):
			return unhealthy(s.why(kind))
		case !s.is(kind, "True"):
			return progressing(s.why(kind))
		}
	}
	return healthy()
}

func deployment(s fields) Verdict {
	replicas, updated, available := s.count("replicas"), s.count("updatedReplicas"), s.count("availableReplicas")
	switch c := s.condition("Progressing"); {
	case c != nil && c.text("status") == "False":
		return unhealthy(s.why("Progressing"))
	case s.is("ReplicaFailure", "True"):
		return unhealthy(s.why("ReplicaFailure"))
	case len(s) == 0:
		return progressing("has no status yet")
	case updated < replicas:
		return progressing(fmt.Sprintf("%d of %d replicas updated", updated, replicas))
	case s.count("unavailableReplicas") > 0 || available < replicas:
		return progressing(fmt.Sprintf("%d of %d replicas available", available, max(replicas, available+s.count("unavailableReplicas"))))
	case s.condition("Available") != nil && !s.is("Available", "True"):
		return progressing(s.why("Available"))
	}
	return healthy()
}

func statefulSet(s fields) Verdict {
	replicas, ready := s.count("replicas"), s.count("readyReplicas")
	if len(s) == 0 {
		return progressing("has no status yet")
	}
	if ready < replicas {
		return progressing(fmt.Sprintf("%d of %d replicas ready", ready, replicas))
	}
	if current, update := s.text("currentRevision"), s.text("updateRevision"); current != update && s.count("updatedReplicas") < replicas {
		return progressing(fmt.Sprintf("%d of %d replicas updated", s.count("updatedReplicas"), replicas))
	}
	return healthy()
}

func daemonSet(s fields) Verdict {
	desired := s.count("desiredNumberScheduled")
	switch {
	case len(s) == 0:
		return progressing("has no status yet")
	case s.count("updatedNumberScheduled") < desired:
		return progressing(fmt.Sprintf("updated on %d of %d nodes", s.count("updatedNumberScheduled"), desired))
	case s.count("numberAvailable") < desired:
		return progressing(fmt.Sprintf("available on %d of %d nodes", s.count("numberAvailable"), desired))
	}
	return healthy()
}

func replicaSet(s fields) Verdict {
	if s.is("ReplicaFailure", "True") {
		return unhealthy(s.why("ReplicaFailure"))
	}
	if replicas, available := s.count("replicas"), s.count("availableReplicas"); available < replicas {
		return progressing(fmt.Sprintf("%d of %d replicas available", available, replicas))
	}
	return healthy()
}

func job(s fields) Verdict {
	switch {
	case s.is("Failed", "True"):
		return unhealthy(s.why("Failed"))
	case s.is("FailureTarget", "True"):
		return unhealthy(s.why("FailureTarget"))
	case s.is("Complete", "True"), s.is("Suspended", "True"):
		return healthy()
	}
	return progressing(fmt.Sprintf("running: %d active, %d succeeded, %d failed", s.count("active"), s.count("succeeded"), s.count("failed")))
}

// stuck are the reasons of a waiting container that usually need a change by a user.
var stuck = map[string]bool{
	"CrashLoopBackOff": true, "ImagePullBackOff": true, "ErrImagePull": true, "InvalidImageName": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true,
}

func pod(s fields) Verdict {
	for _, name := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, container := range s.list(name) {
			state, _ := container["state"].(map[string]any)
			waiting, _ := state["waiting"].(map[string]any)
			if reason := fields(waiting).text("reason"); stuck[reason] {
				return unhealthy(fmt.Sprintf("container %s: %s", container.text("name"), reason))
			}
		}
	}
	switch phase := s.text("phase"); phase {
	case "Succeeded":
		return healthy()
	case "Failed":
		return unhealthy(strings.TrimRight(fmt.Sprintf("phase is Failed: %s %s", s.text("reason"), s.text("message")), ": "))
	case "Running":
		if c := s.condition("Ready"); c == nil || s.is("Ready", "True") {
			return healthy()
		}
		return progressing(s.why("Ready"))
	case "":
		return progressing("has no status yet")
	default:
		if s.is("PodScheduled", "False") {
			return progressing(s.why("PodScheduled"))
		}
		return progressing("phase is " + phase)
	}
}

func definition(s fields) Verdict {
	switch {
	case s.is("NamesAccepted", "False"):
		return unhealthy(s.why("NamesAccepted"))
	case s.is("NonStructuralSchema", "True"):
		return unhealthy(s.why("NonStructuralSchema"))
	case !s.is("Established", "True"):
		return progressing("is not established yet")
	}
	return healthy()
}

func autoscaler(s fields) Verdict {
	if s.is("AbleToScale", "False") {
		return unhealthy(s.why("AbleToScale"))
	}
	return healthy()
}

// phases returns a rule for status.phase: Healthy for the good phases, separated by spaces;
// Unhealthy for the bad phase; Progressing for all others.
func phases(good, bad string) func(fields) Verdict {
	return func(s fields) Verdict {
		switch phase := s.text("phase"); {
		case phase == "":
			return progressing("has no status yet")
		case phase == bad:
			return unhealthy("phase is " + phase)
		case slices.Contains(strings.Fields(good), phase):
			return healthy()
		default:
			return progressing("phase is " + phase)
		}
	}
}
