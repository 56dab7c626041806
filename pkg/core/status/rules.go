package status

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind holds the rules for the statuses of a kind. A field without a rule is not in the aggregate.
type kind struct {
	fields map[string]rule
	// adverse reports whether True is the bad status of a condition type.
	adverse func(conditionType string) bool
	// unconditional is true if the kind has no conditions.
	unconditional bool
	// finish changes the aggregate after the rules of its fields.
	finish func(s *sample, aggregate map[string]any)
}

// rule returns the value of a field of an aggregate, nil for none.
type rule func(s *sample, field string) any

// kinds are the kinds that have rules of their own.
//
// The aggregate of a counter of progress is the minimum of the clusters. Deployments and similar
// kinds also have a goal, and the goals of clusters may differ, because of an autoscaler,
// templates, or the number of nodes. The minimum of each field would not do: for 3 of 3 and 9 of 10
// it is 3 of 3, which looks complete. So the counter is the minimum goal less what the worst
// cluster lacks (behind), here 2 of 3: never more complete than the worst cluster. If all goals are
// equal, it is the minimum.
var kinds = map[schema.GroupResource]kind{
	{Group: "apps", Resource: "deployments"}: {
		fields: map[string]rule{
			"observedGeneration":  positive(least),
			"replicas":            positive(goal),
			"updatedReplicas":     positive(behind("replicas")),
			"readyReplicas":       positive(behind("replicas")),
			"availableReplicas":   positive(behind("replicas")),
			"unavailableReplicas": positive(lacking("replicas")),
			"terminatingReplicas": present(most),
		},
		adverse: oneOf("ReplicaFailure"),
	},
	{Group: "apps", Resource: "replicasets"}: {
		fields: map[string]rule{
			"observedGeneration":   positive(least),
			"replicas":             goal,
			"fullyLabeledReplicas": positive(behind("replicas")),
			"readyReplicas":        positive(behind("replicas")),
			"availableReplicas":    positive(behind("replicas")),
			"terminatingReplicas":  present(most),
		},
		adverse: oneOf("ReplicaFailure"),
	},
	{Group: "apps", Resource: "daemonsets"}: {
		fields: map[string]rule{
			"observedGeneration":     positive(least),
			"desiredNumberScheduled": goal,
			"currentNumberScheduled": behind("desiredNumberScheduled"),
			"updatedNumberScheduled": positive(behind("desiredNumberScheduled")),
			"numberReady":            behind("desiredNumberScheduled"),
			"numberAvailable":        positive(behind("desiredNumberScheduled")),
			"numberUnavailable":      positive(lacking("desiredNumberScheduled")),
			"numberMisscheduled":     most,
		},
		adverse: oneOf(),
	},
	{Group: "apps", Resource: "statefulsets"}: {
		fields: map[string]rule{
			"observedGeneration": positive(least),
			"replicas":           goal,
			"currentReplicas":    positive(behind("replicas")),
			"updatedReplicas":    positive(behind("replicas")),
			"readyReplicas":      positive(behind("replicas")),
			"availableReplicas":  behind("replicas"),
			"currentRevision":    revision,
			"updateRevision":     revision,
		},
		adverse: oneOf(),
	},
	{Group: "batch", Resource: "jobs"}: {
		fields: map[string]rule{
			"active":           positive(most),
			"ready":            present(least),
			"succeeded":        positive(least),
			"failed":           positive(most),
			"terminating":      present(most),
			"startTime":        earliest,
			"completionTime":   latest,
			"completedIndexes": equal,
			"failedIndexes":    equal,
		},
		adverse: oneOf("Failed", "FailureTarget", "Suspended"),
		finish:  finishJob,
	},
	{Resource: "pods"}: {
		fields: map[string]rule{
			"observedGeneration": positive(least),
			"phase":              worst("Failed", "Unknown", "Pending", "Running", "Succeeded"),
			"startTime":          earliest,
			"qosClass":           equal,
		},
		adverse: oneOf("DisruptionTarget", "PodResizePending", "PodResizeInProgress"),
	},
	{Resource: "persistentvolumeclaims"}: {
		fields: map[string]rule{
			"phase":       worst("Lost", "Pending", "Bound"),
			"accessModes": equal,
			"capacity":    leastQuantities,
		},
		adverse: oneOf("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError", "ModifyingVolume", "ModifyVolumeError"),
	},
	{Resource: "services"}: {
		fields:  map[string]rule{"loadBalancer": addresses},
		adverse: oneOf("LoadBalancerPortsError"),
	},
	{Group: "networking.k8s.io", Resource: "ingresses"}: {
		fields:        map[string]rule{"loadBalancer": addresses},
		unconditional: true,
	},
}

// least is the minimum of the clusters, 0 while a cluster is silent.
func least(s *sample, field string) any {
	if len(s.silent) > 0 {
		return int64(0)
	}
	return slices.Min(s.numbers(field))
}

// most is the maximum of the clusters that report.
func most(s *sample, field string) any { return slices.Max(s.numbers(field)) }

// goal is the minimum of the clusters that report. The goal of a silent cluster is unknown, and its
// progress counts as 0.
func goal(s *sample, field string) any { return slices.Min(s.numbers(field)) }

// behind is a counter of progress that is complete when it reaches the goal.
func behind(goal string) rule {
	return func(s *sample, field string) any {
		if len(s.silent) > 0 {
			return int64(0)
		}
		values, goals := s.numbers(field), s.numbers(goal)
		lack := int64(0)
		for i := range values {
			lack = max(lack, goals[i]-values[i])
		}
		return max(0, min(slices.Min(values), slices.Min(goals)-lack))
	}
}

// lacking is a counter of what is missing to reach the goal: the maximum of the clusters. A silent
// cluster lacks everything.
func lacking(goal string) rule {
	return func(s *sample, field string) any {
		lack := slices.Max(s.numbers(field))
		if len(s.silent) > 0 {
			lack = max(lack, slices.Min(s.numbers(goal)))
		}
		return lack
	}
}

// positive omits a zero, for fields that API servers omit as well.
func positive(of rule) rule {
	return func(s *sample, field string) any {
		if value := of(s, field); value != int64(0) {
			return value
		}
		return nil
	}
}

// present omits the field if no cluster reports it.
func present(of rule) rule {
	return func(s *sample, field string) any {
		if !s.anywhere(field) {
			return nil
		}
		return of(s, field)
	}
}

// equal is the value of all clusters, omitted if they differ or a cluster is silent.
func equal(s *sample, field string) any {
	value := s.reported[0].Status[field]
	if len(s.silent) > 0 || slices.ContainsFunc(s.reported, func(r Reported) bool { return !reflect.DeepEqual(r.Status[field], value) }) {
		return nil
	}
	return value
}

// revision is the value in one cluster, the same cluster for currentRevision and updateRevision:
// the first one that is not updated yet. So the two are equal only if they are equal in all
// clusters.
func revision(s *sample, field string) any {
	current, update := s.texts("currentRevision"), s.texts("updateRevision")
	of := 0
	for i := range current {
		if current[i] != update[i] {
			of = i
			break
		}
	}
	return s.reported[of].Status[field]
}

// worst is the first value in the given order that any cluster reports. A silent cluster counts as
// Pending.
func worst(order ...string) rule {
	return func(s *sample, field string) any {
		values := s.texts(field)
		if len(s.silent) > 0 {
			values = append(values, "Pending")
		}
		for _, value := range order {
			if slices.Contains(values, value) {
				return value
			}
		}
		return nil
	}
}

// earliest is the earliest time that a cluster reports.
func earliest(s *sample, field string) any {
	times := slices.DeleteFunc(s.texts(field), func(value string) bool { return value == "" })
	if len(times) == 0 {
		return nil
	}
	return slices.MinFunc(times, compareTimes)
}

// latest is the latest time, omitted until all clusters report one.
func latest(s *sample, field string) any {
	times := s.texts(field)
	if len(s.silent) > 0 || slices.Contains(times, "") {
		return nil
	}
	return slices.MaxFunc(times, compareTimes)
}

// compareTimes orders times. A text that is not a time is earlier than any time.
func compareTimes(a, b string) int {
	x, errX := time.Parse(time.RFC3339, a)
	y, errY := time.Parse(time.RFC3339, b)
	switch {
	case errX != nil && errY != nil:
		return strings.Compare(a, b)
	case errX != nil:
		return -1
	case errY != nil:
		return 1
	}
	return x.Compare(y)
}

// later returns the later of a time and a reported value, which may be none.
func later(a string, value any) string {
	if b, _ := value.(string); compareTimes(a, b) < 0 {
		return b
	}
	return a
}

// leastQuantities is a map of quantities, with the minimum for each key that all clusters report.
func leastQuantities(s *sample, field string) any {
	if len(s.silent) > 0 {
		return nil
	}
	result := map[string]any{}
	first, _ := s.reported[0].Status[field].(map[string]any)
	for key := range first {
		if value, ok := leastQuantity(s, field, key); ok {
			result[key] = value
		}
	}
	if len(result) == 0 {
		return nil
	}
	return result
}

func leastQuantity(s *sample, field, key string) (string, bool) {
	var text string
	var smallest resource.Quantity
	for i := range s.reported {
		quantities, _ := s.reported[i].Status[field].(map[string]any)
		value, _ := quantities[key].(string)
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return "", false
		}
		if i == 0 || quantity.Cmp(smallest) < 0 {
			text, smallest = value, quantity
		}
	}
	return text, true
}

// addresses are all load balancers of all clusters, as soon as each cluster has one. Tools take an
// address as a sign that the object is served, so none is returned before all clusters serve it.
func addresses(s *sample, field string) any {
	var all []any
	for i := range s.reported {
		balancer, _ := s.reported[i].Status[field].(map[string]any)
		points, _ := balancer["ingress"].([]any)
		if len(points) == 0 {
			return map[string]any{}
		}
		for _, point := range points {
			if !slices.ContainsFunc(all, func(other any) bool { return reflect.DeepEqual(other, point) }) {
				all = append(all, point)
			}
		}
	}
	if len(s.silent) > 0 {
		return map[string]any{}
	}
	return map[string]any{"ingress": all}
}

func oneOf(types ...string) func(string) bool {
	return func(conditionType string) bool { return slices.Contains(types, conditionType) }
}

// finishJob changes the aggregate of a Job into one that API servers accept: a finished Job has
// nothing running, has a completion time if it is complete, and stays finished. So the aggregate is
// Complete if the Job is Complete in all clusters, and Failed if the Job has ended in all clusters
// and failed in any. Until then the condition FailureTarget shows that it will fail.
func finishJob(s *sample, aggregate map[string]any) {
	conditions, _ := aggregate[conditionsField].([]any)
	ended := len(s.silent) == 0
	for i := range s.reported {
		own, _ := s.reported[i].Status[conditionsField].([]any)
		ended = ended && (isTrue(own, "Complete") || isTrue(own, "Failed"))
	}
	if failed := slices.IndexFunc(conditions, func(c any) bool { return typeOf(c) == "Failed" }); failed >= 0 && isTrue(conditions, "Failed") &&
		!isTrue(conditions, "FailureTarget") {
		target := map[string]any{}
		if condition, ok := conditions[failed].(map[string]any); ok {
			maps.Copy(target, condition)
		}
		target["type"] = "FailureTarget"
		conditions = slices.Insert(conditions, failed+1, any(target))
	}
	failing := isTrue(conditions, "FailureTarget")
	conditions = slices.DeleteFunc(conditions, func(c any) bool {
		switch typeOf(c) {
		case "Failed":
			return !ended
		case "SuccessCriteriaMet", "Complete":
			// API servers refuse them together with a failure, and refuse to remove them later.
			return failing
		}
		return false
	})
	if len(conditions) > 0 {
		aggregate[conditionsField] = conditions
	} else {
		delete(aggregate, conditionsField)
	}
	if ended {
		for _, field := range []string{"active", "ready", "terminating"} {
			delete(aggregate, field)
		}
	}
	if !isTrue(conditions, "Complete") {
		delete(aggregate, "completionTime")
	}
}
