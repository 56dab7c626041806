package delivery

import (
	"fmt"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
)

const wayOut = "make the contents equal, or remove the object from one of the two"

// conflictTexts returns what users should know of the conflicts at one destination: claims are
// objects that another owner delivers, disputes those that another owner wants as well.
func conflictTexts(conflicts []plan.Conflict) (claims, disputes []string) {
	for i := range conflicts {
		c := &conflicts[i]
		with := c.With.Text()
		if c.Ours {
			disputes = append(disputes, fmt.Sprintf("%s: %s wants to deliver this object too, with different content; this Binding delivers it: %s", c.Ref, with, wayOut))
			continue
		}
		delivers := "delivers"
		if !c.With.Delivers() {
			delivers = "is next to deliver"
		}
		claims = append(claims, fmt.Sprintf("%s: %s %s this object, with different content; this Binding does not deliver it: %s", c.Ref, with, delivers, wayOut))
	}
	return Bound(claims), Bound(disputes)
}

// onRemoval is the option of an object that will be orphaned.
const onRemoval = controlv1alpha1.AnnotationOnRemoval + ": orphan"

// leavingTexts returns what is being handed over, and why that does not go on.
func leavingTexts(leaving []plan.HandOver) (texts, failures []string) {
	for i := range leaving {
		h := &leaving[i]
		if h.Behind != nil {
			texts = append(texts, fmt.Sprintf("%s is not removed while the cluster's agent cannot read %s of the same ManifestWork; make that possible, or remove it: %s",
				h.Ref, h.Behind.Ref, h.Behind.Refusal()))
			continue
		}
		if h.Kept {
			texts = append(texts, fmt.Sprintf("%s was re-created, and waits until somebody deletes the former object of that name, which the cluster keeps", h.Ref))
			continue
		}
		if h.Former {
			texts = append(texts, fmt.Sprintf("%s was re-created, and waits until the cluster has deleted the former object of that name", h.Ref))
			continue
		}
		if h.To == (plan.Owner{}) {
			texts = append(texts, fmt.Sprintf("%s stays until the cluster has reported that it will keep the object (%s)", h.Ref, onRemoval))
			if h.Failed != nil {
				failures = append(failures, fmt.Sprintf("%s: the cluster cannot apply it, and would delete it (%s): %s", h.Ref, onRemoval, h.Failed.Refusal()))
			}
			continue
		}
		to := h.To.Text()
		if h.Waits {
			texts = append(texts, fmt.Sprintf("%s stays until %s has delivered it", h.Ref, to))
		} else {
			texts = append(texts, fmt.Sprintf("%s is being handed over to %s", h.Ref, to))
		}
		if h.Failed != nil {
			failures = append(failures, fmt.Sprintf("%s: cannot be handed over to %s: %s", h.Ref, to, h.Failed.Refusal()))
		}
	}
	return Bound(texts), Bound(failures)
}

// MaxTexts bounds the texts about one destination, and those in a status.
const MaxTexts = 32

// Bound returns texts sorted, each once, and the list of bounded length. It is nil if there are
// none.
func Bound(texts []string) []string { return BoundMore(texts, 0) }

// BoundMore is Bound for the first of some texts, given how many more there are, which are none of
// them. There must be at least MaxTexts then.
func BoundMore(texts []string, more int) []string {
	if len(texts) == 0 {
		return nil
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(texts)))
	if more == 0 {
		return text.Bound(sorted, MaxTexts)
	}
	return append(slices.Clip(sorted[:MaxTexts]), text.More(len(sorted)-MaxTexts+more))
}
