package status

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind says how the statuses of a kind are aggregated. Fields without a rule are not returned from several clusters.
type kind struct {
	fields map[string]rule
	// adverse are the types of conditions that say with True that something is wrong or not done.
	adverse func(conditionType string) bool
	// unconditional: the kind has no conditions.
	unconditional bool
	// finish changes what the rules made of single fields.
	finish func(s *sample, aggregate map[string]any)
}

// rule returns the value of a field of an aggregate, nil for none.
type rule func(s *sample, field string) any

// kinds are the kinds that have rules of their own.
//
// Of counters that say how far something got, the least counts. Deployments and the like say so in relation to a goal, and the
// goals of clusters may differ (an autoscaler, templates, the number of nodes): of 10 of 10 and 3 of 4 the least of each would
// be "3 of 4" for the one and "3 of 3" for the whole. So they are counted back from the least goal by what the worst cluster
// lacks (behind): never more complete than the worst. With equal goals that is the least.
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

// least is the least of the clusters, 0 as long as one is silent.
func least(s *sample, field string) any {
	if len(s.silent) > 0 {
		return int64(0)
	}
	return slices.Min(s.numbers(field))
}

// most is the most of the clusters that report.
func most(s *sample, field string) any { return slices.Max(s.numbers(field)) }

// goal is the least of the clusters that report: what a silent one aims at is not known, and nothing is reached there.
func goal(s *sample, field string) any { return slices.Min(s.numbers(field)) }

// behind is a counter that is complete when it reaches the goal.
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

// lacking counts what is missing to the goal: the most, and all of it in a silent cluster.
func lacking(goal string) rule {
	return func(s *sample, field string) any {
		lack := slices.Max(s.numbers(field))
		if len(s.silent) > 0 {
			lack = max(lack, slices.Min(s.numbers(goal)))
		}
		return lack
	}
}

// positive leaves a zero out: of fields that API servers leave out as well.
func positive(of rule) rule {
	return func(s *sample, field string) any {
		if value := of(s, field); value != int64(0) {
			return value
		}
		return nil
	}
}

// present leaves the field out if no cluster reports it.
func present(of rule) rule {
	return func(s *sample, field string) any {
		if !s.anywhere(field) {
			return nil
		}
		return of(s, field)
	}
}

// equal is the value that all clusters report.
func equal(s *sample, field string) any {
	value := s.reported[0].Status[field]
	if len(s.silent) > 0 || slices.ContainsFunc(s.reported, func(r Reported) bool { return !reflect.DeepEqual(r.Status[field], value) }) {
		return nil
	}
	return value
}

// revision is the value in one cluster, the same one for currentRevision and updateRevision: the first that is not updated yet,
// so that the two are equal only if they are everywhere.
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

// worst is the first of the values that a cluster reports. Of a silent cluster it is taken that it is at Pending.
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
	first := ""
	for _, value := range s.texts(field) {
		if value != "" && (first == "" || before(value, first)) {
			first = value
		}
	}
	if first == "" {
		return nil
	}
	return first
}

// latest is the latest time, once all clusters report one.
func latest(s *sample, field string) any {
	last := ""
	for _, value := range s.texts(field) {
		if value == "" {
			return nil
		}
		if last == "" || before(last, value) {
			last = value
		}
	}
	if len(s.silent) > 0 {
		return nil
	}
	return last
}

// before tells whether a time is earlier than another; what is no time is earlier than what is one.
func before(a, b string) bool {
	if a == b {
		return false
	}
	x, errX := time.Parse(time.RFC3339, a)
	y, errY := time.Parse(time.RFC3339, b)
	if errX != nil || errY != nil {
		return errX != nil && errY == nil || errX != nil && a < b
	}
	return x.Before(y)
}

// leastQuantities is a map of quantities: of each key that all clusters report the least.
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

// addresses are all load balancers of all clusters, once each cluster has one: tools take an address as the sign that the object
// is served, so none is shown before it is served everywhere.
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

// finishJob makes a Job of several clusters one that API servers accept: one that is finished has nothing running and a time at
// which it was completed, and stays finished for good. So it is Complete when it is so everywhere, and Failed when it has
// ended everywhere, and not everywhere well. Until then FailureTarget says that it will fail.
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
			// Beside a failure they are not accepted, and not to be taken back either.
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
