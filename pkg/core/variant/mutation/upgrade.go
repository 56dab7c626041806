package mutation

import (
	"fmt"
	"maps"
	"slices"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/upgrade"
)

// Upgrade merges a new upstream into the files of a draft, which were made from those of the old one. Conditions of the draft stay; that
// of conflicts is the one of this merge. Apply comes after it.
func Upgrade(draft, original kptpkg.Files, upstream *storev1alpha1.PackageRevision, updated kptpkg.Files) (kptpkg.Files, error) {
	before, err := kptpkg.ParseKptfile(draft[kptpkg.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	merged, conflicts, err := upgrade.Merge("", original, upstream, updated, draft)
	if err != nil {
		return nil, fmt.Errorf("merge %s: %w", upstream.Name, err)
	}
	conditions := slices.DeleteFunc(before.Conditions(), func(c kptpkg.Condition) bool { return c.Type == upgrade.ConditionMergeConflicts })
	if conflicts != nil {
		conditions = append(conditions, kptpkg.Condition{Type: conflicts.Type, Status: string(conflicts.Status), Reason: conflicts.Reason, Message: conflicts.Message})
	}
	after, err := kptpkg.ParseKptfile(merged[kptpkg.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	if err := after.SetConditions(conditions); err != nil {
		return nil, fmt.Errorf("%s: status.conditions: %w", kptpkg.KptfileName, err)
	}
	merged = maps.Clone(merged)
	merged[kptpkg.KptfileName] = after.String()
	return merged, nil
}
