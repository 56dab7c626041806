package binding

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// transported are the conditions of Bindings that policies show too.
var transported = []string{
	controlv1alpha1.BindingConditionDelivered, controlv1alpha1.BindingConditionApplied, controlv1alpha1.BindingConditionHealthy,
}

// merge returns what the Bindings of one policy report together: of a condition the worst, of the
// objects some.
func merge(bindings []*controlv1alpha1.Binding) *controlv1alpha1.Binding {
	if len(bindings) == 0 {
		return nil
	}
	if len(bindings) == 1 {
		return bindings[0]
	}
	// Of the specs, one that lists objects is enough: all have the same destinations.
	some := max(0, slices.IndexFunc(bindings, func(b *controlv1alpha1.Binding) bool { return CountObjects(&b.Spec) > 0 }))
	merged := &controlv1alpha1.Binding{ObjectMeta: bindings[0].ObjectMeta, Spec: bindings[some].Spec}
	merged.Status.ObservedGeneration = merged.Generation
	for _, b := range bindings {
		if unobserved(b) {
			merged.Status.ObservedGeneration = merged.Generation - 1
		}
		merged.Status.Errors = append(merged.Status.Errors, b.Status.Errors...)
		merged.Status.Problems = append(merged.Status.Problems, b.Status.Problems...)
		merged.Status.ProblemsCount += b.Status.ProblemsCount
	}
	const maxProblems = 10
	slices.Sort(merged.Status.Problems)
	merged.Status.Problems = merged.Status.Problems[:min(len(merged.Status.Problems), maxProblems)]
	for _, kind := range transported {
		if worst := worstOf(bindings, kind); worst != nil {
			meta.SetStatusCondition(&merged.Status.Conditions, *worst)
		}
	}
	merged.Status.Rollup = sum(bindings)
	return merged
}

// sum adds up what the Bindings of a policy count; all have the same clusters. It returns nil as
// long as one has not counted.
func sum(bindings []*controlv1alpha1.Binding) *controlv1alpha1.Rollup {
	var sum controlv1alpha1.Rollup
	for _, b := range bindings {
		r := b.Status.Rollup
		if r == nil {
			return nil
		}
		sum.Objects += r.Objects
		sum.Clusters = max(sum.Clusters, r.Clusters)
		sum.Copies += r.Copies
		sum.Applied += r.Applied
		sum.Healthy += r.Healthy
		sum.Incomplete = sum.Incomplete || r.Incomplete
	}
	SetTexts(&sum)
	return &sum
}

// SetTexts sets the texts of a Rollup from its numbers.
func SetTexts(r *controlv1alpha1.Rollup) {
	copies := strconv.FormatInt(r.Copies, 10)
	if r.Incomplete {
		copies = "?"
	}
	r.AppliedOf, r.HealthyOf = fmt.Sprintf("%d/%s", r.Applied, copies), fmt.Sprintf("%d/%s", r.Healthy, copies)
}

// worstOf returns the worst condition of the kind, with the messages of all that are as bad; nil if
// one of the Bindings has none.
func worstOf(bindings []*controlv1alpha1.Binding, kind string) *metav1.Condition {
	badness := map[metav1.ConditionStatus]int{metav1.ConditionTrue: 0, metav1.ConditionUnknown: 1, metav1.ConditionFalse: 2}
	var worst metav1.Condition
	var messages []string
	for _, b := range bindings {
		c := condition(b, kind)
		if c == nil {
			return nil
		}
		if len(messages) == 0 || badness[c.Status] > badness[worst.Status] {
			worst, messages = *c, nil
		}
		if c.Status == worst.Status && !slices.Contains(messages, c.Message) {
			messages = append(messages, c.Message)
		}
	}
	const maxMessages = 3
	worst.Message = text.Join(messages, "; ", maxMessages)
	return &worst
}

// unobserved reports whether the transport-controller has not reported on the Binding as it is.
func unobserved(binding *controlv1alpha1.Binding) bool {
	return binding != nil && binding.Status.ObservedGeneration < binding.Generation
}

func condition(binding *controlv1alpha1.Binding, kind string) *metav1.Condition {
	if binding == nil {
		return nil
	}
	return meta.FindStatusCondition(binding.Status.Conditions, kind)
}
