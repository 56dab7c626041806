package binding

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Collectors is what is known of the StatusCollectors that a policy names.
type Collectors struct {
	// Named: the policy names some.
	Named bool
	// Missing and Invalid are sorted. Unless Known, nothing is known.
	Missing, Invalid []string
	Known            bool
}

// CollectorsIn returns the names of the StatusCollectors that the policy names, sorted.
func CollectorsIn(spec *controlv1alpha1.BindingPolicySpec) []string {
	var names []string
	for i := range spec.Downsync {
		names = append(names, spec.Downsync[i].StatusCollectors...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// setCollectors reports whether the StatusCollectors exist, in the contract's words. As long as
// that is not known, the condition stays as it is.
func setCollectors(conditions *[]metav1.Condition, of Collectors, set func(metav1.Condition)) {
	if !of.Named {
		meta.RemoveStatusCondition(conditions, controlv1alpha1.BindingPolicyConditionCollectors)
		return
	}
	if !of.Known {
		return
	}
	c := metav1.Condition{
		Type: controlv1alpha1.BindingPolicyConditionCollectors, Status: metav1.ConditionTrue,
		Reason: controlv1alpha1.ReasonReconcileSuccess, Message: "All StatusCollector(s) are available",
	}
	var wrong []string
	if len(of.Missing) > 0 {
		wrong = append(wrong, "Missing StatusCollector(s) "+bracketed(of.Missing))
	}
	if len(of.Invalid) > 0 {
		wrong = append(wrong, "StatusCollector(s) with errors, see their status.errors: "+bracketed(of.Invalid))
	}
	if len(wrong) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, controlv1alpha1.ReasonReconcileError
		c.Message = strings.Join(wrong, "; ")
	}
	set(c)
}

// bracketed prints the first of some names as the contract does.
func bracketed(names []string) string {
	const many = 64
	shown := fmt.Sprint(names[:min(len(names), many)])
	return strings.TrimSpace(shown + " " + text.More(len(names)-many))
}
