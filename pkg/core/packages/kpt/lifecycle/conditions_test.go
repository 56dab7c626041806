package lifecycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

func TestCurrentConditions(t *testing.T) {
	condition := func(kind, message string) porchv1alpha1.Condition {
		return porchv1alpha1.Condition{Type: kind, Status: porchv1alpha1.ConditionTrue, Message: message}
	}
	before := []porchv1alpha1.Condition{
		condition("Reviewed", "by me"), condition("Scanned", "clean"), condition("PackagePipelinePassed", ""), condition("PVOperationsComplete", ""),
		condition("config.injection.ConfigMap.c", ""), condition("MergeConflicts", "a.yaml"),
	}
	after := append([]porchv1alpha1.Condition{condition("Reviewed", "by me again"), condition("Signed", "new")}, before[1:]...)
	if diff := cmp.Diff(after, lifecycle.CurrentConditions(false, before, after)); diff != "" {
		t.Errorf("the same content (-want +got):\n%s", diff)
	}
	want := append([]porchv1alpha1.Condition{after[0], after[1]}, before[2:]...)
	if diff := cmp.Diff(want, lifecycle.CurrentConditions(true, before, after)); diff != "" {
		t.Errorf("other content (-want +got):\n%s", diff)
	}
	if len(after) != 7 {
		t.Error("the input was changed")
	}
}
