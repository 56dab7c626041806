package resolve

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shared is a world in which two roots share a dependency that both pin.
func shared() world {
	return world{
		"config-a":   {"v0.0.1": "dep1 v1", "v0.0.2": "dep1 v2"},
		"config-b":   {"v0.0.1": "dep2 v1", "v0.0.2": "dep2 v2"},
		"dep1":       {"v1.0.0": "transitive =v0.0.1", "v2.0.0": "transitive =v0.0.2"},
		"dep2":       {"v1.0.0": "transitive =v0.0.1", "v2.0.0": "transitive =v0.0.2"},
		"transitive": {"v0.0.1": "", "v0.0.2": ""},
		"broken":     {"v1.0.0": "", "v2.0.0": "gone"},
	}
}

func TestPendingRoots(t *testing.T) {
	w := shared()
	installed := w.locked("config-a v0.0.1", "config-b v0.0.1", "dep1 v1.0.0", "dep2 v1.0.0", "transitive v0.0.1", "broken v1.0.0")
	both := []string{
		"broken v1.0.0", "transitive v0.0.2 Upgrade", "dep1 v2.0.0 Upgrade", "config-a v0.0.2 Upgrade",
		"dep2 v2.0.0 Upgrade", "config-b v0.0.2 Upgrade",
	}
	tests := map[string]struct {
		roots     []Root
		want      []string
		wantError string
	}{
		"OneAlone": {
			roots: roots("config-a v0.0.2 subject", "config-b v0.0.1"),
			wantError: "no version of transitive fits all packages that require it: config-a v0.0.2 (wanted) requires dep1 v2; " +
				"dep1 v2.0.0 requires transitive =v0.0.2; config-b v0.0.1 (installed) requires dep2 v1; " +
				"dep2 v1.0.0 (installed) requires transitive =v0.0.1. " +
				"Change the version of Provider/config-a or Provider/config-b",
		},
		"BothPending": {
			roots: roots("config-a v0.0.2 subject", "config-b v0.0.2 pending"),
			want:  both,
		},
		"AnotherPendingRootIsBroken": {
			roots: roots("config-a v0.0.2 subject", "config-b v0.0.2 pending", "broken v2.0.0 pending", "new v1.0.0 pending"),
			want:  both,
		},
		"PendingRootThatDoesNotHelp": {
			roots: roots("config-a v0.0.2 subject", "config-b v9.0.0 pending"),
			wantError: "no version of transitive fits all packages that require it: config-a v0.0.2 (wanted) requires dep1 v2; " +
				"dep1 v2.0.0 requires transitive =v0.0.2; config-b v0.0.1 (installed) requires dep2 v1; " +
				"dep2 v1.0.0 (installed) requires transitive =v0.0.1. " +
				"Change the version of Provider/config-a or Provider/config-b",
		},
		"PendingRootThatIsNotNeeded": {
			roots: roots("broken v1.0.0 subject", "config-a v0.0.2 pending", "config-b v0.0.2 pending"),
			want: []string{
				"broken v1.0.0", "transitive v0.0.1", "dep1 v1.0.0", "config-a v0.0.1", "dep2 v1.0.0", "config-b v0.0.1",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := resolveAll(t, w, Problem{Roots: tt.roots, Locked: installed})
			text := ""
			if got.err != nil {
				text = got.err.Error()
			}
			if diff := cmp.Diff(tt.wantError, text); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, got.versions()); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRounds(t *testing.T) {
	many := world{"a": {"v1.0.0": "b"}, "b": {}, "c": {"v1.0.0": "", "v2.0.0": ""}}
	for v := range 64 {
		many["b"][fmt.Sprintf("v1.%d.0", v)] = "c v2"
	}
	many["b"]["v0.1.0"] = "c v1"
	tests := map[string]struct {
		world   world
		problem Problem
		// wantRounds and wantAsked bound the rounds and what is asked for in all of them.
		wantRounds, wantAsked int
	}{
		"NothingToDo": {
			world:      shared(),
			problem:    Problem{Roots: roots("config-a v0.0.1"), Locked: shared().locked("config-a v0.0.1", "dep1 v1.0.0", "transitive v0.0.1")},
			wantRounds: 0, wantAsked: 0,
		},
		// The subject; and for each level below the tags, and then the manifests of all packages.
		"Wide":  {world: tree(200, 1), problem: Problem{Roots: roots("chain-0 v1.9.0 subject")}, wantRounds: 5, wantAsked: 400},
		"Chain": {world: tree(52, 50), problem: Problem{Roots: roots("chain-0 v1.9.0 subject")}, wantRounds: 100, wantAsked: 110},
		// What is installed is known from the Lock.
		"InstalledIsKnown": {
			world: shared(),
			problem: Problem{
				Roots:  roots("config-a v0.0.1 subject", "config-b v0.0.1"),
				Locked: shared().locked("config-a v0.0.1", "config-b v0.0.1", "dep1 v1.0.0", "dep2 v1.0.0", "transitive v0.0.1"),
			},
			wantRounds: 1, wantAsked: 1,
		},
		// One version after the other does not fit: more and more are asked for at once.
		"ManyVersions": {
			world:      many,
			problem:    Problem{Roots: append(roots("a v1.0.0 subject"), roots("c v1.0.0")...), Locked: many.locked("c v1.0.0")},
			wantRounds: 9, wantAsked: 67,
		},
		// Only the version that is chosen is asked for.
		"NewestFits": {
			world:      many,
			problem:    Problem{Roots: roots("a v1.0.0 subject", "c v2.0.0"), Locked: many.locked("c v2.0.0")},
			wantRounds: 3, wantAsked: 3,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := resolveAll(t, tt.world, tt.problem)
			if got.err != nil {
				t.Fatal(got.err)
			}
			if got.rounds > tt.wantRounds || len(got.asked) > tt.wantAsked {
				t.Errorf("%d rounds asked for %d, want at most %d rounds and %d", got.rounds, len(got.asked), tt.wantRounds, tt.wantAsked)
			}
		})
	}
}

// TestOutageIsNotMissing takes away everything that a solver asks for, one after the other: as long
// as a registry does not answer, there is no verdict.
func TestOutageIsNotMissing(t *testing.T) {
	w := shared()
	p := Problem{
		Roots:  roots("config-a v0.0.2 subject", "config-b v0.0.2 pending"),
		Locked: w.locked("config-b v0.0.1", "dep2 v1.0.0", "transitive v0.0.1"),
	}
	all := resolveAll(t, w, p)
	if len(all.asked) < 5 {
		t.Fatalf("the problem needs %v: it tests too little", all.asked)
	}
	for _, down := range all.asked {
		k := &Knowledge{}
		for {
			result, err := Resolve(&p, k)
			if err != nil || result.Solution != nil {
				t.Fatalf("without %v: Resolve() = %+v, %v, want needs", down, result, err)
			}
			answered := false
			for _, need := range result.Needs {
				if need != down {
					w.answer(k, need)
					answered = true
				}
			}
			if !answered {
				if !slices.Contains(result.Needs, down) {
					t.Fatalf("without %v: Resolve() needs %v", down, result.Needs)
				}
				break
			}
		}
	}
}

// TestOutageOfSomethingElse checks that a registry that is not needed is not asked.
func TestOutageOfSomethingElse(t *testing.T) {
	w := shared()
	got := resolveAll(t, w, Problem{
		Roots:  roots("config-a v0.0.1 subject", "config-b v0.0.2 pending", "broken v2.0.0 pending"),
		Locked: w.locked("dep1 v1.0.0", "transitive v0.0.1", "broken v1.0.0"),
	})
	want := []Need{{Source: repo("config-a"), Version: "v0.0.1"}}
	if diff := cmp.Diff(want, got.asked); diff != "" || got.err != nil {
		t.Errorf("asked for (-want +got):\n%s%v", diff, got.err)
	}
}
