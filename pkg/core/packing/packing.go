package packing

import (
	"cmp"
	"maps"
	"slices"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Overhead is added to the length of an object to give its size: OCM's admission counts what wraps
// each manifest too.
const Overhead = 8

// Limits bound a work.
type Limits struct {
	// Count is the largest number of objects in a work, Bytes the largest sum of their sizes. An
	// object that grows stays in its work within these.
	Count, Bytes int
	// Target bounds what a work has when an object comes to it: each edit of an object costs the
	// ITS and the cluster as much as its work is large. Zero values are those of the limits. An
	// object that is larger is alone in its work.
	Target Target
	// Repack makes works that are larger than the target lose objects to others, a few at a time.
	Repack bool
}

// Target is a number of objects and a sum of their sizes.
type Target struct{ Count, Bytes int }

// MaxCount is a number of objects of whose state a work of 512,000 bytes can have a report: with
// the three conditions of OCM's agents, about 640 bytes each, it is as large as etcd stores.
const MaxCount = 1500

// Exceeded reports whether a work with so many objects of that size must lose some.
func (l Limits) Exceeded(count, bytes int) bool {
	return count > l.Count || bytes > l.Bytes || l.Repack && count > 1 && l.beyondTarget(count, bytes)
}

func (l Limits) beyondTarget(count, bytes int) bool {
	return l.Target.Count > 0 && count > l.Target.Count || l.Target.Bytes > 0 && bytes > l.Target.Bytes
}

// room returns the size of the largest object that may come to a work; negative for none.
func (l Limits) room(now load) int {
	bytes := l.Bytes
	switch {
	case now == load{}:
		return bytes
	case now.count >= l.Count || l.beyondTarget(now.count+1, now.bytes):
		return -1
	case l.Target.Bytes > 0:
		bytes = min(bytes, l.Target.Bytes)
	}
	return bytes - now.bytes
}

// repackedAtOnce is how many objects for one destination leave works that are larger than the
// target at once. Until they have arrived, each is in two works.
const repackedAtOnce = 16

// Item is an object that needs a place.
type Item struct {
	Ref  objref.Ref
	Size int
	// Pinned: the object stays where it is, whatever the limits. It is in a work.
	Pinned bool
	// Apart, if not empty, names objects that may fail together, and not with others: they come to
	// works of their own. An object that is in a work with others stays there.
	Apart string
}

// Slot is an object in a work, as it is now.
type Slot struct {
	Ref  objref.Ref
	Size int
	// Current: this is the desired content. An object that is in two works, because it is moving,
	// moves to the one with the current content.
	Current bool
}

// Work is a work that exists and takes objects.
type Work struct {
	Name  string
	Wave  int
	Slots []Slot
	// Count and Bytes are those of what else is in the work; it stays whatever is packed.
	Count, Bytes int
	// Apart is that of the objects in the work. Mixed: they differ; nothing else comes to it.
	Apart string
	Mixed bool
}

// Pack returns the name of the work of each item, its home. An item that is too large for any work
// has none. Works come in the order in which they are to be filled; newName names the n-th new work
// (from 0) of a wave. Slots of objects that are not items do not count: their place is free.
//
// The result depends on the arguments only. It takes time linear in items and slots, but for the
// logarithm.
func Pack(works []Work, items []Item, limits Limits, newName func(wave, n int) string) map[objref.Ref]string {
	p := packer{limits: limits, home: make(map[objref.Ref]string, len(items)), pinned: map[objref.Ref]bool{}}
	sizes := make(map[objref.Ref]int, len(items))
	for _, item := range items {
		if item.Pinned {
			p.pinned[item.Ref] = true
		} else if item.Size > limits.Bytes || limits.Count < 1 {
			continue
		}
		sizes[item.Ref] = item.Size
	}
	p.stay(works, sizes)

	var homeless [WaveSecond + 1]map[string][]Item
	for _, item := range items {
		if _, fits := sizes[item.Ref]; !fits {
			continue
		}
		if _, ok := p.home[item.Ref]; !ok {
			wave := WaveOf(item.Ref.GroupResource())
			if homeless[wave] == nil {
				homeless[wave] = map[string][]Item{}
			}
			homeless[wave][item.Apart] = append(homeless[wave][item.Apart], item)
		}
	}
	for wave, groups := range homeless {
		p.created = 0
		for _, apart := range slices.Sorted(maps.Keys(groups)) {
			items := groups[apart]
			slices.SortFunc(items, func(a, b Item) int { return Order(a.Ref, b.Ref) })
			p.place(wave, apart, works, items, newName)
		}
	}
	return p.home
}

type load struct{ count, bytes int }

type packer struct {
	limits Limits
	home   map[objref.Ref]string
	pinned map[objref.Ref]bool
	loads  []load // of the works, by their index, with what they still have of objects that move away
	// repacked is how many objects may still leave works that are larger than the target.
	repacked int
	// created is the number of new works of a wave.
	created int
}

// stay leaves every object where it is, as far as it fits.
func (p *packer) stay(works []Work, sizes map[objref.Ref]int) {
	where := make(map[objref.Ref]int, len(sizes)) // the work in which each object may stay
	current := map[objref.Ref]bool{}              // those whose work there has the desired content
	other := map[objref.Ref]int{}                 // of those the first further work that has it too: where it moves to
	moving := false
	for i, work := range works {
		for _, slot := range work.Slots {
			_, wanted := sizes[slot.Ref]
			if !wanted || WaveOf(slot.Ref.GroupResource()) != work.Wave && !p.pinned[slot.Ref] {
				continue
			}
			home, seen := where[slot.Ref]
			moving = moving || seen
			switch {
			case !seen || slot.Current && !current[slot.Ref]:
				where[slot.Ref] = i
				if slot.Current {
					current[slot.Ref] = true
				}
			case slot.Current && home != i && other[slot.Ref] == 0: // no further work is the first one
				other[slot.Ref] = i
			}
		}
	}
	if p.limits.Repack && !moving { // otherwise those that are on their way arrive first
		p.repacked = repackedAtOnce
	}
	p.loads = make([]load, len(works))
	for i, work := range works {
		p.loads[i] = load{work.Count, work.Bytes}
		var stay []Slot
		for _, slot := range work.Slots {
			home, wanted := where[slot.Ref]
			switch {
			case !wanted:
				continue
			case home == i:
				stay = append(stay, slot)
			}
			p.loads[i].count++
			p.loads[i].bytes += slot.Size
		}
		p.stayIn(&p.loads[i], &work, stay, sizes, func(s Slot) bool { return other[s.Ref] > i })
		for _, slot := range stay {
			if next := other[slot.Ref]; next > i && p.home[slot.Ref] == "" {
				where[slot.Ref] = next // it was on its way there already, though there may be no room for it a second time
			}
		}
	}
}

// stayIn makes the work the home of those of its objects that are pinned or fit. What shrinks makes
// room at once. Objects that grew least come first, so that an object that no longer fits is one
// that grew; it counts here until it is in its new work. leaving reports whether another work has
// the object already.
func (p *packer) stayIn(l *load, work *Work, slots []Slot, sizes map[objref.Ref]int, leaving func(Slot) bool) {
	growth := func(s Slot) int {
		if p.pinned[s.Ref] {
			return -1 // before all others
		}
		return max(sizes[s.Ref]-s.Size, 0)
	}
	slices.SortFunc(slots, func(a, b Slot) int {
		return cmp.Or(cmp.Compare(growth(a), growth(b)), Order(a.Ref, b.Ref))
	})
	for _, slot := range slots {
		l.bytes += min(sizes[slot.Ref]-slot.Size, 0)
	}
	placed := load{work.Count, work.Bytes}
	for _, slot := range slots {
		size, grows := sizes[slot.Ref], growth(slot)
		overfull := !p.pinned[slot.Ref] && (placed.count >= p.limits.Count || placed.bytes+size > p.limits.Bytes) // the limits were lowered
		if overfull || grows > 0 && l.bytes+grows > p.limits.Bytes {
			continue
		}
		if repacked := leaving(slot) || p.repacked > 0; repacked && !p.pinned[slot.Ref] && p.limits.Exceeded(placed.count+1, placed.bytes+size) {
			p.repacked--
			continue
		}
		placed.count++
		placed.bytes += size
		l.bytes += max(size-slot.Size, 0)
		p.home[slot.Ref] = work.Name
	}
}

// place gives each item, all with the same Apart, the first work of the wave with room, or a new
// one.
func (p *packer) place(wave int, apart string, works []Work, items []Item, newName func(wave, n int) string) {
	var names []string
	var loads []load
	for i, work := range works {
		if work.Wave == wave && work.Apart == apart && !work.Mixed {
			names = append(names, work.Name)
			loads = append(loads, p.loads[i])
		}
	}
	existing := len(names)
	rooms := newRooms(existing+len(items), p.limits)
	for i, l := range loads {
		rooms.set(i, l)
	}
	for _, item := range items {
		i := rooms.first(item.Size)
		for i >= len(names) { // an untouched place: a new work
			names = append(names, newName(wave, p.created))
			p.created++
			loads = append(loads, load{})
		}
		loads[i].count++
		loads[i].bytes += item.Size
		rooms.set(i, loads[i])
		p.home[item.Ref] = names[i]
	}
}
