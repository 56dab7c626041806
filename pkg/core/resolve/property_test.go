package resolve

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var universes = flag.Int("universes", 1000, "number of random universes of property tests")

// universe returns a small random world and a problem in it.
func universe(r *rand.Rand) (world, Problem) {
	w := world{}
	names := strings.Split("a b c d e", " ")
	for _, name := range names {
		w[name] = map[string]string{}
		for v := 1; v <= 3; v++ {
			if r.IntN(5) > 0 {
				w[name][fmt.Sprintf("v%d.0.0", v)] = randomRequires(r, names)
			}
		}
	}
	p := Problem{AllowDowngrade: r.IntN(4) == 0}
	for i, name := range names {
		installed := w.anyVersion(r, name)
		if installed != "" && w[name][installed] != "broken" && r.IntN(2) == 0 {
			p.Locked = append(p.Locked, w.locked(name+" "+installed)...)
		} else {
			installed = ""
		}
		switch version := w.anyVersion(r, name); {
		case i == 0:
			if version == "" {
				version = "v9.0.0"
			}
			p.Roots = append(p.Roots, roots(name+" "+version+" subject")...)
		case version != "" && r.IntN(3) == 0:
			text := name + " " + version
			if version != installed {
				text += " pending"
			}
			if r.IntN(6) == 0 {
				text += " skip"
			}
			p.Roots = append(p.Roots, roots(text)...)
		case installed != "" && r.IntN(12) == 0:
			p.Remove = append(p.Remove, repo(name))
		}
	}
	return w, p
}

func (w world) anyVersion(r *rand.Rand, name string) string {
	versions := slices.Sorted(maps.Keys(w[name]))
	if len(versions) == 0 {
		return ""
	}
	return versions[r.IntN(len(versions))]
}

func randomRequires(r *rand.Rand, names []string) string {
	constraints := []string{"", "*", "v1", "v2", "v3", ">=v2", "<v3", "<v2", "=v1.0.0", "^1 || ^3"}
	if r.IntN(30) == 0 {
		return "broken"
	}
	var parts []string
	for range r.IntN(3) {
		constraint := constraints[r.IntN(len(constraints))]
		switch r.IntN(20) {
		case 0:
			constraint = "nonsense"
		case 1, 2:
			constraint = fmt.Sprintf("#v%d.0.0", 1+r.IntN(3))
		}
		parts = append(parts, names[r.IntN(len(names))]+" "+constraint)
	}
	return strings.Join(parts, "; ")
}

// phases returns brute-force solvers with the freedoms that Resolve tries, in its order.
func phases(w world, p *Problem) []*brute {
	return []*brute{newBrute(w, p, rootsStay), newBrute(w, p, pendingMove)}
}

func TestResolveFindsASolutionIfThereIsOne(t *testing.T) {
	solved, byDigest := 0, 0
	for seed := range uint64(*universes) {
		w, p := universe(rand.New(rand.NewPCG(seed, 1)))
		got := resolveAll(t, w, p)
		solvers := phases(w, &p)
		i := slices.IndexFunc(solvers, (*brute).solvable)
		if i < 0 {
			if got.err == nil {
				t.Fatalf("seed %d: Resolve() = %v, but there is no solution\n%v", seed, got.versions(), solvers[0])
			}
			if _, ok := errors.AsType[*Conflict](got.err); !ok {
				t.Fatalf("seed %d: Resolve() = %v, want a conflict", seed, got.err)
			}
			continue
		}
		solved++
		if got.err != nil && solvers[i].onlyByDigest() {
			byDigest++
			continue
		}
		if got.err != nil {
			t.Fatalf("seed %d: Resolve() = %v, but there is a solution\n%v", seed, got.err, solvers[i])
		}
		checkSolution(t, seed, solvers[i], got.solution)
	}
	// A digest is no candidate before a package that demands it was looked at: see the package's
	// doc.
	if byDigest > 1+*universes/1000 {
		t.Errorf("%d of %d universes have a solution that was not found", byDigest, *universes)
	}
	if solved < *universes/5 || solved > *universes*4/5 {
		t.Errorf("%d of %d universes have a solution: they test too little", solved, *universes)
	}
}

func checkSolution(t *testing.T, seed uint64, b *brute, s *Solution) {
	t.Helper()
	combination := b.combination(s)
	if wrong := b.valid(combination); wrong != "" {
		t.Fatalf("seed %d: %v is not valid: %s\n%v", seed, combination, wrong, b)
	}
	for name, p := range combination {
		// Any version that is preferred to this one would break something.
		for _, better := range b.better(name, p) {
			changed := maps.Clone(combination)
			changed[name] = better
			if b.valid(changed) == "" {
				t.Fatalf("seed %d: %s could be %v in %v\n%v", seed, name, better, combination, b)
			}
		}
	}
	checkMinimal(t, seed, b, combination)
}

// checkMinimal checks that nothing that is installed changes, if the other packages of the solution
// do not require it.
func checkMinimal(t *testing.T, seed uint64, b *brute, combination map[string]pick) {
	t.Helper()
	kept := func(c map[string]pick) bool {
		for name, p := range c {
			_, installed := b.locked[name]
			if r := b.roots[name]; installed && !p.kept && (r == nil || !r.Subject) {
				return false
			}
		}
		return true
	}
	if kept(combination) {
		return
	}
	b.each(func(c map[string]pick) bool {
		alike := true
		for name := range b.world {
			if _, installed := b.locked[name]; !installed && c[name] != combination[name] {
				alike = false
			}
		}
		if alike && kept(c) {
			t.Fatalf("seed %d: %v changes what is installed, and %v does not\n%v", seed, combination, c, b)
		}
		return true
	})
}

func TestResolveDoesNotDependOnOrder(t *testing.T) {
	for seed := range uint64(*universes) {
		r := rand.New(rand.NewPCG(seed, 2))
		w, p := universe(r)
		want := resolveAll(t, w, p)

		shuffle(r, p.Roots)
		shuffle(r, p.Locked)
		for i := range p.Locked {
			p.Locked[i].Dependencies = slices.Clone(p.Locked[i].Dependencies)
			shuffle(r, p.Locked[i].Dependencies)
		}
		// Some of what is known is not needed, and arrives in another order.
		k := &Knowledge{}
		var known []Need
		for name, versions := range w {
			known = append(known, Need{Source: repo(name)})
			for version := range versions {
				known = append(known, Need{Source: repo(name), Version: version}, Need{Source: repo(name), Version: digestOf(name, version)})
			}
		}
		slices.SortFunc(known, compareNeeds)
		shuffle(r, known)
		warm := w
		if r.IntN(2) == 0 {
			known = known[:r.IntN(len(known))]
		}
		for _, need := range known {
			warm.answer(k, need)
		}
		got := outcome{}
		for {
			result, err := Resolve(&p, k)
			got.solution, got.err = result.Solution, err
			if len(result.Needs) == 0 {
				break
			}
			for _, need := range result.Needs {
				w.answer(k, need)
			}
		}
		if diff := cmp.Diff(want.versions(), got.versions()); diff != "" {
			t.Fatalf("seed %d: versions (-first +other order):\n%s", seed, diff)
		}
		if diff := cmp.Diff(want.reason(), got.reason()); diff != "" {
			t.Fatalf("seed %d: reason (-first +other order):\n%s\n%v\n%v\n%v", seed, diff, want.err, got.err, newBrute(w, &p, rootsStay))
		}
		// Missing dependencies are listed as far as they are known.
		if got.reason() != "MissingDependency" && fmt.Sprint(want.err) != fmt.Sprint(got.err) {
			t.Fatalf("seed %d: error %v, and in another order %v", seed, want.err, got.err)
		}
	}
}

func shuffle[T any](r *rand.Rand, s []T) {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
