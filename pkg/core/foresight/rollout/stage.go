package rollout

import (
	"fmt"
	"slices"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
)

// Stage is how far a copy is: an object in one cluster. Each stage includes those before it.
type Stage string

// Stages.
const (
	// None: the mailbox does not have the content yet.
	None Stage = ""
	// Delivered: the mailbox of the cluster has the content.
	Delivered Stage = "delivered"
	// Applied: the cluster has reported that it applied this content.
	Applied Stage = "applied"
	// Healthy: it is applied, and healthy as far as it reports.
	Healthy Stage = "healthy"
)

var stages = []Stage{None, Delivered, Applied, Healthy}

// Stages are those that can be waited for.
func Stages() []Stage { return slices.Clone(stages[1:]) }

// ParseStage returns the stage that a user names.
func ParseStage(text string) (Stage, error) {
	if at := slices.Index(stages, Stage(text)); at > 0 {
		return stages[at], nil
	}
	return None, fmt.Errorf("invalid stage %q: must be %s, %s or %s", text, Delivered, Applied, Healthy)
}

// atLeast reports whether a stage includes another one.
func (s Stage) atLeast(other Stage) bool {
	return slices.Index(stages, s) >= slices.Index(stages, other)
}

// alive are the links about the cluster itself. What cannot be read of it does not matter once the
// cluster has reported.
var alive = []string{foresight.LinkAccepted, foresight.LinkJoined, foresight.LinkAgent, foresight.LinkAvailable, foresight.LinkAddOn}

// stageOf returns how far a copy is, and the first link that is not good on its way further; nil if
// it is healthy.
func stageOf(links []foresight.Link) (Stage, *foresight.Link) {
	stage := None
	for i := range links {
		l := &links[i]
		if l.State == foresight.Unknown && (slices.Contains(alive, l.Name) || l.Name == explain.LinkFree) {
			continue // what the mailbox has, and the cluster reports, says more
		}
		if l.State != foresight.Good {
			return stage, l
		}
		switch l.Name {
		case explain.LinkDelivered:
			stage = Delivered
		case explain.LinkApplied:
			stage = Applied
		case explain.LinkHealthy:
			return Healthy, nil
		}
	}
	if stage == Applied { // its kind reports nothing
		stage = Healthy
	}
	return stage, nil
}
