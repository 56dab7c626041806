package lifecycle

import (
	"slices"
	"strings"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// followsContent reports whether a condition is of the server or of the controller of
// PackageVariants, which set it again for each content. All other conditions are about the content
// for which a user or a program set them.
func followsContent(condition string) bool {
	return condition == porchv1alpha1.ConditionPipelinePassed || condition == upgrade.ConditionMergeConflicts || OfVariants(condition)
}

// OfVariants reports whether a condition is set by the controller of PackageVariants, on the
// revisions that it writes. In a copy of such a revision its gate would never be met. The
// controller adds the gates to the revisions that it creates.
func OfVariants(condition string) bool {
	return condition == configv1alpha1.ConditionPVOperationsComplete || strings.HasPrefix(condition, configv1alpha1.ConditionInjectionPrefix)
}

// contentChanged is the message of conditions that are about earlier content.
const contentChanged = "the content has changed since this condition was True: check the new content, and set the condition again"

// aboutStored reports whether a condition is about content that is stored, so that no write that
// changes the content can set it: what it is about does not exist yet.
func aboutStored(condition string) bool {
	return condition == porchv1alpha1.ConditionTransactionValidated
}

// CurrentConditions returns the conditions of a revision after a write that changed its content:
// before and after are the conditions before the write and in it. What was True for the earlier
// content, and is only carried over, is Unknown: its gate must be met again. The arguments are not
// changed.
func CurrentConditions(before, after []porchv1alpha1.Condition) []porchv1alpha1.Condition {
	out := slices.Clone(after)
	for i, c := range out {
		if c.Status == porchv1alpha1.ConditionTrue && !followsContent(c.Type) && (aboutStored(c.Type) || slices.Contains(before, c)) {
			out[i] = porchv1alpha1.Condition{
				Type: c.Type, Status: porchv1alpha1.ConditionUnknown, Reason: porchv1alpha1.ReasonContentChanged, Message: contentChanged,
			}
		}
	}
	return out
}
