package status

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// general aggregates statuses of unknown kinds, by the conventions of Kubernetes' APIs:
//
//   - conditions are merged by type;
//   - observedGeneration, replicas and other counters of progress are the minimum; counters of what
//     is missing are the maximum;
//   - other numbers are the minimum; a boolean is true if it is true in all clusters;
//   - objects are aggregated field by field;
//   - any other field is included if it is equal in all clusters, and omitted otherwise.
//
// While clusters are silent, counters of progress are 0 and booleans are false. All other fields
// are omitted, since their values in those clusters are unknown.
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
	if !conditional || !some {
		return unite(statuses, len(s.silent) == 0)
	}
	for i := range statuses {
		delete(statuses[i], conditionsField)
	}
	aggregate := unite(statuses, len(s.silent) == 0)
	if merged := s.conditions(adverse); len(merged) > 0 {
		aggregate[conditionsField] = merged
	}
	return aggregate
}

// areConditions reports whether a value is nil or a list of conditions.
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

// unite aggregates objects field by field. Complete is true if no cluster is silent.
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

// uniteField aggregates the values of one field. Everywhere is true if all clusters report the
// field.
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
	case all(values, is[bool]):
		return everywhere && !slices.Contains(values, any(false))
	case !all(values, is[map[string]any]):
		if !everywhere || slices.ContainsFunc(values, func(v any) bool { return !reflect.DeepEqual(v, values[0]) }) {
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

func isNumber(value any) bool { return is[int64](value) || is[float64](value) }

func is[T any](value any) bool {
	_, ok := value.(T)
	return ok
}

// extreme returns the maximum (sign 1) or the minimum (sign -1) of numbers.
func extreme(values []any, sign float64) any {
	best := values[0]
	for _, value := range values[1:] {
		if sign*(number(value)-number(best)) > 0 {
			best = value
		}
	}
	if v, ok := best.(float64); ok && v == float64(int64(v)) {
		return int64(v) // 1.0 and 1 are equal, so the result must not depend on which is first
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

// isProgress reports whether a number is a counter of progress, judging by the field's name.
func isProgress(field string) bool {
	name := strings.ToLower(field)
	return name == strings.ToLower(observedField) || strings.Contains(name, "replicas") || hasPrefix(name, "ready", "available", "updated", "succeeded", "completed", "numberready", "numberavailable") ||
		strings.HasSuffix(name, "ready")
}

// isLack reports whether a number counts what is missing or wrong, judging by the field's name.
func isLack(field string) bool {
	return hasPrefix(strings.ToLower(field), "unavailable", "unready", "unhealthy", "unsched", "failed", "terminating", "missing", "pending", "error",
		"numberunavailable", "numbermis")
}

// adverse reports, for unknown kinds, whether True is the bad status of a condition type: for the
// types in the conventions of Kubernetes and kstatus, and by the suffix of the name.
func adverse(conditionType string) bool {
	return slices.Contains([]string{"Stalled", "Reconciling", "Degraded", "Failed", "Error", "Suspended", "Terminating"}, conditionType) ||
		slices.ContainsFunc([]string{"Failure", "Failed", "Error", "Pressure", "Unavailable"}, func(end string) bool { return strings.HasSuffix(conditionType, end) })
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
