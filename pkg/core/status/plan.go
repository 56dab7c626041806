package status

import (
	"encoding/json"
	"fmt"
	"maps"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// View is what an object of a WDS holds, as far as status return is concerned.
type View struct {
	// Labelled tells whether the object has the label that marks returned status.
	Labelled bool
	// Status is the object's .status: as it was read, or as it was returned last. nil for none.
	Status map[string]any
}

// Step is one write of an object. A step is a merge patch, so that fields that the WDS's schema does not know are dropped
// by its API server and do not make it refuse the rest.
type Step struct {
	// Status tells whether the patch is one of .status; otherwise it is one of the labels.
	Status bool
	// Patch is a JSON merge patch of the whole object.
	Patch map[string]any
	// Reason is a short word that says why.
	Reason string
}

// String shows the step on one line, without the values of the status.
func (s Step) String() string {
	what := "labels"
	if s.Status {
		what = "status"
	}
	return fmt.Sprintf("%s: %s", s.Reason, what)
}

// Plan returns the steps that make what an object holds what was decided; none if it holds that already.
//
// The label is set before the first status and removed after it is cleared: an object whose status was returned carries the
// label at every moment, so a controller that was interrupted finds it and goes on.
func Plan(have View, d Decision) []Step {
	switch d.Action {
	case Copy:
		var steps []Step
		if !have.Labelled {
			steps = append(steps, labelStep("true", "label"))
		}
		if patch, changed := MergePatch(have.Status, d.Status); changed {
			steps = append(steps, Step{Status: true, Patch: map[string]any{"status": patch}, Reason: "return"})
		}
		return steps
	case Clear:
		if !have.Labelled {
			return nil // not ours
		}
		var steps []Step
		if len(have.Status) > 0 {
			steps = append(steps, Step{Status: true, Patch: map[string]any{"status": nil}, Reason: "clear"})
		}
		return append(steps, labelStep(nil, "unlabel"))
	case Keep:
	}
	return nil
}

// Encode returns the step's patch as JSON. A resourceVersion other than "" makes the write fail with a conflict unless it
// is the object's: the step was decided on that version.
func (s Step) Encode(resourceVersion string) ([]byte, error) {
	patch := s.Patch
	if resourceVersion != "" {
		metadata := map[string]any{"resourceVersion": resourceVersion}
		if given, ok := s.Patch["metadata"].(map[string]any); ok {
			maps.Copy(metadata, given)
		}
		patch = map[string]any{"metadata": metadata}
		if status, ok := s.Patch["status"]; ok {
			patch["status"] = status
		}
	}
	return json.Marshal(patch)
}

func labelStep(value any, reason string) Step {
	return Step{
		Patch:  map[string]any{"metadata": map[string]any{"labels": map[string]any{controlv1alpha1.LabelSingletonStatus: value}}},
		Reason: reason,
	}
}
