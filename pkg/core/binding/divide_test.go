package binding_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
)

// homes returns the part that lists each object.
func homes(t *testing.T, parts []*controlv1alpha1.BindingSpec) map[string]int {
	t.Helper()
	found := map[string]int{}
	for i, part := range parts {
		for _, c := range part.Workload.ClusterScope {
			found[c.Resource+"/"+c.Name]++
			found[c.Resource+"/"+c.Name+" in"] = i
		}
		for _, c := range part.Workload.NamespaceScope {
			found[c.Resource+"/"+c.Name]++
			found[c.Resource+"/"+c.Name+" in"] = i
		}
	}
	return found
}

// TestDivide: over random histories all objects are listed once, none moves while it stays, all
// parts go to all clusters, new parts are not too large, and what was divided is divided the same
// way again.
func TestDivide(t *testing.T) {
	const maxSize = 3000
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var stored []*controlv1alpha1.BindingSpec
		for step := range 8 {
			var names []string
			for i := range 60 {
				if rnd.IntN(3) > 0 {
					names = append(names, fmt.Sprintf("object-%02d", i))
				}
			}
			spec := specOf(rnd.IntN(20), names...)
			for i := range rnd.IntN(5) {
				spec.Workload.ClusterScope = append(spec.Workload.ClusterScope, controlv1alpha1.ClusterScopeDownsyncClause{
					ClusterScopeDownsyncObject: controlv1alpha1.ClusterScopeDownsyncObject{Version: "v1", Resource: "namespaces", Name: fmt.Sprint(i)},
				})
			}
			before := homes(t, stored)
			divided := binding.Divide(*spec, stored, maxSize)
			if len(divided) < len(stored) {
				t.Fatalf("seed %d, step %d: %d parts of %d", seed, step, len(divided), len(stored))
			}
			parts := make([]*controlv1alpha1.BindingSpec, 0, len(divided))
			for i := range divided {
				parts = append(parts, &divided[i])
				if diff := cmp.Diff(spec.Destinations, divided[i].Destinations); diff != "" {
					t.Fatalf("seed %d, step %d: part %d has other destinations:\n%s", seed, step, i, diff)
				}
				if size := len(mustMarshal(t, divided[i])); i >= len(stored) && size > maxSize {
					t.Fatalf("seed %d, step %d: new part %d has %d bytes", seed, step, i, size)
				}
			}
			after := homes(t, parts)
			for object, home := range after {
				name, isHome := strings.CutSuffix(object, " in")
				if !isHome && home != 1 {
					t.Fatalf("seed %d, step %d: %s is listed %d times", seed, step, object, home)
				}
				if was, known := before[object]; isHome && known && was != home {
					t.Fatalf("seed %d, step %d: %s moved from %d to %d", seed, step, name, was, home)
				}
			}
			united := binding.Unite(parts)
			slices.SortFunc(spec.Workload.ClusterScope, func(a, b controlv1alpha1.ClusterScopeDownsyncClause) int { return strings.Compare(a.Name, b.Name) })
			if diff := cmp.Diff(mustMarshal(t, *spec), mustMarshal(t, *united)); diff != "" {
				t.Fatalf("seed %d, step %d: together they say something else:\n%s", seed, step, diff)
			}
			for i, again := range binding.Divide(*united, parts, maxSize) {
				if difference := binding.Diff(parts[i], &again); difference != binding.Equal {
					t.Fatalf("seed %d, step %d: part %d is another the second time", seed, step, i)
				}
			}
			stored = parts
		}
	}
}

func mustMarshal(t *testing.T, spec controlv1alpha1.BindingSpec) string {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDivideFills: a part is as large as it may be, whatever its entries have.
func TestDivideFills(t *testing.T) {
	spec := specOf(3)
	for i := range 400 {
		c := controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
				Group: "apps", Version: "v1", Resource: "deployments", Namespace: "web", Name: fmt.Sprintf("n%03d", i), ResourceVersion: "1",
			},
		}
		if i%2 == 0 {
			c.DownsyncModulation = controlv1alpha1.DownsyncModulation{
				CreateOnly: true, WantSingletonReportedState: true, WantMultiWECReportedState: true, StatusCollectors: []string{"a", "bc"},
			}
		}
		spec.Workload.NamespaceScope = append(spec.Workload.NamespaceScope, c)
	}
	const maxSize = 10_000
	parts := binding.Divide(*spec, nil, maxSize)
	for i, part := range parts[:len(parts)-1] {
		if size := len(mustMarshal(t, part)); size > maxSize || size < maxSize*9/10 {
			t.Errorf("part %d of %d has %d bytes of %d", i, len(parts), size, maxSize)
		}
	}
}

// TestDivideManyClusters: destinations that leave no room do not make a Binding of each object.
func TestDivideManyClusters(t *testing.T) {
	parts := binding.Divide(*specOf(1000, "a", "b", "c", "d"), nil, 4000)
	if len(parts) != 1 {
		t.Errorf("%d Bindings for four objects", len(parts))
	}
}

func TestOverflowName(t *testing.T) {
	long := strings.Repeat("a", 250)
	names := map[string]bool{}
	for _, policy := range []string{"web", long, long + "b", strings.Repeat("a.", 125) + "b"} {
		for _, n := range []int{2, 10} {
			name := binding.OverflowName(policy, n)
			if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
				t.Errorf("%s: %v", name, errs)
			}
			if names[name] {
				t.Errorf("%s is the name of two Bindings", name)
			}
			names[name] = true
		}
	}
	if got := binding.OverflowName("web", 2); got != "web--2" {
		t.Errorf("got %s", got)
	}
}
