// Package removalblock reads the limits of removal blocks: how much one change may remove at once.
// It is pure.
package removalblock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// half is the default of Limits.Percent.
const half = 50

// Limits are the limits of one object.
type Limits struct {
	// Off: nothing is blocked.
	Off bool
	// Percent is how many percent a change may remove. Count, if it is not negative, is how many,
	// and replaces Percent.
	Percent, Count int
	// Token is that of the change that a user allowed, "" for none.
	Token string
}

// Parse reads the annotations of an object; things is what the limits count. It returns a message
// for each annotation that cannot be read. Such an annotation has no effect.
func Parse(annotations map[string]string, things string) (Limits, []string) {
	l := Limits{Percent: half, Count: -1, Token: strings.TrimSpace(annotations[controlv1alpha1.AnnotationAllowRemoval])}
	var mistakes []string
	if text, ok := annotations[controlv1alpha1.AnnotationRemovalBlock]; ok {
		switch strings.TrimSpace(text) {
		case "off":
			l.Off = true
		case "on":
		default:
			mistakes = append(mistakes, fmt.Sprintf("metadata.annotations[%s]: %q must be on or off; on is used", controlv1alpha1.AnnotationRemovalBlock, text))
		}
	}
	if text, ok := annotations[controlv1alpha1.AnnotationMaxRemoval]; ok {
		if err := l.parse(strings.TrimSpace(text), things); err != nil {
			mistakes = append(mistakes, fmt.Sprintf("metadata.annotations[%s]: %q %s; %d%% is used", controlv1alpha1.AnnotationMaxRemoval, text, err, half))
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

// Allow reports whether a change may remove so many of all.
func (l *Limits) Allow(removed, all int) bool {
	if l.Count >= 0 {
		return removed <= l.Count
	}
	return removed*100 <= l.Percent*all
}
