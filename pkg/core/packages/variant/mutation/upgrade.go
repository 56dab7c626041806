package mutation

import (
	"fmt"
	"maps"
	"slices"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// Upgrade merges a new upstream into the files of a draft, which were created from those of the old
// upstream. Of the conditions of the draft it retains those that are set again for each content,
// except that on merge conflicts, which it replaces. Call Apply afterwards.
func Upgrade(draft, original kpt.Files, upstream *storev1alpha1.PackageRevision, updated kpt.Files) (kpt.Files, error) {
	before, err := kpt.ParseKptfile(draft[kpt.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	merged, conflicts, err := upgrade.Merge("", original, upstream, updated, draft)
	if err != nil {
		return nil, fmt.Errorf("merge %s: %w", upstream.Name, err)
	}
	conditions := slices.DeleteFunc(before.Conditions(), func(c kpt.Condition) bool {
		return c.Type == upgrade.ConditionMergeConflicts || !lifecycle.FollowsContent(c.Type)
	})
	if conflicts != nil {
		conditions = append(conditions, kpt.Condition{Type: conflicts.Type, Status: string(conflicts.Status), Reason: conflicts.Reason, Message: conflicts.Message})
	}
	after, err := kpt.ParseKptfile(merged[kpt.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	if err := after.SetConditions(conditions); err != nil {
		return nil, fmt.Errorf("%s: status.conditions: %w", kpt.KptfileName, err)
	}
	merged = maps.Clone(merged)
	merged[kpt.KptfileName] = after.String()
	return merged, nil
}
