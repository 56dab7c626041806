package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// View is the part of an object of a WDS that status return uses.
type View struct {
	// Labels are the labels of the object that status return writes; see OwnLabels.
	Labels map[string]string
	// Status is the object's .status, as it was last read or returned; nil if it has none.
	Status map[string]any
}

// formLabels mark an object whose status was returned, with the form.
var formLabels = []string{controlv1alpha1.LabelSingletonStatus, controlv1alpha1.LabelMultiWECStatus}

// ownLabels are the labels that status return writes.
var ownLabels = append(slices.Clone(formLabels), controlv1alpha1.LabelExecutingCount)

// OwnLabels returns the labels that status return writes, nil for none.
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

// Returned reports whether the labels mark the object's status as returned.
func (v View) Returned() bool {
	return slices.ContainsFunc(formLabels, func(key string) bool { _, ok := v.Labels[key]; return ok })
}

// Step is one write of an object. It is a merge patch, so the API server of the WDS drops fields
// that its schema does not have, and does not refuse the other fields.
type Step struct {
	// Status is true for a patch of .status, false for a patch of labels.
	Status bool
	// Patch is a JSON merge patch of the whole object.
	Patch map[string]any
	// Reason is one word, for logs and metrics.
	Reason string
}

// String returns the step on one line, without the values of the status.
func (s Step) String() string {
	what := "labels"
	if s.Status {
		what = "status"
	}
	return fmt.Sprintf("%s: %s", s.Reason, what)
}

// Plan returns the steps that carry out the decision for an object of that resource, and what the
// object has afterwards. There are no steps if the object is up to date. Refused are fields of the
// status that the API server refuses to change: they are not written.
//
// The label is set before the first status is written, and removed after the status is cleared. So
// an object whose status was returned always has one of the two labels, and a controller that was
// interrupted finds the object and continues.
func Plan(gr schema.GroupResource, have View, d Decision, refused []string) (steps []Step, after View) {
	after = View{Labels: d.labels(have), Status: have.Status}
	relabeling := relabel(have.Labels, after.Labels, d.Action)
	switch {
	case d.Action == Copy, d.Action == Combine, d.Action == Clear && have.Returned():
		after.Status = accepted(gr, have.Status, d.Status)
		for _, field := range refused {
			after.Status = with(after.Status, field, have.Status[field])
		}
	}
	patch, changed := MergePatch(have.Status, after.Status)
	step := Step{Status: true, Patch: map[string]any{"status": patch}, Reason: "return"}
	if d.Action == Clear {
		step.Reason = "clear"
		if changed && len(after.Status) == 0 {
			step.Patch["status"] = nil
			after.Status = nil
		}
	}
	switch {
	case !changed:
		return relabeling, after
	case d.Action == Clear:
		return append([]Step{step}, relabeling...), after
	}
	return append(relabeling, step), after
}

// labels returns the desired labels, of those that status return writes.
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

// relabel returns the step that changes the labels, if they differ. The metric has the same
// reasons.
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

// Encode returns the step's patch as JSON. If resourceVersion is not "", the write fails with a
// conflict unless the object has that resourceVersion, on which the step was decided.
func (s Step) Encode(resourceVersion string) ([]byte, error) {
	patch := maps.Clone(s.Patch)
	if resourceVersion != "" {
		metadata := map[string]any{"resourceVersion": resourceVersion}
		if given, ok := s.Patch["metadata"].(map[string]any); ok {
			maps.Copy(metadata, given)
		}
		patch["metadata"] = metadata
	}
	return json.Marshal(patch)
}
