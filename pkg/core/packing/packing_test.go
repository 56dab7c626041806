package packing_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
)

func configMap(name string) objref.Ref {
	return objref.Ref{Resource: "configmaps", Namespace: "web", Name: name}
}

func name(wave, n int) string { return fmt.Sprintf("new-%d-%d", wave, n) }

func TestPack(t *testing.T) {
	a, b, c, d := configMap("a"), configMap("b"), configMap("c"), configMap("d")
	namespace := objref.Ref{Resource: "namespaces", Name: "web"}
	limits := packing.Limits{Count: 3, Bytes: 100}

	cases := map[string]struct {
		works  []packing.Work
		items  []packing.Item
		limits packing.Limits
		want   map[objref.Ref]string
	}{
		"FirstPlacementSplitsWaves": {
			items: []packing.Item{{Ref: a, Size: 10}, {Ref: namespace, Size: 10}, {Ref: b, Size: 10}},
			want:  map[objref.Ref]string{namespace: "new-0-0", a: "new-1-0", b: "new-1-0"},
		},
		"FirstWorkWithRoom": {
			works: []packing.Work{
				{Name: "w0", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 90}}},
				{Name: "w1", Wave: 1, Slots: []packing.Slot{{Ref: b, Size: 50}}},
			},
			items: []packing.Item{{Ref: a, Size: 90}, {Ref: b, Size: 50}, {Ref: c, Size: 20}, {Ref: d, Size: 10}},
			want:  map[objref.Ref]string{a: "w0", b: "w1", c: "w1", d: "w0"},
		},
		"ByCount": {
			items:  []packing.Item{{Ref: a, Size: 1}, {Ref: b, Size: 1}, {Ref: c, Size: 1}},
			limits: packing.Limits{Count: 1, Bytes: 100},
			want:   map[objref.Ref]string{a: "new-1-0", b: "new-1-1", c: "new-1-2"},
		},
		"OnItsWayFromAnOverfullWorkToOneThatIsFullWithIt": {
			works: []packing.Work{
				{Name: "w0", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 1, Current: true}, {Ref: b, Size: 1, Current: true}, {Ref: c, Size: 1, Current: true}}},
				{Name: "w1", Wave: 1, Slots: []packing.Slot{{Ref: c, Size: 1, Current: true}, {Ref: d, Size: 1, Current: true}}},
			},
			items:  []packing.Item{{Ref: a, Size: 1}, {Ref: b, Size: 1}, {Ref: c, Size: 1}, {Ref: d, Size: 1}},
			limits: packing.Limits{Count: 2, Bytes: 100},
			want:   map[objref.Ref]string{a: "w0", b: "w0", c: "w1", d: "w1"},
		},
		"WhatMayFailComesToWorksOfItsOwn": {
			works: []packing.Work{
				{Name: "w0", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 1}}},
				{Name: "w1", Wave: 1, Mixed: true},
				{Name: "w2", Wave: 1, Apart: "y"},
			},
			items: []packing.Item{{Ref: a, Size: 1, Apart: "x"}, {Ref: b, Size: 1, Apart: "x"}, {Ref: c, Size: 1, Apart: "y"}, {Ref: d, Size: 1}},
			want:  map[objref.Ref]string{a: "w0", b: "new-1-0", c: "w2", d: "w0"},
		},
		"StaysThoughAnEarlierWorkHasRoom": {
			works: []packing.Work{
				{Name: "w0", Wave: 1},
				{Name: "w1", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 10}}},
			},
			items: []packing.Item{{Ref: a, Size: 10}},
			want:  map[objref.Ref]string{a: "w1"},
		},
		"TheOneThatGrewMoves": {
			works: []packing.Work{{Name: "w0", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 30}, {Ref: b, Size: 30}, {Ref: c, Size: 30}}}},
			items: []packing.Item{{Ref: a, Size: 60}, {Ref: b, Size: 30}, {Ref: c, Size: 30}},
			want:  map[objref.Ref]string{a: "new-1-0", b: "w0", c: "w0"},
		},
		"WhatIsNotWantedLeavesRoom": {
			works: []packing.Work{{Name: "w0", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 100}}}},
			items: []packing.Item{{Ref: b, Size: 100}},
			want:  map[objref.Ref]string{b: "w0"},
		},
		"AMovingObjectGoesWhereItsContentIsCurrent": {
			works: []packing.Work{
				{Name: "w0", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 30}, {Ref: b, Size: 60}}},
				{Name: "w1", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 40, Current: true}}},
			},
			items: []packing.Item{{Ref: a, Size: 40}, {Ref: b, Size: 60}, {Ref: c, Size: 20}},
			want:  map[objref.Ref]string{a: "w1", b: "w0", c: "w1"}, // w0 has room for c only when a has left it
		},
		"PinnedStaysWhateverTheLimits": {
			works: []packing.Work{{Name: "w0", Wave: 1, Slots: []packing.Slot{{Ref: a, Size: 40}, {Ref: b, Size: 110, Current: true}}}},
			items: []packing.Item{{Ref: a, Size: 40}, {Ref: b, Size: 110, Pinned: true}, {Ref: c, Size: 1}},
			want:  map[objref.Ref]string{a: "new-1-0", b: "w0", c: "new-1-0"},
		},
		"TooLargeAlone": {
			items: []packing.Item{{Ref: a, Size: 101}, {Ref: b, Size: 100}},
			want:  map[objref.Ref]string{b: "new-1-0"},
		},
	}
	for caseName, tc := range cases {
		t.Run(caseName, func(t *testing.T) {
			if tc.limits == (packing.Limits{}) {
				tc.limits = limits
			}
			got := packing.Pack(tc.works, tc.items, tc.limits, name)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Pack() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPackKeepsItsPromises runs random histories of objects that come, go, grow and shrink, and
// checks after each step that the limits hold, that nothing moved that could have stayed, and that
// the order of the items does not matter.
func TestPackKeepsItsPromises(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		limits := packing.Limits{Count: 1 + random.IntN(6), Bytes: 50 + random.IntN(100)}
		if seed%2 == 0 {
			limits.Target = packing.Target{Count: 1 + random.IntN(limits.Count), Bytes: 20 + random.IntN(limits.Bytes)}
		}
		sizes := map[objref.Ref]int{}
		var works []packing.Work
		for step := range 30 {
			for range 1 + random.IntN(4) {
				ref := configMap(fmt.Sprint(random.IntN(30)))
				switch random.IntN(3) {
				case 0:
					delete(sizes, ref)
				default:
					sizes[ref] = 1 + random.IntN(limits.Bytes+5)
				}
			}
			var items []packing.Item
			for ref, size := range sizes { // random order
				items = append(items, packing.Item{Ref: ref, Size: size})
			}
			n := step
			fresh := func(wave, i int) string { return fmt.Sprintf("w%03d-%d-%03d", n, wave, i) }
			got := packing.Pack(works, items, limits, fresh)

			slices.Reverse(items)
			if diff := cmp.Diff(got, packing.Pack(works, items, limits, fresh)); diff != "" {
				t.Fatalf("seed %d step %d: the order of items matters (-want +got):\n%s", seed, step, diff)
			}
			works = check(t, works, sizes, limits, got)
			if t.Failed() {
				t.Fatalf("seed %d step %d", seed, step)
			}
		}
	}
}

func check(t *testing.T, before []packing.Work, sizes map[objref.Ref]int, limits packing.Limits, got map[objref.Ref]string) []packing.Work {
	t.Helper()
	contents := map[string][]packing.Slot{}
	bytes := map[string]int{}
	for ref, size := range sizes {
		home, ok := got[ref]
		if tooLarge := size > limits.Bytes; tooLarge == ok {
			t.Errorf("%s of size %d: home %q", ref, size, home)
		}
		if ok {
			contents[home] = append(contents[home], packing.Slot{Ref: ref, Size: size})
			bytes[home] += size
		}
	}
	// What moves away is there until it has arrived elsewhere.
	counts := map[string]int{}
	for home, slots := range contents {
		counts[home] = len(slots)
	}
	moved := map[objref.Ref]packing.Slot{}
	from := map[objref.Ref]string{}
	for _, work := range before {
		for _, slot := range work.Slots {
			if home, ok := got[slot.Ref]; ok && home != work.Name {
				moved[slot.Ref], from[slot.Ref] = slot, work.Name
				counts[work.Name]++
				bytes[work.Name] += slot.Size
			}
		}
	}
	for home := range contents {
		if counts[home] > limits.Count || bytes[home] > limits.Bytes {
			t.Errorf("work %s holds %d objects of %d bytes, limits are %+v", home, counts[home], bytes[home], limits)
		}
	}
	had := map[string]map[objref.Ref]bool{}
	for _, work := range before {
		had[work.Name] = map[objref.Ref]bool{}
		for _, slot := range work.Slots {
			had[work.Name][slot.Ref] = true
		}
	}
	for home, slots := range contents {
		came := slices.ContainsFunc(slots, func(s packing.Slot) bool { return !had[home][s.Ref] })
		if target := limits.Target; came && target.Count > 0 && counts[home] > 1 && (counts[home] > target.Count || bytes[home] > target.Bytes) {
			t.Errorf("an object came to work %s, which now holds %d objects of %d bytes; the target is %+v", home, counts[home], bytes[home], target)
		}
	}
	for ref, slot := range moved {
		if bytes[from[ref]]-slot.Size+sizes[ref] <= limits.Bytes {
			t.Errorf("%s moved from %s to %s, and could have stayed", ref, from[ref], got[ref])
		}
	}
	after := make([]packing.Work, 0, len(contents))
	for home, slots := range contents {
		slices.SortFunc(slots, func(a, b packing.Slot) int { return packing.Order(a.Ref, b.Ref) })
		after = append(after, packing.Work{Name: home, Wave: 1, Slots: slots})
	}
	slices.SortFunc(after, func(a, b packing.Work) int { return cmpString(a.Name, b.Name) })
	return after
}

// TestRepack: works that are larger than the target lose objects, a few at a time, until none is.
// Without Repack, nothing moves.
func TestRepack(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		sizes := map[objref.Ref]int{}
		var items []packing.Item
		var works []packing.Work
		for w := range 1 + random.IntN(4) {
			work := packing.Work{Name: fmt.Sprintf("w%03d", w), Wave: packing.WaveSecond}
			for i := range random.IntN(60) {
				ref, size := configMap(fmt.Sprintf("%d-%02d", w, i)), 1+random.IntN(100)
				sizes[ref] = size
				items = append(items, packing.Item{Ref: ref, Size: size})
				work.Slots = append(work.Slots, packing.Slot{Ref: ref, Size: size, Current: true})
			}
			works = append(works, work)
		}
		limits := packing.Limits{Count: 1000, Bytes: 10_000, Target: packing.Target{Count: 1 + random.IntN(10), Bytes: 50 + random.IntN(300)}}
		fresh := func(n int) func(wave, i int) string {
			return func(wave, i int) string { return fmt.Sprintf("x%03d-%d-%03d", n, wave, i) }
		}
		for ref, home := range packing.Pack(works, items, limits, fresh(0)) {
			if home[:1] != "w" {
				t.Fatalf("seed %d: %s moves to %s though nothing asks for it", seed, ref, home)
			}
		}
		limits.Repack = true
		for n := 1; ; n++ {
			homes := packing.Pack(works, items, limits, fresh(n))
			after := place(sizes, homes)
			// While some objects are on their way, and in two works, no others leave.
			if diff := cmp.Diff(homes, packing.Pack(both(works, after), items, limits, fresh(n+1000))); diff != "" {
				t.Fatalf("seed %d, round %d: others follow (-want +got):\n%s", seed, n, diff)
			}
			moved := 0
			for _, work := range works {
				for _, slot := range work.Slots {
					if homes[slot.Ref] != work.Name {
						moved++
					}
				}
			}
			if moved == 0 {
				break
			}
			if works = after; moved > 16 || n > 100 {
				t.Fatalf("seed %d, round %d: %d objects move at once", seed, n, moved)
			}
		}
		for _, work := range works {
			bytes := 0
			for _, slot := range work.Slots {
				bytes += slot.Size
			}
			if n := len(work.Slots); n > 1 && (n > limits.Target.Count || bytes > limits.Target.Bytes) {
				t.Errorf("seed %d: %s still has %d objects of %d bytes, the target is %+v", seed, work.Name, n, bytes, limits.Target)
			}
		}
	}
}

// place returns the works in which every object is at home.
func place(sizes map[objref.Ref]int, homes map[objref.Ref]string) []packing.Work {
	byName := map[string]*packing.Work{}
	for _, ref := range slices.SortedFunc(maps.Keys(homes), packing.Order) {
		work := byName[homes[ref]]
		if work == nil {
			work = &packing.Work{Name: homes[ref], Wave: packing.WaveSecond}
			byName[homes[ref]] = work
		}
		work.Slots = append(work.Slots, packing.Slot{Ref: ref, Size: sizes[ref], Current: true})
	}
	var works []packing.Work
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		works = append(works, *byName[name])
	}
	return works
}

// both returns the works while every object that moves is in both of its works.
func both(before, after []packing.Work) []packing.Work {
	works := slices.Clone(before)
	for _, work := range after {
		i := slices.IndexFunc(works, func(w packing.Work) bool { return w.Name == work.Name })
		if i < 0 {
			works = append(works, work)
			continue
		}
		for _, slot := range work.Slots {
			if !slices.ContainsFunc(works[i].Slots, func(s packing.Slot) bool { return s.Ref == slot.Ref }) {
				works[i].Slots = append(slices.Clone(works[i].Slots), slot)
			}
		}
	}
	return works
}

func cmpString(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func TestOrder(t *testing.T) {
	want := []objref.Ref{
		{Resource: "namespaces", Name: "web"},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "x"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "x"},
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: "web", Name: "x"},
		{Resource: "serviceaccounts", Namespace: "web", Name: "x"},
		{Resource: "configmaps", Namespace: "web", Name: "a"},
		{Resource: "configmaps", Namespace: "web", Name: "b"},
		{Resource: "secrets", Namespace: "web", Name: "a"},
		{Resource: "services", Namespace: "web", Name: "a"},
		{Group: "example.com", Resource: "widgets", Namespace: "web", Name: "a"},
		{Group: "apps", Resource: "deployments", Namespace: "web", Name: "a"},
		{Group: "networking.k8s.io", Resource: "ingresses", Namespace: "web", Name: "a"},
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Name: "a"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, packing.Order)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
	for i, ref := range want {
		if wave := packing.WaveOf(ref.GroupResource()); (wave == packing.WaveFirst) != (i < 2) {
			t.Errorf("WaveOf(%s) = %d", ref, wave)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4, 1e5} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			items := make([]packing.Item, n)
			for i := range items {
				items[i] = packing.Item{Ref: configMap(fmt.Sprint(i)), Size: 1000}
			}
			limits := packing.Limits{Count: 1, Bytes: 512000}
			for b.Loop() {
				packing.Pack(nil, items, limits, name)
			}
		})
	}
}
