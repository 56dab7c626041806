package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// View is what an object of a WDS holds, as far as status return is concerned.
type View struct {
	// Labels are those of OwnLabels that the object has.
	Labels map[string]string
	// Status is the object's .status: as it was read, or as it was returned last. nil for none.
	Status map[string]any
}

// formLabels mark an object whose status was returned, and in which form.
var formLabels = []string{controlv1alpha1.LabelSingletonStatus, controlv1alpha1.LabelMultiWECStatus}

// ownLabels are the labels that status return writes.
var ownLabels = append(slices.Clone(formLabels), controlv1alpha1.LabelExecutingCount)

// OwnLabels returns those labels that status return writes, nil for none.
func OwnLabels(labels map[string]string) map[string]string {
	var own map[string]string
	for _, key := range ownLabels {
		if value, ok := labels[key]; ok {
			if own == nil {
				own = map[string]string{}
			}
			own[key] = value
		}
	}
	return own
}

// Returned tells whether the object is marked as one whose status was returned.
func (v View) Returned() bool {
	return slices.ContainsFunc(formLabels, func(key string) bool { _, ok := v.Labels[key]; return ok })
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

// Plan returns the steps that make what an object of that resource holds what was decided, none if it holds that already; and
// what it holds then. Refused are fields of the status that its API server does not let us write: they stay as they are.
//
// The label is set before the first status and removed after it is cleared: an object whose status was returned carries one of
// the two at every moment, so a controller that was interrupted finds it and goes on.
func Plan(gr schema.GroupResource, have View, d Decision, refused []string) (steps []Step, after View) {
	after = View{Labels: d.labels(have), Status: have.Status}
	relabel := relabel(have.Labels, after.Labels, d.Action)
	switch {
	case d.Action == Copy, d.Action == Combine, d.Action == Clear && have.Returned():
		after.Status = accepted(gr, have.Status, d.Status)
		for _, field := range refused {
			after.Status = with(after.Status, field, have.Status[field])
		}
	}
	patch, changed := MergePatch(have.Status, after.Status)
	if d.Action == Clear {
		if changed {
			step := Step{Status: true, Patch: map[string]any{"status": patch}, Reason: "clear"}
			if len(after.Status) == 0 {
				step.Patch["status"] = nil
				after.Status = nil
			}
			steps = append(steps, step)
		}
		return append(steps, relabel...), after
	}
	if changed {
		return append(relabel, Step{Status: true, Patch: map[string]any{"status": patch}, Reason: "return"}), after
	}
	return relabel, after
}

// labels returns the labels that the object shall have of those that are ours.
func (d Decision) labels(have View) map[string]string {
	if !d.Known {
		return have.Labels
	}
	labels := map[string]string{}
	switch d.Action {
	case Copy:
		labels[controlv1alpha1.LabelSingletonStatus] = "true"
	case Combine:
		labels[controlv1alpha1.LabelMultiWECStatus] = "true"
	case Keep:
		maps.Copy(labels, have.Labels)
		delete(labels, controlv1alpha1.LabelExecutingCount)
	case Clear:
	}
	if d.Executing != "" {
		labels[controlv1alpha1.LabelExecutingCount] = d.Executing
	}
	return labels
}

// relabel returns the step that makes the labels before those after, if there is one. Reasons are those of the metric.
func relabel(before, after map[string]string, action Action) []Step {
	patch := map[string]any{}
	for key := range before {
		if _, stays := after[key]; !stays {
			patch[key] = nil
		}
	}
	for key, value := range after {
		if before[key] != value {
			patch[key] = value
		}
	}
	if len(patch) == 0 {
		return nil
	}
	reason := "label"
	if action == Clear {
		reason = "unlabel"
	}
	if _, counts := patch[controlv1alpha1.LabelExecutingCount]; counts && len(patch) == 1 {
		reason = "count"
	}
	return []Step{{Patch: map[string]any{"metadata": map[string]any{"labels": patch}}, Reason: reason}}
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
