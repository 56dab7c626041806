package reports

import (
	"strconv"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// generationOf returns the number in an annotation of a WorkStatus, 0 if there is none.
func generationOf(ws *controlv1alpha1.WorkStatus, annotation string) int64 {
	n, err := strconv.ParseInt(ws.Annotations[annotation], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
