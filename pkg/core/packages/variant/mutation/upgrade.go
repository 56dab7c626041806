package mutation

import (
	"fmt"
	"maps"
	"slices"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// Upgrade merges a new upstream into the files of a draft, which were created from those of the old
// upstream. It replaces the condition on merge conflicts, and retains the others: package-server
// knows which of them are about earlier content. The argument schemas is that of merge.Merge. Call
// Apply afterwards.
func Upgrade(draft, original kpt.Files, upstream *storev1alpha1.PackageRevision, updated kpt.Files, schemas merge.Schemas) (kpt.Files, error) {
	before, err := kpt.ParseKptfile(draft[kpt.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	merged, err := upgrade.Merge("", original, upstream, updated, draft, schemas)
	if err != nil {
		return nil, fmt.Errorf("merge %s: %w", upstream.Name, err)
	}
	var earlier *porchv1alpha1.Condition
	conditions := slices.DeleteFunc(before.Conditions(), func(c kpt.Condition) bool {
		if c.Type != upgrade.ConditionMergeConflicts {
			return false
		}
		earlier = &porchv1alpha1.Condition{Type: c.Type, Status: porchv1alpha1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
		return true
	})
	if conflicts := upgrade.Accumulate(earlier, merged.Conflicts()); conflicts != nil {
		conditions = append(conditions, kpt.Condition{Type: conflicts.Type, Status: string(conflicts.Status), Reason: conflicts.Reason, Message: conflicts.Message})
	}
	after, err := kpt.ParseKptfile(merged.Files[kpt.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	if err := after.SetConditions(conditions); err != nil {
		return nil, fmt.Errorf("%s: status.conditions: %w", kpt.KptfileName, err)
	}
	files := maps.Clone(merged.Files)
	files[kpt.KptfileName] = after.String()
	return files, nil
}
