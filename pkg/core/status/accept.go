package status

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// accepted returns what of a status an API server accepts for an object that holds another one: some kinds do not let their
// status go back. What it does not accept stays as the object has it. Have and want are not changed; either may be nil.
//
// These are the rules of Kubernetes' own kinds, which hold for everybody, their controllers as well. For whatever else a WDS
// refuses (admission, a schema that is narrower there), see Decision.Without.
func accepted(gr schema.GroupResource, have, want map[string]any) map[string]any {
	switch gr {
	case schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Group: "apps", Resource: "daemonsets"},
		schema.GroupResource{Group: "apps", Resource: "statefulsets"}:
		return keepCount(have, want, "collisionCount")
	case schema.GroupResource{Group: "batch", Resource: "jobs"}:
		return acceptedJob(have, want)
	case schema.GroupResource{Resource: "pods"}:
		return keepField(have, want, "qosClass") // chosen when the Pod was created
	}
	return want
}

// acceptedJob keeps a Job as it is that is finished; and of another one counters, the time of the start, and what has been
// decided of its end.
func acceptedJob(have, want map[string]any) map[string]any {
	conditions, _ := have[conditionsField].([]any)
	if isTrue(conditions, "Complete") || isTrue(conditions, "Failed") {
		return have
	}
	want = keepCount(have, want, "succeeded")
	want = keepCount(have, want, "failed")
	want = keepField(have, want, "startTime")
	for _, decided := range []string{"FailureTarget", "SuccessCriteriaMet"} {
		wanted, _ := want[conditionsField].([]any)
		if !isTrue(conditions, decided) || isTrue(wanted, decided) {
			continue
		}
		wanted = slices.DeleteFunc(slices.Clone(wanted), func(c any) bool { return typeOf(c) == decided })
		for _, c := range conditions {
			if typeOf(c) == decided {
				wanted = append(wanted, c)
			}
		}
		want = with(want, conditionsField, wanted)
	}
	return want
}

// keepCount keeps a counter that must not shrink.
func keepCount(have, want map[string]any, field string) map[string]any {
	if have[field] != nil && (want[field] == nil || integer(want[field]) < integer(have[field])) {
		return with(want, field, have[field])
	}
	return want
}

// keepField keeps a field that must not change.
func keepField(have, want map[string]any, field string) map[string]any {
	if have[field] != nil {
		return with(want, field, have[field])
	}
	return want
}

// with returns the status with that value in a field, none if it is nil.
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
