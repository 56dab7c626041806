package status

import (
	"fmt"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

const (
	conditionsField = "conditions"
	// maxSilent bounds the clusters that one message lists.
	maxSilent = 5
)

// verdict is one cluster's condition of a type.
type verdict struct {
	cluster   string
	condition map[string]any
	status    string
}

// conditions merges the conditions of the clusters by type: each has the worst status that a cluster gives it, and reason and
// message of the latest condition that has this status. Of most types False is the worst, and what a cluster does not say of
// it is Unknown; of adverse ones True is, and silence about it is good. While clusters are silent, no condition says that all is
// well, and one more names them.
func (s *sample) conditions(adverse func(string) bool) []any {
	byType := map[string][]verdict{}
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
			byType[name] = append(byType[name], verdict{s.reported[i].Cluster, condition, status})
			if when, _ := condition["lastTransitionTime"].(string); when != "" && (latest == "" || before(latest, when)) {
				latest = when
			}
		}
	}
	var merged []any
	for name, verdicts := range byType {
		merged = append(merged, s.merge(name, verdicts, name == ConditionTruncated || adverse(name)))
	}
	if len(s.silent) > 0 {
		merged = append(merged, s.incomplete(latest))
	}
	slices.SortFunc(merged, func(a, b any) int { return strings.Compare(typeOf(a), typeOf(b)) })
	return merged
}

// merge makes one condition of those that clusters have of a type.
func (s *sample) merge(name string, verdicts []verdict, adverse bool) map[string]any {
	missing := slices.Clone(s.silent)
	if !adverse {
		said := 0 // verdicts are in the order of reports
		for i := range s.reported {
			if said < len(verdicts) && verdicts[said].cluster == s.reported[i].Cluster {
				said++
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
	for _, v := range verdicts {
		switch {
		case v.status == bad:
			status = bad
		case v.status != good && status == good:
			status = "Unknown"
		}
	}
	if status == good && len(missing) > 0 {
		return s.unheard(name, verdicts, missing)
	}

	var chosen verdict
	agreed := len(missing) == 0
	for _, v := range verdicts {
		agreed = agreed && v.status == verdicts[0].status
		same := v.status == status || status == "Unknown" && v.status != good
		if same && (chosen.condition == nil || transition(chosen.condition, v.condition) < 0) {
			chosen = v
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
	s.times(condition, verdicts)
	observed(condition, verdicts, len(missing) == 0)
	return condition
}

// unheard returns the condition of a type that is well as far as clusters say.
func (s *sample) unheard(name string, verdicts []verdict, missing []string) map[string]any {
	condition := map[string]any{
		"type": name, "status": "Unknown", "reason": controlv1alpha1.ReasonNotReported, "message": "not reported by " + listed(missing),
	}
	s.times(condition, verdicts)
	return condition
}

// times sets the times of a merged condition to the latest that clusters give: of those that any of them gives.
func (s *sample) times(condition map[string]any, verdicts []verdict) {
	for _, field := range []string{"lastTransitionTime", "lastUpdateTime", "lastProbeTime", "lastHeartbeatTime"} {
		latest := ""
		for _, v := range verdicts {
			if when, _ := v.condition[field].(string); when != "" && (latest == "" || before(latest, when)) {
				latest = when
			}
		}
		if latest != "" {
			condition[field] = latest
		}
	}
}

// observed sets the generation that a merged condition speaks of to the least of all clusters, or to none if one does not say it.
func observed(condition map[string]any, verdicts []verdict, all bool) {
	delete(condition, observedField)
	least := int64(0)
	for i, v := range verdicts {
		if n := integer(v.condition[observedField]); i == 0 || n < least {
			least = n
		}
	}
	if all && least > 0 {
		condition[observedField] = least
	}
}

// incomplete returns the condition that names the silent clusters. Conditions of many kinds need a time; the latest transition of
// the others is one that does not change unless something does.
func (s *sample) incomplete(latest string) map[string]any {
	if latest == "" {
		latest = epoch
	}
	return map[string]any{
		"type": controlv1alpha1.ConditionIncomplete, "status": "True", "reason": controlv1alpha1.ReasonNotReported,
		"message": "no status from " + listed(s.silent), "lastTransitionTime": latest,
	}
}

// transition orders conditions by the times of their last transitions.
func transition(a, b map[string]any) int {
	x, _ := a["lastTransitionTime"].(string)
	y, _ := b["lastTransitionTime"].(string)
	switch {
	case before(x, y):
		return -1
	case before(y, x):
		return 1
	}
	return 0
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

func listed(clusters []string) string {
	if more := len(clusters) - maxSilent; more > 0 {
		return fmt.Sprintf("%s … and %d more", strings.Join(clusters[:maxSilent], ", "), more)
	}
	return strings.Join(clusters, ", ")
}
