package lifecycle

import (
	"slices"
	"strings"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// FollowsContent reports whether a condition is of the server or of the controller of
// PackageVariants, which set it again for each content. All other conditions are about the content
// for which a user or a program set them.
func FollowsContent(condition string) bool {
	return condition == porchv1alpha1.ConditionPipelinePassed || condition == configv1alpha1.ConditionPVOperationsComplete ||
		condition == upgrade.ConditionMergeConflicts || strings.HasPrefix(condition, configv1alpha1.ConditionInjectionPrefix)
}

// CurrentConditions returns the conditions of a revision after a write. If the write changed the
// content, those that it only carried over are dropped: they are about earlier content, and their
// gates must be met again. Before and after are the conditions before the write and in it.
func CurrentConditions(contentChanged bool, before, after []porchv1alpha1.Condition) []porchv1alpha1.Condition {
	if !contentChanged {
		return after
	}
	return slices.DeleteFunc(slices.Clone(after), func(c porchv1alpha1.Condition) bool {
		return !FollowsContent(c.Type) && slices.Contains(before, c)
	})
}
