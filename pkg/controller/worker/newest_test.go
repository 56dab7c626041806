package worker

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNewestOrder: the key that changed last and the one that has waited longest take turns, also
// if a key changes while it waits.
func TestNewestOrder(t *testing.T) {
	changed := map[string]uint64{"a": 5, "b": 3, "c": 9, "d": 1, "e": 0, "f": 0}
	n := newNewest(func(key string) uint64 { return changed[key] })
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		n.Push(key)
	}
	var got []string
	pop := func(times int) {
		for range times {
			got = append(got, n.Pop())
		}
	}
	pop(2)
	changed["e"] = 10
	n.Touch("e")
	n.Touch("c") // was taken
	pop(4)
	if diff := cmp.Diff([]string{"c", "a", "e", "b", "d", "f"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNewestKeepsKeys: in any order of calls, each key comes out once for each push, a key that
// changed last comes out at the first or second call, no key waits for more than twice those that
// wait with it, however many are added after it, and keys that were taken do not pile up.
func TestNewestKeepsKeys(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 4))
		changed := map[int]uint64{}
		n := newNewest(func(key int) uint64 { return changed[key] })
		left := map[int]int{} // how often Pop may be called before the key comes out
		latest, pops := 0, 0
		for step := range 5000 {
			key := random.IntN(60)
			_, waits := left[key]
			switch {
			case random.IntN(2) == 0:
				changed[key] = uint64(step)
				latest, pops = key, 0
				if waits {
					n.Touch(key)
					break
				}
				n.Push(key)
				left[key] = 2 * len(left)
				if len(n.arrived) > 2*len(n.keys)+65 {
					t.Fatalf("seed %d: %d entries for %d keys", seed, len(n.arrived), len(n.keys))
				}
			case n.Len() > 0:
				got := n.Pop()
				if _, waits := left[got]; !waits {
					t.Fatalf("seed %d: %d came out and did not wait", seed, got)
				}
				delete(left, got)
				pops++
				if _, waits := left[latest]; waits && pops == 2 {
					t.Fatalf("seed %d: %d changed last and waits", seed, latest)
				}
				for key := range left {
					left[key]--
					if left[key] < -1 {
						t.Fatalf("seed %d: %d waits too long", seed, key)
					}
				}
			}
		}
		if n.Len() != len(left) || n.byTime.Len() != len(left) {
			t.Errorf("seed %d: %d keys of which %d in the heap, want %d", seed, n.Len(), n.byTime.Len(), len(left))
		}
	}
}
