package mutation

import (
	"fmt"
	"maps"
	"slices"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// Upgrade merges a new upstream into the files of a draft, which were created from those of the old
// upstream. It replaces the condition on merge conflicts, and retains the others: package-server
// knows which of them are about earlier content. Call Apply afterwards.
func Upgrade(draft, original kpt.Files, upstream *storev1alpha1.PackageRevision, updated kpt.Files) (kpt.Files, error) {
	before, err := kpt.ParseKptfile(draft[kpt.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	merged, conflicts, err := upgrade.Merge("", original, upstream, updated, draft)
	if err != nil {
		return nil, fmt.Errorf("merge %s: %w", upstream.Name, err)
	}
	conditions := slices.DeleteFunc(before.Conditions(), func(c kpt.Condition) bool { return c.Type == upgrade.ConditionMergeConflicts })
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
