package variant_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: the texts that users read in conditions and problems of PackageVariants and
// PackageVariantSets.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	seen := map[string]bool{}
	say := func(head, text string) {
		if !seen[text] {
			texts = append(texts, golden.Text{Heading: head, Text: text})
		}
		seen[text] = true
	}

	const spec = "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n"
	twelve := spec + "  - repositories: [{name: cluster-01}"
	for i := 2; i <= 12; i++ {
		twelve += fmt.Sprintf(", {name: r%02d}", i)
	}
	for _, tc := range []struct {
		name, before, after string
		change              func(in *variant.SetInput)
	}{
		{"nothing to do", spec + "  - repositories: [{name: cluster-01}]", "", nil},
		{"a selector matches nothing", twelve + "]", spec + "  - repositorySelector: {matchLabels: {no: thing}}", nil},
		{"spec is invalid", "", "spec:\n  upstream: {package: foo}\n  targets:\n  - {}\n", nil},
		{"an expression is invalid", "", spec + "  - repositorySelector: {}\n    template: {downstream: {packageExpr: target.name +}}", nil},
		{"no upstream", "", spec + "  - repositories: [{name: cluster-01}]", func(in *variant.SetInput) { in.Upstream, in.UpstreamErr = variantFound(in.Set) }},
		{"a kind is not served", "", spec + "  - objectSelector: {apiVersion: example.com/v1, kind: Thing}", func(in *variant.SetInput) {
			in.Objects = func(string, string) ([]variant.Metadata, error) { return nil, variant.ErrNotServed }
		}},
		{"objects cannot be listed", "", spec + "  - objectSelector: {apiVersion: v1, kind: Namespace}", func(in *variant.SetInput) {
			in.Objects = func(string, string) ([]variant.Metadata, error) { return nil, errors.New("forbidden") }
		}},
		{"two targets of one package", "", spec + "  - repositories: [{name: cluster-01}, {name: cluster-01}]", nil},
		{"no Repository", "", spec + "  - repositories: [{name: nowhere}]\n    template: {deletionPolicy: orphan}", nil},
		{"an expression fails", "", spec + "  - repositories: [{name: cluster-01}]\n    template: {labelExprs: [{key: a, valueExpr: repository.labels.none}]}", nil},
		{"another PackageVariant", spec + "  - repositories: [{name: cluster-01}]", "", func(in *variant.SetInput) {
			in.Variants[0].Name, in.Variants[0].OwnerReferences, in.Variants[0].Labels = "by-hand", nil, nil
		}},
		{"being deleted", spec + "  - repositories: [{name: cluster-01}]", "", func(in *variant.SetInput) {
			in.Variants[0].DeletionTimestamp = &metav1.Time{}
		}},
		{"not reported", spec + "  - repositories: [{name: cluster-01}]", "", func(in *variant.SetInput) {
			in.Variants[0].Status.Conditions = nil
		}},
		{"a Repository is gone", spec + "  - repositories: [{name: cluster-01}]", spec + "  - repositorySelector: {}", func(in *variant.SetInput) {
			in.Repositories, in.HasRevisions = nil, func(variant.Package) bool { return true }
			in.Variants[0].Status.Conditions[0].Status, in.Variants[0].Status.Conditions[0].Message = "False", "why"
		}},
	} {
		text := tc.before
		if text == "" {
			text = tc.after
		}
		in := setInput(t, named(parse[configv1alpha2.PackageVariantSet](t, text)))
		if tc.before != "" {
			in, _ = made(t, tc.before)
		}
		if tc.after != "" {
			in.Set = named(parse[configv1alpha2.PackageVariantSet](t, tc.after))
			if in.Invalid = variant.ValidateSet(&in.Set.Spec); len(in.Invalid) == 0 {
				in.Compiled, in.Invalid = variant.Compile(&in.Set.Spec)
			}
		}
		if tc.change != nil {
			tc.change(in)
		}
		status := variant.PlanSet(t.Context(), in).Status
		for _, c := range status.Conditions {
			say(fmt.Sprintf("PackageVariantSet, %s: %s=%s %s", tc.name, c.Type, c.Status, c.Reason), c.Message)
		}
		for _, p := range status.Problems {
			say(fmt.Sprintf("PackageVariantSet, %s: problem of %s", tc.name, p.Target), p.Message)
		}
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	in := setInput(t, named(parse[configv1alpha2.PackageVariantSet](t, spec+"  - repositories: [{name: cluster-01}]\n    template: {downstream: {packageExpr: target.repo}}")))
	for _, c := range variant.PlanSet(ended, in).Status.Conditions {
		say(fmt.Sprintf("PackageVariantSet, an evaluation takes too long: %s=%s %s", c.Type, c.Status, c.Reason), c.Message)
	}

	for _, tc := range []struct {
		name, spec string
		change     func(w *world, in *variant.Input)
	}{
		{"spec is invalid", "adoptionPolicy: maybe\npackageContext: {data: {name: x}}\npipeline: {mutators: [{exec: sh}]}", nil},
		{"no upstream", "", func(_ *world, in *variant.Input) { in.Upstreams = nil }},
		{"not published", "upstream: {repo: up, package: web, workspaceName: w1}", func(_ *world, in *variant.Input) {
			in.Upstreams[0].Spec.Lifecycle = "Draft"
		}},
		{"no Repository", "", func(_ *world, in *variant.Input) { in.HasRepository = false }},
		{"an existing package", "", func(_ *world, in *variant.Input) {
			in.Downstreams = append(in.Downstreams, edge("x", 1))
		}},
		{"another PackageVariant", "", func(_ *world, in *variant.Input) {
			r, controller := edge("x", 1), true
			r.Served.OwnerReferences = []metav1.OwnerReference{{Kind: "PackageVariant", Name: "theirs", UID: "other", Controller: &controller}}
			in.Downstreams = append(in.Downstreams, r)
		}},
		{"only on the branch", "", func(_ *world, in *variant.Input) { in.Downstreams = append(in.Downstreams, edge("main", -1)) }},
		{"being deleted", "", func(w *world, in *variant.Input) { w.pv.DeletionTimestamp = &metav1.Time{} }},
		{"several drafts", "adoptionPolicy: adoptExisting", func(w *world, in *variant.Input) {
			for _, name := range []string{"a", "b", "c"} {
				r := edge(name, 0)
				r.Spec.Lifecycle = "Draft"
				r.Served.OwnerReferences = []metav1.OwnerReference{{Kind: "PackageVariant", Name: w.pv.Name, UID: w.pv.UID}}
				in.Downstreams = append(in.Downstreams, r)
			}
		}},
		{"another user changed the draft", "", func(w *world, in *variant.Input) {
			w.settle()
			w.downstream(draft).Status.Authors = []string{self, "mallory"}
			w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: configv1alpha1.ApprovalAlways}
			*in = *w.input()
		}},
		{"the upstream changed what was changed by hand", "", func(w *world, in *variant.Input) {
			w.settle()
			r := w.downstream(draft)
			r.Annotations = map[string]string{configv1alpha1.AnnotationPolicyOf: string(w.pv.UID)}
			r.Status.Conditions = append(r.Status.Conditions, porchv1alpha1.Condition{
				Type: "MergeConflicts", Status: "True", Message: "web.yaml: Deployment.apps web: spec.replicas: changed on both sides; the upstream content is used",
			})
			w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: configv1alpha1.ApprovalAlways}
			*in = *w.input()
		}},
		{"a gate of the package is not met", "", func(w *world, in *variant.Input) {
			w.settle()
			r := w.downstream(draft)
			r.Spec.ReadinessGates = append(r.Spec.ReadinessGates, porchv1alpha1.ReadinessGate{ConditionType: "acme.io/reviewed"})
			*in = *w.input()
		}},
		{"the upstream is lost", "", func(w *world, in *variant.Input) {
			w.settle()
			w.move(w.downstream(draft), published)
			w.settle()
			w.upstream(2)
			delete(w.revisions, "up.web.w1")
			*in = *w.input()
		}},
		{"the tag of the upstream was moved", "", func(w *world, in *variant.Input) {
			w.settle()
			w.move(w.downstream(draft), published)
			w.settle()
			w.revisions["up.web.w1"].External.Moved = "5d7a4c1f00d05d7a4c1f00d05d7a4c1f00d05d7a"
			*in = *w.input()
		}},
	} {
		w := newWorld(t, "")
		text := "upstream: {repo: up, package: web, revision: latest}\n"
		if strings.HasPrefix(tc.spec, "upstream:") {
			text = ""
		}
		w.pv.Spec = *parse[configv1alpha1.PackageVariantSpec](t, text+"downstream: {repo: edge, package: web}\n"+tc.spec)
		w.pv.Finalizers = []string{configv1alpha1.PackageVariantFinalizer}
		in := w.input()
		if tc.change != nil {
			tc.change(w, in)
		}
		plan := variant.PlanVariant(in)
		for _, c := range plan.Status.Conditions {
			say(fmt.Sprintf("PackageVariant, %s: %s=%s %s", tc.name, c.Type, c.Status, c.Reason), c.Message)
		}
		if plan.Status.WaitsFor != "" {
			say(fmt.Sprintf("PackageVariant, %s: waitsFor", tc.name), plan.Status.WaitsFor)
		}
	}
	golden.Texts(t, texts...)
}

func edge(workspace string, n int) *storev1alpha1.PackageRevision {
	r := revision(workspace, n, published)
	r.Name, r.Spec.RepositoryName = "edge.web."+workspace, "edge"
	r.External.Branch = n < 0
	return r
}
