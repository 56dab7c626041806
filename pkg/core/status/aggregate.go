package status

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Reported is the status of an object in one cluster.
type Reported struct {
	Cluster string
	Status  map[string]any
}

// Aggregate returns one status for the statuses of several clusters, by the rules of the kind
// (rules.go), or by general rules for kinds without their own (general.go). Silent are the clusters
// that should report and do not. Their state is unknown, so the result never looks more complete
// than it would if they had not started yet.
//
// The order of both lists does not matter. The result may share values with the statuses, and must
// not be changed.
func Aggregate(gr schema.GroupResource, reported []Reported, silent []string) map[string]any {
	s := &sample{reported: slices.Clone(reported), silent: slices.Sorted(slices.Values(silent))}
	slices.SortFunc(s.reported, func(a, b Reported) int { return strings.Compare(a.Cluster, b.Cluster) })
	rules, known := kinds[gr]
	if !known {
		return s.general()
	}
	aggregate := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(rules.fields)) {
		if value := rules.fields[name](s, name); value != nil {
			aggregate[name] = value
		}
	}
	if !rules.unconditional {
		if merged := s.conditions(rules.adverse); len(merged) > 0 {
			aggregate[conditionsField] = merged
		}
	}
	if rules.finish != nil {
		rules.finish(s, aggregate)
	}
	return aggregate
}

// sample is the input of an aggregate.
type sample struct {
	reported []Reported // by cluster
	silent   []string   // sorted
}

// numbers returns the values of a field. An absent field is zero: API servers omit zeroes.
func (s *sample) numbers(field string) []int64 {
	values := make([]int64, len(s.reported))
	for i := range s.reported {
		values[i] = integer(s.reported[i].Status[field])
	}
	return values
}

// texts returns the values of a field, "" if it is absent.
func (s *sample) texts(field string) []string {
	values := make([]string, len(s.reported))
	for i := range s.reported {
		values[i], _ = s.reported[i].Status[field].(string)
	}
	return values
}

// anywhere reports whether any cluster reports the field.
func (s *sample) anywhere(field string) bool {
	return slices.ContainsFunc(s.reported, func(r Reported) bool { return r.Status[field] != nil })
}

// integer returns a decoded value as a whole number, 0 if it is not a number.
func integer(value any) int64 {
	switch v := value.(type) {
	case int64:
		return v
	case float64:
		return int64(v)
	}
	return 0
}
