package status

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// general aggregates statuses of kinds of which nothing is known but the customs of Kubernetes' APIs:
//
//   - conditions are merged by type;
//   - observedGeneration, replicas and other counters of what is ready are the least; counters of what is not, the most;
//   - other numbers are the least; a boolean is true if it is so everywhere;
//   - objects are aggregated field by field;
//   - of everything else, what all clusters report alike is kept, and what differs is left out.
//
// While clusters are silent, counters of what is ready are 0 and booleans false; everything else is left out, since it is not known to be
// the same there.
func (s *sample) general() map[string]any {
	statuses := make([]map[string]any, len(s.reported))
	conditional := true
	some := false
	for i := range s.reported {
		statuses[i] = maps.Clone(s.reported[i].Status)
		if statuses[i] == nil {
			statuses[i] = map[string]any{}
		}
		conditional = conditional && areConditions(statuses[i][conditionsField])
		some = some || statuses[i][conditionsField] != nil
	}
	var merged []any
	if conditional && some {
		merged = s.conditions(adverse)
		for i := range statuses {
			delete(statuses[i], conditionsField)
		}
	}
	aggregate := unite(statuses, len(s.silent) == 0)
	if len(merged) > 0 {
		aggregate[conditionsField] = merged
	}
	return aggregate
}

// areConditions tells whether a value is a list of conditions, or nothing.
func areConditions(value any) bool {
	if value == nil {
		return true
	}
	list, ok := value.([]any)
	return ok && !slices.ContainsFunc(list, func(c any) bool {
		fields, _ := c.(map[string]any)
		_, ok := fields["status"].(string)
		return !ok || typeOf(c) == ""
	})
}

// unite aggregates objects field by field. Complete tells that no cluster is silent.
func unite(objects []map[string]any, complete bool) map[string]any {
	keys := map[string]struct{}{}
	for _, object := range objects {
		for key := range object {
			keys[key] = struct{}{}
		}
	}
	united := map[string]any{}
	for key := range keys {
		values := make([]any, 0, len(objects))
		for _, object := range objects {
			if value := object[key]; value != nil {
				values = append(values, value)
			}
		}
		if value := uniteField(key, values, complete && len(values) == len(objects), complete); value != nil {
			united[key] = value
		}
	}
	return united
}

// uniteField aggregates the values that clusters report of one field: everywhere tells that all do.
func uniteField(key string, values []any, everywhere, complete bool) any {
	switch {
	case all(values, isNumber):
		switch {
		case isLack(key):
			return extreme(values, 1)
		case isProgress(key) && !everywhere:
			return int64(0)
		case isProgress(key) || complete:
			return extreme(values, -1)
		}
		return nil
	case all(values, isBool):
		return everywhere && !slices.Contains(values, any(false))
	case !everywhere:
		if all(values, isObject) {
			break
		}
		return nil
	case !all(values, isObject):
		if slices.ContainsFunc(values, func(v any) bool { return !reflect.DeepEqual(v, values[0]) }) {
			return nil
		}
		return values[0]
	}
	objects := make([]map[string]any, len(values))
	for i, value := range values {
		objects[i], _ = value.(map[string]any)
	}
	united := unite(objects, everywhere)
	if len(united) == 0 && !slices.ContainsFunc(objects, func(o map[string]any) bool { return len(o) == 0 }) {
		return nil
	}
	return united
}

func all(values []any, is func(any) bool) bool {
	return len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { return !is(v) })
}

func isNumber(value any) bool {
	switch value.(type) {
	case int64, float64:
		return true
	}
	return false
}

func isBool(value any) bool { _, ok := value.(bool); return ok }

func isObject(value any) bool { _, ok := value.(map[string]any); return ok }

// extreme returns the most (sign 1) or the least (sign -1) of numbers.
func extreme(values []any, sign float64) any {
	best := values[0]
	for _, value := range values[1:] {
		if sign*(number(value)-number(best)) > 0 {
			best = value
		}
	}
	if v, ok := best.(float64); ok && v == float64(int64(v)) {
		return int64(v) // 1.0 of one cluster and 1 of another are the same, whichever came first
	}
	return best
}

func number(value any) float64 {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// isProgress tells by its name whether a number says how far something got.
func isProgress(field string) bool {
	name := strings.ToLower(field)
	return name == strings.ToLower(observedField) || strings.Contains(name, "replicas") || hasPrefix(name, "ready", "available", "updated", "succeeded", "completed", "numberready", "numberavailable") ||
		strings.HasSuffix(name, "ready")
}

// isLack tells by its name whether a number says how much is not as it should be.
func isLack(field string) bool {
	return hasPrefix(strings.ToLower(field), "unavailable", "unready", "unhealthy", "unsched", "failed", "terminating", "missing", "pending", "error",
		"numberunavailable", "numbermis")
}

// adverse tells of conditions of kinds that are not known whether True is the bad state: those that the conventions of
// Kubernetes and kstatus name, and those whose name says so.
func adverse(conditionType string) bool {
	return slices.Contains([]string{"Stalled", "Reconciling", "Degraded", "Failed", "Error", "Suspended", "Terminating"}, conditionType) ||
		slices.ContainsFunc([]string{"Failure", "Failed", "Error", "Pressure", "Unavailable"}, func(end string) bool { return strings.HasSuffix(conditionType, end) })
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
