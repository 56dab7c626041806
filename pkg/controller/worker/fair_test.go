package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pair is a key with an owner and a place.
type pair struct{ owner, place string }

func ownerOf(p pair) string { return p.owner }
func placeOf(p pair) string { return p.place }

// TestFairOrder: one key of a group with few keys is not behind a thousand keys of others.
func TestFairOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		many func(i int) pair
		most int // keys before the last one
	}{
		"OneOwner":     {func(i int) pair { return pair{"busy", fmt.Sprint("place-", i)} }, 3},
		"OnePlace":     {func(i int) pair { return pair{fmt.Sprint("owner-", i), "busy"} }, 3},
		"OneOfEach":    {func(i int) pair { return pair{"busy", "busy"} }, 1},
		"ThreeOwners":  {func(i int) pair { return pair{fmt.Sprint("owner-", i%3), fmt.Sprint("place-", i)} }, 7},
		"TheSamePlace": {func(i int) pair { return pair{fmt.Sprint("busy-", i%2), fmt.Sprint("place-", i%500)} }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFair(ownerOf, placeOf)
			for i := range 1000 {
				if key := tc.many(i); f.pushed[key] == 0 {
					f.Push(key)
				}
			}
			last := pair{"quiet", "place-7"}
			f.Push(last)
			before := 0
			for f.Pop() != last {
				before++
			}
			if before > tc.most {
				t.Errorf("%d keys came before", before)
			}
		})
	}
}

// TestFairInOrder: within a group, the first key comes first.
func TestFairInOrder(t *testing.T) {
	all := func(int) string { return "" }
	f := newFair(all)
	var want, got []int
	for i := range 100 {
		f.Push(i)
		want = append(want, i)
	}
	for f.Len() > 0 {
		got = append(got, f.Pop())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFairKeepsKeys: in any order of pushes and pops, each key comes out once for each push, and
// outdated entries do not pile up.
func TestFairKeepsKeys(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 3))
		f := newFair(ownerOf, placeOf)
		waiting := map[pair]bool{}
		for range 5000 {
			key := pair{fmt.Sprint(random.IntN(6)), fmt.Sprint(random.IntN(40))}
			switch {
			case random.IntN(2) == 0 && !waiting[key]:
				f.Push(key)
				waiting[key] = true
				for i := range f.kinds {
					if entries := f.kinds[i].entries; entries > 2*len(waiting)+64 {
						t.Fatalf("seed %d: %d entries for %d keys", seed, entries, len(waiting))
					}
				}
			case len(waiting) > 0:
				got := f.Pop()
				if !waiting[got] {
					t.Fatalf("seed %d: %v comes out without a push", seed, got)
				}
				delete(waiting, got)
			}
			if f.Len() != len(waiting) {
				t.Fatalf("seed %d: Len is %d, want %d", seed, f.Len(), len(waiting))
			}
			for i := range f.kinds {
				entries := 0
				for _, group := range f.kinds[i].groups {
					entries += len(group)
				}
				if entries != f.kinds[i].entries || len(f.kinds[i].order) != len(f.kinds[i].groups) || len(waiting) == 0 && entries > 0 {
					t.Fatalf("seed %d: %d entries, counted as %d, %d groups of which %d are in order, for %d keys",
						seed, entries, f.kinds[i].entries, len(f.kinds[i].groups), len(f.kinds[i].order), len(waiting))
				}
			}
		}
		for len(waiting) > 0 {
			delete(waiting, f.Pop())
		}
		if f.Len() != 0 {
			t.Fatalf("seed %d: %d keys are left", seed, f.Len())
		}
	}
}

func BenchmarkFair(b *testing.B) {
	f := newFair(ownerOf, placeOf)
	keys := make([]pair, 10_000)
	for i := range keys {
		keys[i] = pair{fmt.Sprint(i % 10), fmt.Sprint(i)}
		f.Push(keys[i])
	}
	for b.Loop() {
		f.Push(f.Pop())
	}
}

// TestFairQueue: the workers of a fair Queue take its keys in turn.
func TestFairQueue(t *testing.T) {
	var got []pair
	ctx, cancel := context.WithCancel(t.Context())
	q := NewFair(Config{Name: "test"}, func(_ context.Context, key pair) (Result, error) {
		got = append(got, key)
		if len(got) == 5 {
			cancel()
		}
		return Result{}, nil
	}, ownerOf)
	for _, key := range []pair{{"a", "1"}, {"a", "2"}, {"a", "3"}, {"b", "1"}, {"b", "2"}} {
		q.Add(key)
	}
	q.Run(ctx, 1)
	if diff := cmp.Diff([]pair{{"a", "1"}, {"b", "1"}, {"a", "2"}, {"b", "2"}, {"a", "3"}}, got, cmp.AllowUnexported(pair{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
