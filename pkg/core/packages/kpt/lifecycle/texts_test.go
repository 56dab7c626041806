package lifecycle_test

import (
	"slices"
	"strings"
	"testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors of requests to change PackageRevisions.
func TestTexts(t *testing.T) {
	const draft, proposed, published = porchv1alpha1.LifecycleDraft, porchv1alpha1.LifecycleProposed, porchv1alpha1.LifecyclePublished
	texts := []golden.Text{
		{Heading: "create as Published", Text: lifecycle.CheckCreate(published)},
		{Heading: "update from Proposed to Published", Text: lifecycle.CheckUpdate(proposed, published)},
		{Heading: "update from Published to Draft", Text: lifecycle.CheckUpdate(published, draft)},
		{Heading: "update of an unknown lifecycle", Text: lifecycle.CheckUpdate("Odd", draft)},
		{Heading: "approve a Draft", Text: lifecycle.CheckApproval(draft, published)},
		{Heading: "approval from Proposed to DeletionProposed", Text: lifecycle.CheckApproval(proposed, "DeletionProposed")},
		{Heading: "delete a published revision", Text: lifecycle.CheckDelete(published)},
		{Heading: "update the files of a published revision", Text: lifecycle.CheckFiles(published)},
		{Heading: "unmet gates", Text: lifecycle.NotReady(lifecycle.Unmet(
			&porchv1alpha1.PackageRevisionSpec{ReadinessGates: []porchv1alpha1.ReadinessGate{{ConditionType: "Reviewed"}, {ConditionType: "PackagePipelinePassed"}}},
			&porchv1alpha1.PackageRevisionStatus{Conditions: []porchv1alpha1.Condition{{Type: "PackagePipelinePassed", Status: "False", Reason: "Failed", Message: "function x failed"}}},
		))},
	}
	for heading, wrong := range map[string]lifecycle.FieldErrors{
		"names":                     lifecycle.CheckNames(&porchv1alpha1.PackageRevisionSpec{PackageName: "a/b.c", WorkspaceName: "W"}),
		"two tasks":                 lifecycle.CheckTasks([]porchv1alpha1.Task{{}, {}}),
		"a task of an unknown type": lifecycle.CheckTasks([]porchv1alpha1.Task{{Type: "eval"}}),
		"a clone without upstream":  lifecycle.CheckTasks([]porchv1alpha1.Task{{Type: "clone", Clone: &porchv1alpha1.PackageCloneTaskSpec{}}}),
		"a clone of the wrong type": lifecycle.CheckTasks([]porchv1alpha1.Task{{Type: "clone", Clone: &porchv1alpha1.PackageCloneTaskSpec{
			Upstream: porchv1alpha1.UpstreamPackage{Type: "oci", Git: &porchv1alpha1.GitPackage{Repo: "https://example.com/r"}},
		}}}),
		"an update of a published revision": lifecycle.CheckSpecUpdate(
			&porchv1alpha1.PackageRevisionSpec{PackageName: "a", Lifecycle: published},
			&porchv1alpha1.PackageRevisionSpec{PackageName: "b", Lifecycle: published, ReadinessGates: []porchv1alpha1.ReadinessGate{{ConditionType: "X"}}},
		),
	} {
		texts = append(texts, golden.Text{Heading: heading, Text: strings.Join(wrong.Strings(), "\n")})
	}
	slices.SortStableFunc(texts, func(a, b golden.Text) int { return strings.Compare(a.Heading, b.Heading) })
	golden.Texts(t, texts...)
}
