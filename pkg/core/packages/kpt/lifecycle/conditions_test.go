package lifecycle_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

func TestCurrentConditions(t *testing.T) {
	condition := func(kind string, status porchv1alpha1.ConditionStatus, message string) porchv1alpha1.Condition {
		return porchv1alpha1.Condition{Type: kind, Status: status, Message: message}
	}
	const is, isNot = porchv1alpha1.ConditionTrue, porchv1alpha1.ConditionFalse
	before := []porchv1alpha1.Condition{
		condition("Reviewed", is, "by me"), condition("Scanned", is, "clean"), condition("Tested", isNot, "fails"), condition("Removed", is, ""),
		condition("PackagePipelinePassed", is, ""), condition("PVOperationsComplete", is, ""),
		condition("config.injection.ConfigMap.c", is, ""), condition("MergeConflicts", is, "a.yaml"),
	}
	const changed = "the content has changed since this condition was True: check the new content, and set the condition again"
	after := slices.Concat([]porchv1alpha1.Condition{
		condition("Reviewed", is, "by me again"), condition("Signed", is, "new"), condition("Scanned", is, "clean"), condition("Tested", isNot, "fails"),
		condition("PackageTransactionValidated", is, "new"), // it cannot be about content that is not stored
	}, before[4:])
	want := slices.Clone(after)
	want[2] = porchv1alpha1.Condition{Type: "Scanned", Status: porchv1alpha1.ConditionUnknown, Reason: "ContentChanged", Message: changed}
	want[4] = porchv1alpha1.Condition{Type: "PackageTransactionValidated", Status: porchv1alpha1.ConditionUnknown, Reason: "ContentChanged", Message: changed}
	got := lifecycle.CurrentConditions(before, after)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if after[2].Status != is {
		t.Error("the input was changed")
	}
}
