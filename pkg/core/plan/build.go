package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Plan is what is to be done for one destination.
type Plan struct {
	// Actions are to be carried out in this order. Those behind a failed one may still be carried out: each stands alone.
	Actions []Action
	// Waiting lists the objects that are not delivered yet because others are not there.
	Waiting []Wait
	// Conflicts lists the objects that other WDSes want at the destination with other content. Sorted.
	Conflicts []Conflict
	// Leaving lists the objects that are not wanted any more and are being handed over to somebody else. Sorted.
	Leaving []HandOver
	// Outdated lists works of other Bindings of ours: they hold objects that leave with other content, which the cluster may have
	// written last. Once the Actions are carried out they are to be nudged.
	Outdated []*Work
	// HeldBack counts the objects that are not as they are wanted because they are held.
	HeldBack int
	// TooLarge lists the objects that fit into no work. What works hold of them is held as it is. Sorted.
	TooLarge []objref.Ref
}

// Wait says what an object waits for.
type Wait struct {
	Ref, For objref.Ref
}

// Site is one destination of a Binding as it is.
type Site struct {
	// Mailbox is the name of the destination.
	Mailbox string
	// Prefix begins the names of new works: <prefix>-<wave>-<number>, with the lowest number that no work has.
	Prefix string
	// Works are all works of the Binding in the mailbox.
	Works []*Work
	// Hold says what stays as it is.
	Hold Hold
	// Stakes are those of others in objects that the Binding lists or the works hold. An object in which no other WDS has one
	// may be left out.
	Stakes map[objref.Ref][]Stake
	// Awaited are objects that another Binding of ours is about to deliver, with its name. What leaves the works of this one stays
	// until it has: the cluster would delete the object in between.
	Awaited map[objref.Ref]string
	// Copies are those of objects in the works, or of some of them, that works of other Bindings of ours hold there.
	Copies map[objref.Ref]Copy
}

// Copy is an object in a work of another Binding of ours.
type Copy struct {
	Work *Work
	Hash transform.Hash
}

// Remove plans to take everything out of the works of a site.
func Remove(site *Site) Plan {
	b := newBuilder(&Desired{}, site)
	b.holdOn()
	b.act()
	b.finish()
	return b.plan
}

// Build plans one destination.
//
// It takes time linear in objects and items; the common case, in which every object has its place, allocates next to nothing.
func Build(d *Desired, site *Site) Plan {
	b := newBuilder(d, site)
	b.look()
	b.holdOn()
	b.disputes()
	b.settle()
	b.act()
	b.finish()
	return b.plan
}

func newBuilder(d *Desired, site *Site) *builder {
	b := &builder{desired: d, site: site, all: sorted(site.Works)}
	for _, work := range b.all {
		if !work.Deleting {
			b.works = append(b.works, work)
		}
	}
	return b
}

// sorted returns the works by wave and number.
func sorted(works []*Work) []*Work {
	works = slices.Clone(works)
	slices.SortFunc(works, func(a, b *Work) int {
		return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return works
}

// place is an item in a work.
type place struct{ work, item int }

var nowhere = place{-1, -1}

// newWork is the work of objects whose work does not exist yet: newWork+n is the n-th new one.
const newWork = 1 << 30

type builder struct {
	desired *Desired
	site    *Site
	all     []*Work // by wave and number
	works   []*Work // those of all that are not on their way out

	held   []place             // for each object the first place that holds it, with the content that is wanted if there is one
	home   []int               // for each object the index of its work, -1: none
	moved  bool                // some object is in two works
	claims map[int]bool        // the objects that somebody else delivers
	needed map[objref.Ref]bool // the Namespaces and kinds of held objects that the works hold
	fresh  []string
	plan   Plan
}

// hold tells whether the object's content stays as it is.
func (b *builder) hold(i int) bool {
	object := &b.desired.objects[i]
	return !object.Known || object.Size() > b.desired.limits.Bytes || b.site.Hold.Holds(object.Ref)
}

// keeps tells whether the item's content stays as it is, also because the object is to be let go first.
func (b *builder) keeps(i int, item *Item) bool {
	return b.hold(i) || b.claims[i] && !released(item)
}

// options returns the options that the object, if it is in the item already, should have there; item may be nil.
func (b *builder) options(i int, item *Item) Options {
	options := b.desired.objects[i].Options
	switch {
	case item != nil && item.Withdrawn && b.keeps(i, item):
		return Options{Observe: true} // there is no content to deal with
	case !b.claims[i] && item != nil && !b.desired.objects[i].Known:
		return item.Options // how to deal with it is said by the object, which cannot be read
	case !b.claims[i]:
	case item != nil && item.Orphan && !released(item):
		return item.Options
	case item != nil && !released(item):
		return letGo()
	default:
		return Options{Observe: true}
	}
	return options
}

func (b *builder) item(p place) *Item { return &b.works[p.work].Items[p.item] }

// size is the size that the object will have where it is held or goes to.
func (b *builder) size(i int) int {
	if b.held[i] != nowhere && b.keeps(i, b.item(b.held[i])) {
		return b.item(b.held[i]).Size
	}
	return b.desired.objects[i].Size()
}

// current tells whether the item holds what is wanted of the object.
func (b *builder) current(i int, item *Item) bool {
	return b.keeps(i, item) || item.Hash == b.desired.objects[i].Hash
}

// look finds out where the objects are.
func (b *builder) look() {
	b.held = slices.Repeat([]place{nowhere}, len(b.desired.objects))
	for w, work := range b.works {
		for j := range work.Items {
			i, ok := b.desired.index[work.Items[j].Ref]
			if !ok {
				continue
			}
			if b.held[i] != nowhere {
				b.moved = true
				if !b.better(i, &work.Items[j], b.item(b.held[i])) {
					continue
				}
			}
			b.held[i] = place{w, j}
		}
	}
	for i := range b.desired.objects {
		object := &b.desired.objects[i]
		if object.Known && object.Size() > b.desired.limits.Bytes && !b.site.Hold.Holds(object.Ref) {
			b.plan.TooLarge = append(b.plan.TooLarge, object.Ref)
		}
	}
	slices.SortFunc(b.plan.TooLarge, objref.Compare)
}

// better tells whether an item rather than another one is the place of the object.
func (b *builder) better(i int, item, than *Item) bool {
	if item.Withdrawn != than.Withdrawn {
		return than.Withdrawn
	}
	return b.current(i, item) && !b.current(i, than)
}

// holdOn finds out what is held, and what is held back.
func (b *builder) holdOn() {
	if !b.site.Hold.Any() {
		return
	}
	b.needed = map[objref.Ref]bool{}
	for _, work := range b.works {
		for j := range work.Items {
			if ref := work.Items[j].Ref; b.site.Hold.Holds(ref) {
				for _, need := range prerequisites(ref) {
					b.needed[need] = true
				}
			}
		}
	}
	for i := range b.desired.objects {
		object := &b.desired.objects[i]
		if !b.site.Hold.Holds(object.Ref) {
			continue
		}
		if b.held[i] == nowhere {
			b.plan.HeldBack++
		} else if item := b.item(b.held[i]); object.Known && item.Hash != object.Hash || item.Options != object.Options {
			b.plan.HeldBack++
		}
	}
	for _, work := range b.works {
		for j := range work.Items {
			if _, wanted := b.desired.index[work.Items[j].Ref]; !wanted && b.isHeld(work, &work.Items[j]) {
				b.plan.HeldBack++
			}
		}
	}
}

// settle gives each object its home.
func (b *builder) settle() {
	b.home = slices.Repeat([]int{-1}, len(b.desired.objects))
	var homeless []int
	for i := range b.desired.objects {
		switch {
		case b.held[i] != nowhere:
			b.home[i] = b.held[i].work
		case !b.hold(i):
			homeless = append(homeless, i)
		}
	}
	homeless = b.ready(homeless)
	if len(homeless) == 0 && !b.moved && b.fits() {
		return
	}
	b.pack(homeless)
}

// fits tells whether all objects can stay where they are. It spares the packing in the common case.
func (b *builder) fits() bool {
	limits := b.desired.limits
	for _, work := range b.works {
		count, bytes := 0, 0
		for j := range work.Items {
			i, ok := b.desired.index[work.Items[j].Ref]
			lingering := 0
			if !ok {
				lingering = b.lingers(work, &work.Items[j])
			}
			switch {
			case !ok && lingering == 0:
				continue
			case packing.WaveOf(work.Items[j].Ref.GroupResource()) != work.Wave:
				return false
			case ok:
				bytes += b.size(i)
			default:
				bytes += lingering
			}
			count++
		}
		if count > limits.Count || bytes > limits.Bytes {
			return false
		}
	}
	return true
}

// ready returns those of the objects for which everything they need is in the cluster, and notes what the others wait for.
//
// While an answer is under way that may let objects go, all new ones of the second wave wait for it, so that they come with
// one write. An answer that says no, or that cannot come, holds up only those who need it.
func (b *builder) ready(objects []int) []int {
	expecting := -1
	wait := func(i, need int) {
		b.plan.Waiting = append(b.plan.Waiting, Wait{Ref: b.desired.objects[i].Ref, For: b.desired.objects[need].Ref})
	}
	var ready []int
	for _, i := range objects {
		waits := false
		for _, need := range b.desired.needs[i] {
			if b.present(need) {
				continue
			}
			p := b.held[need]
			gone := p == nowhere || b.item(p).Withdrawn
			if gone && !b.hold(need) || !gone && b.item(p).State != Failed {
				expecting = need
			}
			if !waits {
				waits = true
				wait(i, need)
			}
		}
		if !waits {
			ready = append(ready, i)
		}
	}
	if expecting < 0 {
		return ready
	}
	return slices.DeleteFunc(ready, func(i int) bool {
		second := packing.WaveOf(b.desired.objects[i].Ref.GroupResource()) == packing.WaveSecond
		if second {
			wait(i, expecting)
		}
		return second
	})
}

// present tells whether the object is in the cluster with the content that is wanted: also by a work that it is leaving.
func (b *builder) present(i int) bool {
	is := func(item *Item) bool { return item.there() && b.current(i, item) }
	switch p := b.held[i]; {
	case p == nowhere:
		return false
	case is(b.item(p)) || !b.moved:
		return is(b.item(p))
	}
	for _, work := range b.works {
		for j := range work.Items {
			if item := &work.Items[j]; item.Ref == b.desired.objects[i].Ref && is(item) {
				return true
			}
		}
	}
	return false
}

// pack asks package packing for the homes of the objects that are held and of those that come.
func (b *builder) pack(come []int) {
	items := make([]packing.Item, 0, len(b.desired.objects))
	for i := range b.desired.objects {
		if b.held[i] != nowhere {
			pinned := b.keeps(i, b.item(b.held[i]))
			items = append(items, packing.Item{Ref: b.desired.objects[i].Ref, Size: b.size(i), Pinned: pinned})
		}
	}
	for _, i := range come {
		items = append(items, packing.Item{Ref: b.desired.objects[i].Ref, Size: b.size(i)})
	}
	works := make([]packing.Work, len(b.works))
	index := make(map[string]int, len(b.works))
	for w, work := range b.works {
		works[w] = packing.Work{Name: work.Name, Wave: work.Wave, Slots: make([]packing.Slot, 0, len(work.Items))}
		for j := range work.Items {
			item := &work.Items[j]
			if i, ok := b.desired.index[item.Ref]; ok {
				works[w].Slots = append(works[w].Slots, packing.Slot{Ref: item.Ref, Size: item.Size, Current: b.current(i, item)})
			} else if size := b.lingers(work, item); size > 0 {
				works[w].Count++
				works[w].Bytes += size
			}
		}
		index[work.Name] = w
	}
	namer := b.namer()
	placement := packing.Pack(works, items, b.desired.limits, func(wave, n int) string {
		name := namer(wave, n)
		index[name] = newWork + len(b.fresh)
		b.fresh = append(b.fresh, name)
		return name
	})
	for i := range b.desired.objects {
		b.home[i] = -1
		if name, ok := placement.Home[b.desired.objects[i].Ref]; ok {
			b.home[i] = index[name]
		}
	}
}

// namer returns a function that names the n-th new work of a wave. A work that is on its way out still has its name.
func (b *builder) namer() func(wave, n int) string {
	taken := make(map[string]bool, len(b.all))
	for _, work := range b.all {
		taken[work.Name] = true
	}
	return func(wave, _ int) string {
		for n := 0; ; n++ {
			name := fmt.Sprintf("%s-%d-%d", b.site.Prefix, wave, n)
			if !taken[name] {
				taken[name] = true
				return name
			}
		}
	}
}
