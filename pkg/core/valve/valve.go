// Package valve reads how much may be taken away at once from whoever asks for it by a change: the limits of safety valves. It is pure.
package valve

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// half is the default of Limits.Percent.
const half = 50

// Limits say how an object wants to be held.
type Limits struct {
	// Off: nothing is held.
	Off bool
	// Percent is how many, in percent, a change may take away; Count, if it is not negative, how many.
	Percent, Count int
	// Release is the token of the change that is released, "" for none.
	Release string
}

// Parse reads the annotations of an object; things is what the limits count. What cannot be read is told, each by its annotation, and
// counts as not there.
func Parse(annotations map[string]string, things string) (Limits, []string) {
	l := Limits{Percent: half, Count: -1, Release: strings.TrimSpace(annotations[controlv1alpha1.AnnotationReleaseHeld])}
	var mistakes []string
	if text, ok := annotations[controlv1alpha1.AnnotationSafetyValve]; ok {
		switch strings.TrimSpace(text) {
		case "off":
			l.Off = true
		case "on":
		default:
			mistakes = append(mistakes, fmt.Sprintf("metadata.annotations[%s]: %q must be on or off; it is on", controlv1alpha1.AnnotationSafetyValve, text))
		}
	}
	if text, ok := annotations[controlv1alpha1.AnnotationMaxRemoval]; ok {
		if err := l.parse(strings.TrimSpace(text), things); err != nil {
			mistakes = append(mistakes, fmt.Sprintf("metadata.annotations[%s]: %q %s; the limit is %d%%", controlv1alpha1.AnnotationMaxRemoval, text, err, half))
		}
	}
	return l, mistakes
}

func (l *Limits) parse(text, things string) error {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || n < 0:
		return fmt.Errorf("must be a number of %s, or a percentage such as 80%%", things)
	case percent && n > 100:
		return errors.New("is more than 100%")
	case percent:
		l.Percent = n
	default:
		l.Count = n
	}
	return nil
}

// Allow tells whether a change may take so many of all away.
func (l *Limits) Allow(taken, all int) bool {
	if l.Count >= 0 {
		return taken <= l.Count
	}
	return taken*100 <= l.Percent*all
}
