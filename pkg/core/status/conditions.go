package status

import (
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	conditionsField = "conditions"
	// maxListed limits the clusters that one message lists.
	maxListed = 5
)

// ownCondition is the condition of one cluster, of a given type.
type ownCondition struct {
	cluster   string
	condition map[string]any
	status    string
}

// conditions merges the conditions of the clusters by type. A merged condition has the worst status
// that any cluster reports, with the reason and the message of the latest condition with that
// status.
//
// For most types False is the worst status, and Unknown is assumed for a cluster that does not
// report the condition. For adverse types True is the worst, and a cluster that does not report the
// condition has no problem. While clusters are silent, no condition is good, and a further
// condition names these clusters.
func (s *sample) conditions(adverse func(string) bool) []any {
	byType := map[string][]ownCondition{}
	latest := ""
	for i := range s.reported {
		own, _ := s.reported[i].Status[conditionsField].([]any)
		seen := map[string]bool{}
		for _, c := range own {
			condition, _ := c.(map[string]any)
			name := typeOf(c)
			if name == "" || seen[name] || name == controlv1alpha1.ConditionIncomplete {
				continue
			}
			seen[name] = true
			status, _ := condition["status"].(string)
			byType[name] = append(byType[name], ownCondition{s.reported[i].Cluster, condition, status})
			latest = later(latest, condition["lastTransitionTime"])
		}
	}
	var merged []any
	for name, all := range byType {
		merged = append(merged, s.merge(name, all, name == ConditionTruncated || adverse(name)))
	}
	if len(s.silent) > 0 {
		merged = append(merged, s.incomplete(latest))
	}
	slices.SortFunc(merged, func(a, b any) int { return strings.Compare(typeOf(a), typeOf(b)) })
	return merged
}

// merge returns one condition for the conditions of a type.
func (s *sample) merge(name string, own []ownCondition, adverse bool) map[string]any {
	missing := slices.Clone(s.silent)
	if !adverse {
		next := 0 // own has the order of s.reported
		for i := range s.reported {
			if next < len(own) && own[next].cluster == s.reported[i].Cluster {
				next++
			} else {
				missing = append(missing, s.reported[i].Cluster)
			}
		}
		slices.Sort(missing)
	}
	bad, good := "False", "True"
	if adverse {
		bad, good = good, bad
	}
	status := good
	for _, v := range own {
		switch {
		case v.status == bad:
			status = bad
		case v.status != good && status == good:
			status = "Unknown"
		}
	}
	if status == good && len(missing) > 0 {
		return notReported(name, own, missing)
	}

	var chosen ownCondition
	chosenAt := ""
	agreed := len(missing) == 0
	for _, v := range own {
		agreed = agreed && v.status == own[0].status
		same := v.status == status || status == "Unknown" && v.status != good
		if when, _ := v.condition["lastTransitionTime"].(string); same && (chosen.condition == nil || compareTimes(chosenAt, when) < 0) {
			chosen, chosenAt = v, when
		}
	}
	condition := map[string]any{}
	for key, value := range chosen.condition {
		if value != nil {
			condition[key] = value
		}
	}
	condition["status"] = status
	if message, _ := condition["message"].(string); message != "" && !agreed {
		condition["message"] = chosen.cluster + ": " + message
	}
	times(condition, own)
	observed(condition, own, len(missing) == 0)
	return condition
}

// notReported returns the condition of a type that is good in all clusters except the missing ones,
// which have not reported it.
func notReported(name string, own []ownCondition, missing []string) map[string]any {
	condition := map[string]any{
		"type": name, "status": "Unknown", "reason": controlv1alpha1.ReasonNotReported,
		"message": "not reported by " + text.List(missing, maxListed),
	}
	times(condition, own)
	return condition
}

// times sets each time of a merged condition to the latest of the clusters, if any cluster has it.
func times(condition map[string]any, own []ownCondition) {
	for _, field := range []string{"lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"} {
		latest := ""
		for _, v := range own {
			latest = later(latest, v.condition[field])
		}
		if latest != "" {
			condition[field] = latest
		}
	}
}

// observed sets the observedGeneration of a merged condition to the lowest of all clusters. It
// removes the field if a cluster does not report it.
func observed(condition map[string]any, own []ownCondition, all bool) {
	delete(condition, observedField)
	least := int64(0)
	for i, v := range own {
		if n := integer(v.condition[observedField]); i == 0 || n < least {
			least = n
		}
	}
	if all && least > 0 {
		condition[observedField] = least
	}
}

// incomplete returns the condition that names the silent clusters. The schemas of many kinds
// require a time in conditions. The latest transition of the other conditions is used, since it
// changes only if another condition changes.
func (s *sample) incomplete(latest string) map[string]any {
	if latest == "" {
		latest = epoch
	}
	return map[string]any{
		"type": controlv1alpha1.ConditionIncomplete, "status": "True", "reason": controlv1alpha1.ReasonNotReported,
		"message": "clusters whose status is not known: " + text.List(s.silent, maxListed), "lastTransitionTime": latest,
	}
}

func typeOf(condition any) string {
	fields, _ := condition.(map[string]any)
	name, _ := fields["type"].(string)
	return name
}

func isTrue(conditions []any, name string) bool {
	return slices.ContainsFunc(conditions, func(c any) bool {
		fields, _ := c.(map[string]any)
		return typeOf(c) == name && fields["status"] == "True"
	})
}
