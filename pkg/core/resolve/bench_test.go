package resolve

import (
	"errors"
	"fmt"
	"testing"
)

// The numbers of these benchmarks are for metadata that is known. Compare them with benchstat:
//
//	go test -run '^$' -bench . -count 10 ./pkg/core/resolve

// tree returns a world of packages, each with ten versions: a chain of the depth, of which each
// package also requires others that share a family.
func tree(packages, depth int) world {
	w := world{}
	add := func(name, requires string) {
		w[name] = map[string]string{}
		for v := range 10 {
			w[name][fmt.Sprintf("v1.%d.0", v)] = requires
		}
	}
	add("family", "")
	leaves := packages - depth - 1
	for i := range depth {
		requires := "family >=v1.2.0"
		if i+1 < depth {
			requires += fmt.Sprintf("; chain-%d >=v1.1.0", i+1)
		}
		for leaf := i; leaf < leaves; leaf += depth {
			name := fmt.Sprintf("leaf-%d", leaf)
			requires += "; " + name
			add(name, "family <v1.9.0")
		}
		add(fmt.Sprintf("chain-%d", i), requires)
	}
	return w
}

// warm returns all that is to be known for a problem.
func warm(tb testing.TB, w world, p Problem) *Knowledge {
	tb.Helper()
	k := &Knowledge{}
	resolveWith(tb, w, p, k)
	return k
}

func BenchmarkSolve(b *testing.B) {
	for _, shape := range []struct {
		name            string
		packages, depth int
	}{{"Chain50", 200, 50}, {"Wide", 200, 1}, {"Chain200", 200, 199}, {"Wide1000", 1000, 10}} {
		w := tree(shape.packages, shape.depth)
		p := Problem{Roots: roots("chain-0 v1.9.0 subject")}
		b.Run(shape.name+"/Install", func(b *testing.B) { benchmark(b, p, warm(b, w, p), shape.packages) })

		// The family of all packages is raised.
		upgrade := Problem{Roots: roots("chain-0 v1.9.0", "new v1.0.0 subject")}
		for name := range w {
			upgrade.Locked = append(upgrade.Locked, w.locked(name+" v1.2.0")...)
		}
		w["new"] = map[string]string{"v1.0.0": "family >=v1.5.0"}
		b.Run(shape.name+"/Upgrade", func(b *testing.B) { benchmark(b, upgrade, warm(b, w, upgrade), shape.packages+1) })
	}
}

func benchmark(b *testing.B, p Problem, k *Knowledge, packages int) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		result, err := Resolve(&p, k)
		if err != nil || result.Solution == nil || len(result.Solution.Packages) != packages {
			b.Fatalf("Resolve() = %+v, %v", result, err)
		}
	}
}

// pigeons returns a world with one solution less than needed: each of n packages has n-1 versions,
// and no two of them accept the same one.
func pigeons(n int) (world, Problem) {
	w := world{"root": {"v1.0.0": ""}}
	requires := ""
	for i := range n {
		name := fmt.Sprintf("pigeon-%d", i)
		requires += name + ";"
		w[name] = map[string]string{}
		for hole := range n - 1 {
			text := ""
			for other := range n {
				if other < i {
					text += fmt.Sprintf("pigeon-%d !=%d.0.0;", other, hole)
				}
			}
			w[name][fmt.Sprintf("v%d.0.0", hole)] = text
		}
	}
	w["root"]["v1.0.0"] = requires
	return w, Problem{Roots: roots("root v1.0.0 subject")}
}

func BenchmarkSolveBacktracking(b *testing.B) {
	for _, n := range []int{5, 7, 9} {
		w, p := pigeons(n)
		k := warm(b, w, p)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Resolve(&p, k); err == nil {
					b.Fatal("Resolve() found a solution where there is none")
				}
			}
		})
	}
}

func TestSearchIsBounded(t *testing.T) {
	w, p := pigeons(14)
	if got := resolveAll(t, w, p); !errors.Is(got.err, ErrTooHard) {
		t.Errorf("Resolve() = %v, want %v", got.err, ErrTooHard)
	}
	w, p = pigeons(6)
	if got := resolveAll(t, w, p); got.reason() != "VersionConflict" {
		t.Errorf("Resolve() = %v, want a conflict of versions", got.err)
	}
}
