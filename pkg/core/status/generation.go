package status

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const observedField = "observedGeneration"

// Source identifies the object in the WDS that a copy in a cluster is of, and its content: the
// generation, or a hash if its kind has none. The UID is part of it: a re-created object has the
// name of the former one, its generations start at 1 again, and a cluster may have the former one
// for a long time. The Generation is 0, and the Hash empty, if it is not named. The zero Source
// identifies nothing.
type Source struct {
	UID        types.UID
	Generation int64
	Hash       string
}

// NamesContent reports whether the Source says which content it is of.
func (s Source) NamesContent() bool { return s.UID != "" && (s.Generation > 0 || s.Hash != "") }

// IsOf reports whether what is known of a copy whose source has the first UID is about the object
// with the second one. What does not name its object is: older agents do not report it, and what
// several WDSes deliver alike names none.
func IsOf(source, object types.UID) bool { return source == "" || object == "" || source == object }

// String returns the value of the annotation, "" for the zero Source.
func (s Source) String() string {
	if s == (Source{}) {
		return ""
	}
	text := strconv.FormatInt(s.Generation, 10) + "/" + string(s.UID)
	if s.Hash != "" {
		text += "/" + s.Hash
	}
	return text
}

// ParseSource parses the result of String. It returns false if the text is invalid.
func ParseSource(text string) (Source, bool) {
	number, rest, _ := strings.Cut(text, "/")
	uid, hash, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || uid == "" {
		return Source{}, false
	}
	return Source{types.UID(uid), n, hash}, true
}

// inTermsOf returns the status with each observedGeneration replaced by a generation of the object
// in the WDS. The generation of now is 0 if the kind has none.
//
// Controllers in the cluster observe generations of the copy there. A controller that observed the
// reported generation of the copy, or a later one, has observed its content, which is that of
// generation Source.Generation in the WDS. A controller that observed an earlier generation has
// observed at most the content before. If the content of the copy is unknown, the result never
// claims that a controller has observed the latest generation.
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
			delete(changed, observedField) // absent means that none was observed
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
