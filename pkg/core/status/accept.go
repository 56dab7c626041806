package status

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// accepted returns want, changed so that an API server accepts it as the new status of an object
// with status have: the API servers refuse some changes of the status of some kinds. A field whose
// change is refused has the value in have. Have and want are not changed; either may be nil.
//
// These are the rules of Kubernetes' own kinds, which hold for all clients. A WDS may refuse other
// changes, by admission or by a narrower schema; Plan receives those fields as refused.
func accepted(gr schema.GroupResource, have, want map[string]any) map[string]any {
	switch gr {
	case schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Group: "apps", Resource: "daemonsets"},
		schema.GroupResource{Group: "apps", Resource: "statefulsets"}:
		return notBelow(have, want, "collisionCount")
	case schema.GroupResource{Group: "batch", Resource: "jobs"}:
		return acceptedJob(have, want)
	case schema.GroupResource{Resource: "pods"}:
		return unchanged(have, want, "qosClass") // set when the Pod was created
	}
	return want
}

// acceptedJob is accepted for Jobs. A finished Job cannot change. In an unfinished one, counters
// cannot decrease, and the start time and the conditions that announce its end cannot change.
func acceptedJob(have, want map[string]any) map[string]any {
	conditions, _ := have[conditionsField].([]any)
	if isTrue(conditions, "Complete") || isTrue(conditions, "Failed") {
		return have
	}
	want = notBelow(have, want, "succeeded")
	want = notBelow(have, want, "failed")
	want = unchanged(have, want, "startTime")
	for _, final := range []string{"FailureTarget", "SuccessCriteriaMet"} {
		wanted, _ := want[conditionsField].([]any)
		if !isTrue(conditions, final) || isTrue(wanted, final) {
			continue
		}
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(c any) bool { return typeOf(c) == final })
		for _, c := range conditions {
			if typeOf(c) == final {
				wanted = append(wanted, c)
			}
		}
		want = with(want, conditionsField, wanted)
	}
	return want
}

// notBelow returns want with a counter that is not lower than in have.
func notBelow(have, want map[string]any, field string) map[string]any {
	if have[field] != nil && (want[field] == nil || integer(want[field]) < integer(have[field])) {
		return with(want, field, have[field])
	}
	return want
}

// unchanged returns want with the value that a field has in have, if it has one.
func unchanged(have, want map[string]any, field string) map[string]any {
	if have[field] != nil {
		return with(want, field, have[field])
	}
	return want
}

// with returns a copy of the status with that value in a field, or without the field if the value
// is nil.
func with(status map[string]any, field string, value any) map[string]any {
	changed := maps.Clone(status)
	if changed == nil {
		changed = map[string]any{}
	}
	if value == nil {
		delete(changed, field)
	} else {
		changed[field] = value
	}
	return changed
}
