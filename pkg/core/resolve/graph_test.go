package resolve

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// graph parses "a: b c" for each package.
func graph(texts ...string) []Package {
	var packages []Package
	for _, text := range texts {
		source, requires, _ := strings.Cut(text, ":")
		p := Package{Source: source}
		for to := range strings.FieldsSeq(requires) {
			p.Dependencies = append(p.Dependencies, Dependency{Source: to})
		}
		packages = append(packages, p)
	}
	return packages
}

func TestOrder(t *testing.T) {
	tests := map[string]struct {
		packages  []Package
		want      []string
		wantCycle []string
	}{
		"Empty":           {},
		"BySource":        {packages: graph("c", "a", "b"), want: []string{"a", "b", "c"}},
		"Dependencies":    {packages: graph("a: c b", "b: c", "c"), want: []string{"c", "b", "a"}},
		"ReadyBySource":   {packages: graph("a: z", "b", "c: b", "z"), want: []string{"b", "c", "z", "a"}},
		"Absent":          {packages: graph("a: gone b", "b: gone"), want: []string{"b", "a"}},
		"TwiceRequired":   {packages: graph("a: b b", "b"), want: []string{"b", "a"}},
		"Self":            {packages: graph("a: a", "b"), want: []string{"b", "a"}, wantCycle: []string{"a", "a"}},
		"Cycle":           {packages: graph("c: a", "b: c", "a: b", "d: a"), want: []string{"a", "c", "b", "d"}, wantCycle: []string{"a", "b", "c", "a"}},
		"CycleAfterChain": {packages: graph("a: b", "b: c", "c: b"), want: []string{"b", "a", "c"}, wantCycle: []string{"b", "c", "b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ordered, cycle := Order(tt.packages)
			var got []string
			for i := range ordered {
				got = append(got, ordered[i].Source)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantCycle, cycle); diff != "" {
				t.Errorf("cycle (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrderOfRandomGraphs(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		var texts []string
		for i := range 12 {
			text := fmt.Sprintf("p%02d:", i)
			for range r.IntN(3) {
				text += fmt.Sprintf(" p%02d", r.IntN(12))
			}
			texts = append(texts, text)
		}
		packages := graph(texts...)
		ordered, cycle := Order(packages)
		if len(ordered) != len(packages) {
			t.Fatalf("seed %d: Order() returned %d packages of %d", seed, len(ordered), len(packages))
		}
		at := map[string]int{}
		for i := range ordered {
			at[ordered[i].Source] = i
		}
		wrong := false
		for i := range packages {
			for _, d := range packages[i].Dependencies {
				wrong = wrong || at[d.Source] >= at[packages[i].Source]
			}
		}
		if wrong != (cycle != nil) {
			t.Fatalf("seed %d: Order(%v) = %v, cycle %v", seed, texts, at, cycle)
		}
		for i := range max(0, len(cycle)-1) {
			if !slices.Contains(Dependents(packages, cycle[i+1]), cycle[i]) && cycle[i] != cycle[i+1] {
				t.Fatalf("seed %d: %s does not require %s", seed, cycle[i], cycle[i+1])
			}
		}
		shuffle(r, packages)
		again, cycleAgain := Order(packages)
		if diff := cmp.Diff(ordered, again); diff != "" || !slices.Equal(cycle, cycleAgain) {
			t.Fatalf("seed %d: order (-first +shuffled):\n%s", seed, diff)
		}
	}
}

func TestGraph(t *testing.T) {
	packages := graph("a: b gone", "b: c", "c", "d: c d", "e: f", "f: e")
	if diff := cmp.Diff([]string{"b", "d"}, Dependents(packages, "c")); diff != "" {
		t.Errorf("dependents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), Dependents(packages, "a")); diff != "" {
		t.Errorf("dependents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true, "c": true}, Reachable(packages, "a", "gone")); diff != "" {
		t.Errorf("reachable (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d", "e", "f"}, Orphans(packages, "a")); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
}

func TestCheckRemoval(t *testing.T) {
	w := world{"a": {"v1.0.0": "b >=v1"}, "b": {"v1.0.0": ""}, "c": {"v1.0.0": "b"}}
	locked := w.locked("c v1.0.0", "a v1.0.0", "b v1.0.0")
	tests := map[string]struct {
		source     string
		wantReason string
		want       string
	}{
		"Required": {
			source:     "b",
			wantReason: "MissingDependency",
			want: "Package a requires b >=v1; Package c requires b, which would be removed: a v1.0.0 (installed) requires b >=v1; " +
				"c v1.0.0 (installed) requires b. Delete or change a, c first",
		},
		"NotRequired":  {source: "a"},
		"NotInstalled": {source: "gone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got outcome
			if conflict := CheckRemoval(locked, repo(tt.source)); conflict != nil {
				got.err = conflict
			}
			if diff := cmp.Diff(tt.wantReason, got.reason()); diff != "" {
				t.Errorf("reason (-want +got):\n%s", diff)
			}
			if got.err == nil {
				got.err = errors.New("")
			}
			if diff := cmp.Diff(tt.want, got.err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
