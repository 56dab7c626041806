package status

import (
	"maps"
	"slices"
)

const observedField = "observedGeneration"

// inTermsOf returns the status with each observedGeneration in the terms of the object in the WDS, whose generation is given: 0
// if its kind has none.
//
// Controllers in the cluster speak of the generations of the copy there. Whoever observed the copy's generation that was reported,
// or a later one, observed the content that it has, which is that of generation SourceGeneration in the WDS; whoever observed an
// earlier one, at most the content before. As long as it is not known which content the copy has, nobody is said to have observed
// the last one.
func (r *Report) inTermsOf(generation int64) map[string]any {
	if generation == 0 {
		return r.Status
	}
	known := r.SourceGeneration > 0 && r.SourceGeneration <= generation // more is that of an object of that name that was before
	translate := func(fields map[string]any) map[string]any {
		n := integer(fields[observedField])
		if n == 0 {
			return fields
		}
		switch {
		case !known:
			n = min(n, generation-1)
		case n >= r.Generation:
			n = r.SourceGeneration
		default:
			n = r.SourceGeneration - 1
		}
		if n == integer(fields[observedField]) {
			return fields
		}
		changed := maps.Clone(fields)
		changed[observedField] = n
		if n == 0 {
			delete(changed, observedField) // that is how none is written
		}
		return changed
	}
	status := translate(r.Status)
	conditions, _ := status[conditionsField].([]any)
	var translated []any
	for i, c := range conditions {
		fields, _ := c.(map[string]any)
		now := translate(fields)
		if translated == nil && integer(now[observedField]) != integer(fields[observedField]) {
			translated = slices.Clone(conditions)
		}
		if translated != nil && fields != nil {
			translated[i] = now
		}
	}
	if translated != nil {
		status = maps.Clone(status)
		status[conditionsField] = translated
	}
	return status
}
