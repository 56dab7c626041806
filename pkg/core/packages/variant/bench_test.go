package variant_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// Run with: go test -run '^$' -bench . -count 6 ./pkg/core/variant | bin/tools/benchstat /dev/stdin

const tenExpressions = `
spec:
  upstream: {repo: example-repo, package: foo, revision: v1}
  targets:
  - repositorySelector: {matchLabels: {env: prod}}
    template:
      downstream: {repoExpr: "repoDefault", packageExpr: "packageDefault + '-' + target.labels.region"}
      labelExprs:
      - {key: org, valueExpr: "repository.labels['org']"}
      - {keyExpr: "'cluster-' + target.name", valueExpr: "target.name"}
      annotationExprs: [{key: note, valueExpr: "target.annotations[?'note'].orValue('none')"}]
      packageContext:
        dataExprs: [{key: region, valueExpr: "repository.labels.region"}]
        removeKeyExprs: ["'old-' + target.name"]
      injectors: [{nameExpr: "repository.labels['region'] + '-endpoints'"}]
      pipeline: {mutators: [{image: set-namespace:v0.4.1, configMapExprs: [{key: namespace, valueExpr: "upstream.name.replace('.', '-')"}]}]}
`

func targets(tb testing.TB, n int) *variant.SetInput {
	tb.Helper()
	in := setInput(tb, named(parse[configv1alpha2.PackageVariantSet](tb, tenExpressions)))
	in.Repositories = nil
	for i := range n {
		in.Repositories = append(in.Repositories, variant.Repository{
			Metadata: object(fmt.Sprintf("cluster-%05d", i), "env", "prod", "org", "hr", "region", fmt.Sprintf("region-%d", i%7)),
		})
	}
	return in
}

// BenchmarkPlanSet is a set of n targets with ten expressions: when nothing is there yet, when
// everything is as it should be, and when it is and was planned before.
func BenchmarkPlanSet(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		in := targets(b, n)
		b.Run(fmt.Sprintf("new/targets=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if plan := variant.PlanSet(b.Context(), in); len(plan.Create) != n {
					b.Fatal(summary(plan))
				}
			}
		})
		there := *in
		there.Variants = variant.PlanSet(b.Context(), in).Create
		for i, pv := range there.Variants {
			pv.UID, pv.Generation = types.UID(fmt.Sprint(i)), 1
		}
		b.Run(fmt.Sprintf("unchanged/targets=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if plan := variant.PlanSet(b.Context(), &there); len(plan.Create)+len(plan.Update)+len(plan.Delete) != 0 {
					b.Fatal(summary(plan))
				}
			}
		})
		again := there
		again.Cache = &variant.RenderCache{}
		b.Run(fmt.Sprintf("again/targets=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if plan := variant.PlanSet(b.Context(), &again); len(plan.Create)+len(plan.Update)+len(plan.Delete) != 0 {
					b.Fatal(summary(plan))
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	set := parse[configv1alpha2.PackageVariantSet](b, tenExpressions)
	for b.Loop() {
		if _, wrong := variant.Compile(&set.Spec); len(wrong) > 0 {
			b.Fatal(wrong)
		}
	}
}

// BenchmarkPlanVariant is a PackageVariant at rest whose packages have n revisions.
func BenchmarkPlanVariant(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("revisions=%d", n), func(b *testing.B) {
			pv := &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pv", UID: "uid", Finalizers: []string{configv1alpha1.PackageVariantFinalizer}}}
			pv.Spec = *parse[configv1alpha1.PackageVariantSpec](b, "upstream: {repo: up, package: web, revision: latest}\ndownstream: {repo: edge, package: web}\n")
			in := &variant.Input{
				Variant: pv, HasRepository: true, Version: func(configv1alpha1.InjectedObject) string { return "" },
				Origin:      func(variant.Lock) *storev1alpha1.PackageRevision { return nil },
				OwnerExists: func(types.UID) bool { return false },
			}
			for i := range n {
				up, down := revision(fmt.Sprintf("u%d", i), i+1, published), revision(fmt.Sprintf("d%d", i), i+1, published)
				down.Spec.RepositoryName = "edge"
				down.Served.OwnerReferences = []metav1.OwnerReference{{UID: "uid"}}
				in.Upstreams, in.Downstreams = append(in.Upstreams, up), append(in.Downstreams, down)
			}
			plan := variant.PlanVariant(in)
			pv.Status.Settled = plan.Settled(nil, in.Version)
			b.ReportAllocs()
			for b.Loop() {
				if plan := variant.PlanVariant(in); len(plan.Actions)+len(plan.Work) > 0 {
					b.Fatal(plan.Actions, plan.Work)
				}
			}
		})
	}
}
