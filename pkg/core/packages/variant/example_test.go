package variant_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/test/golden"
)

// parse reads YAML, and no field that does not exist.
func parse[T any](tb testing.TB, text string) *T {
	tb.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		tb.Fatal(err)
	}
	return out
}

func named(set *configv1alpha2.PackageVariantSet) *configv1alpha2.PackageVariantSet {
	set.Namespace, set.Name, set.UID, set.Generation = "default", "example", "set-uid", 1
	return set
}

func object(name string, pairs ...string) variant.Metadata {
	m := variant.Metadata{Name: name, Namespace: "default", Labels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		m.Labels[pairs[i]] = pairs[i+1]
	}
	return m
}

func repositories() []variant.Repository {
	all := []variant.Repository{
		{Metadata: object("cluster-01", "region", "useast1", "env", "prod", "org", "hr")},
		{Metadata: object("cluster-02", "region", "uswest1", "env", "prod", "org", "finance")},
		{Metadata: object("cluster-03", "region", "useast2", "env", "prod", "org", "hr")},
		{Metadata: object("cluster-04", "region", "uswest1", "env", "prod", "org", "hr")},
		{Metadata: object("team-a")},
		{Metadata: object("team-b")},
		{Metadata: object("example-repo")},
		{Metadata: object("platform-catalog")},
	}
	all[2].Annotations = map[string]string{"note": "slow"}
	return all
}

func objects(apiVersion, kind string) ([]variant.Metadata, error) {
	switch apiVersion + " " + kind {
	case "krm-platform.bigco.com/v1 Team":
		return []variant.Metadata{object("team-b", "org", "hr", "role", "dev"), object("team-c", "org", "hr"), object("team-a", "org", "hr", "role", "dev")}, nil
	case "cluster.open-cluster-management.io/v1 ManagedCluster":
		return []variant.Metadata{
			object("edge1", "env", "prod", "number", "01", "region", "north"), object("edge2", "env", "test"),
			object("edge3", "env", "prod", "number", "03", "region", "south", "ns", "edge"),
		}, nil
	}
	return nil, variant.ErrNotServed
}

func noRevisions(variant.Package) bool { return false }

func setInput(tb testing.TB, set *configv1alpha2.PackageVariantSet) *variant.SetInput {
	tb.Helper()
	in := &variant.SetInput{Set: set, Repositories: repositories(), Objects: objects, Invalid: variant.ValidateSet(&set.Spec), HasRevisions: noRevisions}
	upstream := object("example-repo.foo.v1", "kpt.dev/latest-revision", "true")
	in.Upstream = &upstream
	if len(in.Invalid) == 0 {
		in.Compiled, in.Invalid = variant.Compile(&set.Spec)
	}
	return in
}

// TestExamples: those of the design of package variants, and one that uses everything.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/TestExamples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := setInput(t, named(parse[configv1alpha2.PackageVariantSet](t, string(text))))
			plan := variant.PlanSet(t.Context(), in)
			golden.Compare(t, "TestExamples/"+name, described(t, plan))

			// After the plan is carried out, nothing is left to do.
			in.Variants = plan.Create
			again := variant.PlanSet(t.Context(), in)
			if n := len(again.Create) + len(again.Update) + len(again.Delete); n > 0 {
				t.Errorf("planned again: %s", described(t, again))
			}
			for _, pv := range plan.Create {
				if wrong := variant.ValidateVariant(pv); len(wrong) > 0 {
					t.Errorf("%s: %q", pv.Name, wrong)
				}
			}
		})
	}
}

func described(t *testing.T, plan *variant.SetPlan) string {
	t.Helper()
	var out strings.Builder
	for _, part := range []struct {
		verb string
		list []*configv1alpha1.PackageVariant
	}{{"create", plan.Create}, {"update", plan.Update}, {"delete", plan.Delete}} {
		for _, pv := range part.list {
			text, err := yaml.Marshal(struct {
				metav1.TypeMeta `json:",inline"`
				Metadata        map[string]any                    `json:"metadata"`
				Spec            configv1alpha1.PackageVariantSpec `json:"spec"`
			}{pv.TypeMeta, map[string]any{
				"name": pv.Name, "namespace": pv.Namespace, "labels": pv.Labels, "ownerReferences": pv.OwnerReferences, "finalizers": pv.Finalizers,
			}, pv.Spec})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "# %s\n%s---\n", part.verb, text)
		}
	}
	text, err := yaml.Marshal(plan.Status)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "# status\n%s", strings.ReplaceAll(string(text), "- lastTransitionTime: null\n  ", "- "))
	return out.String()
}
