package packing

import (
	"cmp"
	"slices"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Overhead is added to the length of an object to give its size: OCM's admission counts what wraps each manifest too.
const Overhead = 8

// Limits bound a work.
type Limits struct {
	// Count is the largest number of objects in a work.
	Count int
	// Bytes is the largest sum of the sizes of the objects in a work.
	Bytes int
}

// Item is an object that wants a place.
type Item struct {
	Ref  objref.Ref
	Size int
}

// Slot is an object in a work, as it is now.
type Slot struct {
	Ref  objref.Ref
	Size int
	// Current tells that this is the content that is wanted. Of an object that is in two works, because it is moving, the
	// one with the current content is where it moves to.
	Current bool
}

// Work is a work that exists and takes objects.
type Work struct {
	Name  string
	Wave  int
	Slots []Slot
}

// Placement is where the objects go.
type Placement struct {
	// Home is the name of the work of each object that has one.
	Home map[objref.Ref]string
	// TooLarge lists the objects that are too large for any work. They have no home. Sorted.
	TooLarge []objref.Ref
}

// Pack finds a home for each item. Works come in the order in which they are to be filled; newName names the n-th new work
// (from 0) of a wave. Slots of objects that are no items count for nothing: their place is free.
//
// The result depends on the arguments only. It takes time linear in items and slots, but for the logarithm.
func Pack(works []Work, items []Item, limits Limits, newName func(wave, n int) string) Placement {
	p := packer{limits: limits, home: make(map[objref.Ref]string, len(items))}
	sizes := make(map[objref.Ref]int, len(items))
	for _, item := range items {
		if item.Size > limits.Bytes || limits.Count < 1 {
			p.tooLarge = append(p.tooLarge, item.Ref)
			continue
		}
		sizes[item.Ref] = item.Size
	}
	p.keep(works, sizes)

	var homeless [WaveSecond + 1][]Item
	for _, item := range items {
		if _, fits := sizes[item.Ref]; !fits {
			continue
		}
		if _, ok := p.home[item.Ref]; !ok {
			wave := WaveOf(item.Ref.GroupResource())
			homeless[wave] = append(homeless[wave], item)
		}
	}
	for wave, items := range homeless {
		slices.SortFunc(items, func(a, b Item) int { return Order(a.Ref, b.Ref) })
		p.place(wave, works, items, newName)
	}
	slices.SortFunc(p.tooLarge, objref.Compare)
	return Placement{Home: p.home, TooLarge: p.tooLarge}
}

type load struct{ count, bytes int }

type packer struct {
	limits   Limits
	home     map[objref.Ref]string
	loads    []load // of the works, by their index
	tooLarge []objref.Ref
}

func (p *packer) fits(l load, size int) bool {
	return l.count < p.limits.Count && l.bytes+size <= p.limits.Bytes
}

// keep leaves every object where it is, as far as it fits.
func (p *packer) keep(works []Work, sizes map[objref.Ref]int) {
	where := make(map[objref.Ref]int, len(sizes)) // the work in which each object may stay
	twice := map[objref.Ref]int{}                 // the other works of objects that are moving
	for i, work := range works {
		for _, slot := range work.Slots {
			if _, wanted := sizes[slot.Ref]; !wanted || WaveOf(slot.Ref.GroupResource()) != work.Wave {
				continue
			}
			if _, seen := where[slot.Ref]; seen {
				twice[slot.Ref]++
				if !slot.Current {
					continue
				}
			}
			where[slot.Ref] = i
		}
	}

	p.loads = make([]load, len(works))
	for i, work := range works {
		// What the work holds of an object that has its home elsewhere is there until the other place has it.
		for _, slot := range work.Slots {
			if _, moving := twice[slot.Ref]; moving && where[slot.Ref] != i {
				p.loads[i].count++
				p.loads[i].bytes += slot.Size
			}
		}
		stay := make([]Slot, 0, len(work.Slots))
		for _, slot := range work.Slots {
			if home, ok := where[slot.Ref]; ok && home == i {
				stay = append(stay, slot)
			}
		}
		if p.fitsAll(p.loads[i], stay, sizes) {
			p.loads[i] = p.settle(p.loads[i], work.Name, stay, sizes)
			continue
		}
		// Those that grew least go first, so that the one that no longer fits is the one that moves.
		slices.SortStableFunc(stay, func(a, b Slot) int {
			return cmp.Or(
				cmp.Compare(max(sizes[a.Ref]-a.Size, 0), max(sizes[b.Ref]-b.Size, 0)),
				Order(a.Ref, b.Ref))
		})
		p.loads[i] = p.settle(p.loads[i], work.Name, stay, sizes)
	}
}

func (p *packer) fitsAll(l load, slots []Slot, sizes map[objref.Ref]int) bool {
	l.count += len(slots)
	for _, slot := range slots {
		l.bytes += sizes[slot.Ref]
	}
	return l.count <= p.limits.Count && l.bytes <= p.limits.Bytes
}

// settle makes the work the home of those that fit, in this order.
func (p *packer) settle(l load, name string, slots []Slot, sizes map[objref.Ref]int) load {
	for _, slot := range slots {
		size := sizes[slot.Ref]
		if !p.fits(l, size) {
			continue
		}
		l.count++
		l.bytes += size
		p.home[slot.Ref] = name
	}
	return l
}

// place gives each item the first work of the wave with room, or a new one.
func (p *packer) place(wave int, works []Work, items []Item, newName func(wave, n int) string) {
	if len(items) == 0 {
		return
	}
	var names []string
	var loads []load
	for i, work := range works {
		if work.Wave == wave {
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
			names = append(names, newName(wave, len(names)-existing))
			loads = append(loads, load{})
		}
		loads[i].count++
		loads[i].bytes += item.Size
		rooms.set(i, loads[i])
		p.home[item.Ref] = names[i]
	}
}
