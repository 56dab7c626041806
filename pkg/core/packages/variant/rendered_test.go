package variant_test

import (
	"fmt"
	"maps"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// TestRendered: random changes of the inputs of a set give the same plan with the cache as without
// it.
func TestRendered(t *testing.T) {
	other := parse[configv1alpha2.PackageVariantSet](t, `
metadata: {namespace: default, name: example, uid: set-uid, generation: 2}
spec:
  upstream: {repo: example-repo, package: foo, revision: v2}
  targets:
  - repositorySelector: {}
    template: {downstream: {repoExpr: "target.labels[?'to'].orValue(repoDefault)", packageExpr: "packageDefault + upstream.labels[?'x'].orValue('')"}}
  - repositories: [{name: cluster-00001}, {name: cluster-00001, packageNames: [a, b]}, {name: other}]
`)
	for seed := range int64(30) {
		rnd := rand.New(rand.NewSource(seed))
		in := targets(t, 12)
		first := in.Set
		remembered := &variant.RenderCache{}
		var there []*configv1alpha1.PackageVariant
		for round := range 40 {
			changed := in.Repositories[rnd.Intn(len(in.Repositories))]
			key, value := []string{"env", "org", "region", "to"}[rnd.Intn(4)], []string{"prod", "hr", "cluster-00003", "test"}[rnd.Intn(4)]
			labels := maps.Clone(changed.Labels)
			if labels[key] = value; rnd.Intn(3) == 0 {
				delete(labels, key)
			}
			all := append([]variant.Repository(nil), in.Repositories...)
			switch rnd.Intn(6) {
			case 0: // one is created or deleted
				if all = all[:len(all)-1]; rnd.Intn(2) == 0 || len(all) < 3 {
					all = append(all, variant.Repository{Metadata: object(fmt.Sprintf("cluster-9%d%d", seed, round), "env", "prod", "org", "hr", "region", "r")}, changed)
				}
			case 1:
				in.Upstream = &variant.Metadata{Name: "example-repo.foo.v1", Labels: map[string]string{"x": value}}
			case 2:
				if in.Set = first; rnd.Intn(2) == 0 {
					in.Set = other
				}
				in.Compiled, in.Invalid = variant.Compile(&in.Set.Spec)
			case 3:
				if len(there) > 0 { // a user changes one
					pv := there[rnd.Intn(len(there))].DeepCopy()
					pv.Generation++
					pv.Spec.DeletionPolicy = configv1alpha1.DeletionPolicyOrphan
					for i := range there {
						if there[i].Name == pv.Name {
							there[i] = pv
						}
					}
				}
			default:
				for i := range all {
					if all[i].Name == changed.Name {
						all[i].Labels = labels
					}
				}
			}
			in.Repositories, in.Variants = all, there
			without := variant.PlanSet(t.Context(), in)
			in.Cache = remembered
			with := variant.PlanSet(t.Context(), in)
			in.Cache = nil
			if diff := cmp.Diff(without, with, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d, round %d (-without +with):\n%s", seed, round, diff)
			}
			byName := map[string]*configv1alpha1.PackageVariant{}
			for _, pv := range there {
				byName[pv.Name] = pv
			}
			for _, pv := range append(with.Create, with.Update...) {
				pv.UID, pv.Generation = types.UID("uid-"+pv.Name), pv.Generation+1
				byName[pv.Name] = pv
			}
			for _, pv := range with.Delete {
				delete(byName, pv.Name)
			}
			there = there[:0:0]
			for _, pv := range byName {
				there = append(there, pv)
			}
		}
	}
}

// TestRefused: what the API server does not take is a problem of its target. It is written again,
// and nothing is deleted.
func TestRefused(t *testing.T) {
	in, _ := made(t, listOfTwo)
	in.Set.Spec.Targets[0].Repositories[1].Name = "cluster-03"
	pkg := variant.Package{Repository: "cluster-03", Name: "foo"}
	in.Refused = map[variant.Package]string{pkg: "too many"}
	plan := variant.PlanSet(t.Context(), in)
	want := []configv1alpha2.Problem{{Target: "spec.targets[0].repositories[1]: cluster-03/foo", Message: "too many"}}
	if diff := cmp.Diff(want, plan.Status.Problems); diff != "" {
		t.Error(diff)
	}
	if len(plan.Create) != 1 || len(plan.Delete) != 0 {
		t.Error(summary(plan))
	}
}
