package reports

import (
	"strconv"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// generationOf returns the generation of the copy that a WorkStatus tells of, 0 if it does not say it.
func generationOf(ws *controlv1alpha1.WorkStatus) int64 {
	n, err := strconv.ParseInt(ws.Annotations[controlv1alpha1.AnnotationGeneration], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
