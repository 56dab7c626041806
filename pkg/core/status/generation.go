package status

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const observedField = "observedGeneration"

// Source names content: that of a generation of an object in the WDS. The UID belongs to it, since an object that is made anew counts
// from 1 again, and a cluster may have the content of the one before for long. The zero Source names none.
type Source struct {
	UID        types.UID
	Generation int64
}

// String returns it as annotations have it, "" for none.
func (s Source) String() string {
	if s == (Source{}) {
		return ""
	}
	return strconv.FormatInt(s.Generation, 10) + "/" + string(s.UID)
}

// ParseSource reads what String returned; false if it names no content.
func ParseSource(text string) (Source, bool) {
	number, uid, _ := strings.Cut(text, "/")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || uid == "" {
		return Source{}, false
	}
	return Source{types.UID(uid), n}, true
}

// inTermsOf returns the status with each observedGeneration in the terms of the object in the WDS as it is now; its generation is 0
// if its kind has none.
//
// Controllers in the cluster speak of the generations of the copy there. Whoever observed the copy's generation that was reported,
// or a later one, observed the content that it has, which is that of generation Source.Generation in the WDS; whoever observed an
// earlier one, at most the content before. As long as it is not known which content the copy has, nobody is said to have observed
// the last one.
func (r *Report) inTermsOf(now Source) map[string]any {
	if now.Generation == 0 {
		return r.Status
	}
	known := r.Source.UID == now.UID && r.Source.Generation > 0 && r.Source.Generation <= now.Generation
	translate := func(fields map[string]any) map[string]any {
		n := integer(fields[observedField])
		if n == 0 {
			return fields
		}
		switch {
		case !known:
			n = min(n, now.Generation-1)
		case n >= r.Generation:
			n = r.Source.Generation
		default:
			n = r.Source.Generation - 1
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
