package works

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// Left returns the annotation AnnotationLeft of a work. Names are hashed, since there may be a
// thousand of them.
func Left(left plan.Left) string {
	entries := make([]string, 0, len(left))
	for key, source := range left {
		entries = append(entries, key+":"+string(source))
	}
	slices.Sort(entries)
	return strings.Join(entries, ",")
}

// readLeft reads what Left returned, as far as it is about objects that the cluster lists. A
// cluster that is behind may have all of them.
func readLeft(text string, listed []objref.Ref, behind bool) plan.Left {
	if text == "" || len(listed) == 0 && !behind {
		return nil
	}
	left := plan.Left{}
	for entry := range strings.SplitSeq(text, ",") {
		if key, source, ok := strings.Cut(entry, ":"); ok && key != "" {
			left[key] = types.UID(source)
		}
	}
	if behind {
		return left
	}
	keys := map[string]bool{}
	for _, ref := range listed {
		keys[plan.LeftKey(ref)] = true
	}
	maps.DeleteFunc(left, func(key string, _ types.UID) bool { return !keys[key] })
	return left
}
