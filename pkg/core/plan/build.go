package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
)

// Plan is what to do for one destination.
type Plan struct {
	// Actions are to be carried out in this order. Those after a failed one may still be carried
	// out: they do not depend on each other.
	Actions []Action
	// Waiting lists the objects that are not delivered yet because objects that they need are not
	// in the cluster.
	Waiting []Wait
	// Conflicts lists the objects that other owners want at the destination with other content.
	// Sorted.
	Conflicts []Conflict
	// Leaving lists the objects that are not wanted any more and stay in their works until another
	// owner has them, or the cluster has reported that it keeps them. Sorted.
	Leaving []HandOver
	// Required lists the CustomResourceDefinitions that are not wanted any more and stay because
	// objects need them. Sorted.
	Required []Requirement
	// Postponed: something is done later because other Bindings of ours leave objects that this one
	// is to orphan.
	Postponed bool
	// Outdated lists works of other Bindings of our source: they have objects that leave with other
	// content, which the cluster may have written last. Once the Actions are carried out they are
	// to be nudged.
	Outdated []*Work
	// HeldBack counts the objects that are not as desired because they are held.
	HeldBack int
	// TooLarge lists the objects that fit into no work. What works have of them stays as it is.
	// Sorted.
	TooLarge []objref.Ref
}

// Wait is an object and what it waits for.
type Wait struct {
	Ref, For objref.Ref
}

// Current is what a Binding has at one destination now, and what others have there of the same
// objects.
type Current struct {
	// Mailbox is the name of the destination.
	Mailbox string
	// Prefix begins the names of new works: <prefix>-<wave>-<number>, with the lowest number that
	// no work has.
	Prefix string
	// Works are all works of the Binding in the mailbox.
	Works []*Work
	// Restored are works of the Binding that were restored from a backup; see Retire.
	Restored []*Work
	// Unattended: no agent is expected to report on the works any more, or nobody waits for it.
	Unattended bool
	// Passed: the name of the destination stands for another one now, which has another mailbox.
	// Owners are those in that one, the Binding that is planned included.
	Passed bool
	// Hold says what stays as it is.
	Hold Hold
	// Owners are the others that are to have, or have, objects that the Binding wants or its works
	// have. Owners of our source matter only for objects that leave, and for those that owners of
	// another source have.
	Owners Owners
	// Siblings are works of other Bindings of our source in the mailbox. They matter for objects
	// that were re-created, since the former one may be in them, or they wait for its end, too; and
	// for objects that are to be orphaned, which may have left them.
	Siblings []*Work
	// Orphans returns whether an object that is not wanted any more is to stay in the cluster, if
	// that is known now. Otherwise, and if it is nil, what its work says counts.
	Orphans func(objref.Ref) (orphan, known bool)
	// Dependents are objects of others that need CustomResourceDefinitions and Namespaces which
	// leave.
	Dependents Dependents
}

// Build plans one destination. The zero Desired removes everything from the works.
//
// It takes time linear in objects and items; the common case, in which every object has its place,
// allocates next to nothing.
func Build(d *Desired, now *Current) Plan {
	b := &builder{desired: d, now: now, all: sorted(now.Works)}
	for _, work := range b.all {
		if !work.Deleting {
			b.works = append(b.works, work)
		}
	}
	b.stages()
	b.recreations()
	b.findItems()
	b.holdOn()
	b.disputes()
	b.unstage()
	b.departures()
	b.requirements()
	b.findHomes()
	b.act()
	slices.SortFunc(b.plan.Leaving, func(x, y HandOver) int { return objref.Compare(x.Ref, y.Ref) })
	return b.plan
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
	targets *Desired // what desired is in the end, nil if it is that already
	now     *Current
	all     []*Work // by wave and number
	works   []*Work // those of all that are not on their way out

	held    []place             // for each object the first place that has it, with the desired content if there is one
	home    []int               // for each object the index of its work, -1: none
	moved   bool                // some object is in two works
	claims  map[int]bool        // the objects that another owner delivers
	awaited map[int]recreation  // the objects that wait until the cluster has no such object
	needed  map[objref.Ref]bool // the Namespaces and kinds of held objects that the works have
	leavers bool                // some item is not wanted
	// leaving are the items that stay until another owner has them, or are released; under are the
	// Namespaces and kinds that they need.
	leaving map[*Item]leaving
	under   map[objref.Ref]bool
	// required are the CustomResourceDefinitions and Namespaces that are not wanted and stay.
	required map[objref.Ref]*Requirement
	// dependents are the objects of the Binding by what they need; nil until that is asked.
	dependents map[objref.Ref][]objref.Ref
	fresh      []string
	plan       Plan
}

// hold reports whether the content of the object stays as it is.
func (b *builder) hold(i int) bool {
	object := &b.desired.objects[i]
	return !object.Known || object.Size() > b.desired.limits.Bytes || b.now.Hold.Holds(object.Ref)
}

// retains reports whether the content of the item stays as it is, also because the object is to be
// released first.
func (b *builder) retains(i int, item *Item) bool {
	return b.hold(i) || b.claims[i] && !released(item)
}

// options returns the desired options of the object; item is what a work has of it, nil if none
// has.
func (b *builder) options(i int, item *Item) Options {
	options := b.desired.objects[i].Options
	switch {
	case item != nil && item.Awaited() && b.retains(i, item):
		return item.Options
	case item != nil && item.Withdrawn && b.retains(i, item):
		return Options{Observe: true} // it has no content
	case !b.claims[i] && item != nil && !b.desired.objects[i].Known:
		return item.Options // the options are part of the object, which cannot be read
	case !b.claims[i]:
	case item != nil && item.Orphan && !released(item):
		return item.Options
	case item != nil && !released(item) && b.owning(item, releasing()) != releasing():
		return item.Options
	case item != nil && !released(item):
		return releasing()
	default:
		return Options{Observe: true}
	}
	if options.Orphan && (item == nil || !item.Orphan) && b.restores(b.desired.objects[i].Ref) {
		options.Orphan = false
	}
	if item != nil {
		return b.keeping(item, options)
	}
	return options
}

func (b *builder) item(p place) *Item { return &b.works[p.work].Items[p.item] }

// size is the size that the object will have where it is held or goes to.
func (b *builder) size(i int) int {
	if b.held[i] != nowhere && b.retains(i, b.item(b.held[i])) {
		return b.item(b.held[i]).Size
	}
	return b.desired.objects[i].Size()
}

// upToDate reports whether the item has the desired content of the object.
func (b *builder) upToDate(i int, item *Item) bool {
	return b.retains(i, item) || item.Hash == b.desired.objects[i].Hash
}

// findItems finds the items of the objects.
func (b *builder) findItems() {
	b.held = slices.Repeat([]place{nowhere}, len(b.desired.objects))
	for w, work := range b.works {
		for j := range work.Items {
			i, ok := b.desired.index[work.Items[j].Ref]
			if !ok {
				b.leavers = true
				continue
			}
			if b.goes(i, &work.Items[j]) {
				b.moved = true
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
		if object.Known && object.Size() > b.desired.limits.Bytes && !b.now.Hold.Holds(object.Ref) {
			b.plan.TooLarge = append(b.plan.TooLarge, object.Ref)
		}
	}
	slices.SortFunc(b.plan.TooLarge, objref.Compare)
}

// better reports whether an item rather than another one is the place of the object.
func (b *builder) better(i int, item, than *Item) bool {
	if item.Withdrawn != than.Withdrawn {
		return than.Withdrawn
	}
	return b.upToDate(i, item) && !b.upToDate(i, than)
}

// holdOn determines what is held, and what is held back.
func (b *builder) holdOn() {
	if !b.now.Hold.Any() {
		return
	}
	b.needed = map[objref.Ref]bool{}
	for _, item := range Items(b.works) {
		if b.now.Hold.Holds(item.Ref) {
			for _, need := range Prerequisites(item.Ref) {
				b.needed[need] = true
			}
		}
	}
	for i := range b.desired.objects {
		object := &b.desired.objects[i]
		if !b.now.Hold.Holds(object.Ref) {
			continue
		}
		if b.held[i] == nowhere {
			b.plan.HeldBack++
		} else if item := b.item(b.held[i]); object.Known && item.Hash != object.Hash || item.Options != object.Options {
			b.plan.HeldBack++
		}
	}
	for work, item := range Items(b.works) {
		if !b.desired.Wants(item.Ref) && b.isHeld(work, item) {
			b.plan.HeldBack++
		}
	}
}

// findHomes gives each object its home.
func (b *builder) findHomes() {
	if len(b.desired.objects) == 0 {
		return // what leaves needs no place
	}
	b.home = slices.Repeat([]int{-1}, len(b.desired.objects))
	var homeless []int
	for i := range b.desired.objects {
		switch {
		case b.held[i] != nowhere:
			b.home[i] = b.held[i].work
		case !b.hold(i) && !b.awaited[i].later:
			homeless = append(homeless, i)
		}
	}
	homeless = b.ready(homeless)
	if len(homeless) == 0 && !b.moved && b.fits() {
		return
	}
	b.pack(homeless)
}

// fits reports whether all objects can stay where they are. In the common case, no packing is
// necessary.
func (b *builder) fits() bool {
	for _, work := range b.works {
		count, bytes := 0, 0
		for j := range work.Items {
			i, ok := b.desired.index[work.Items[j].Ref]
			remaining := 0
			if !ok {
				remaining = b.remainingSize(work, &work.Items[j])
			}
			switch {
			case !ok && remaining == 0:
				continue
			case packing.WaveOf(work.Items[j].Ref.GroupResource()) != work.Wave:
				return false
			case ok:
				bytes += b.size(i)
			default:
				bytes += remaining
			}
			count++
		}
		if b.desired.limits.Exceeded(count, bytes) {
			return false
		}
	}
	return true
}

// ready returns those of the objects for which everything they need is in the cluster, and notes
// what the others wait for.
//
// While an answer of the destination is pending that objects wait for, all new ones of the second
// wave wait for it, so that they come with one write. If the answer is an error, or cannot come,
// only the objects wait that need it.
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

// present reports whether the object is in the cluster with the desired content, also by a work
// that it is leaving.
func (b *builder) present(i int) bool {
	is := func(item *Item) bool { return item.inCluster() && b.upToDate(i, item) }
	switch p := b.held[i]; {
	case p == nowhere:
		return false
	case is(b.item(p)) || !b.moved:
		return is(b.item(p))
	}
	for _, item := range Items(b.works) {
		if item.Ref == b.desired.objects[i].Ref && is(item) {
			return true
		}
	}
	return false
}

// pack lets package packing choose the homes of the objects that works have and of those that come.
func (b *builder) pack(come []int) {
	items := make([]packing.Item, 0, len(b.desired.objects))
	for i := range b.desired.objects {
		if b.held[i] != nowhere {
			_, waits := b.awaited[i]
			pinned := waits || b.retains(i, b.item(b.held[i]))
			ref := b.desired.objects[i].Ref
			items = append(items, packing.Item{Ref: ref, Size: b.size(i), Apart: apartOf(ref), Pinned: pinned})
		}
	}
	for _, i := range come {
		ref := b.desired.objects[i].Ref
		apart := apartOf(ref)
		if _, waits := b.awaited[i]; waits {
			apart = newWorks // where no report is about a former object of that name
		}
		items = append(items, packing.Item{Ref: ref, Size: b.size(i), Apart: apart})
	}
	works := make([]packing.Work, len(b.works))
	index := make(map[string]int, len(b.works))
	for w, work := range b.works {
		works[w] = packing.Work{Name: work.Name, Wave: work.Wave, Slots: make([]packing.Slot, 0, len(work.Items))}
		for j := range work.Items {
			item := &work.Items[j]
			if i, ok := b.desired.index[item.Ref]; ok && b.goes(i, item) {
				works[w].Count++
				works[w].Bytes += item.Size
			} else if ok {
				works[w].Slots = append(works[w].Slots, packing.Slot{Ref: item.Ref, Size: item.Size, Current: b.upToDate(i, item)})
			} else if size := b.remainingSize(work, item); size > 0 {
				works[w].Count++
				works[w].Bytes += size
			}
		}
		setApart(&works[w], work.Items)
		index[work.Name] = w
	}
	namer := b.namer()
	homes := packing.Pack(works, items, b.desired.limits, func(wave, n int) string {
		name := namer(wave, n)
		index[name] = newWork + len(b.fresh)
		b.fresh = append(b.fresh, name)
		return name
	})
	for i := range b.desired.objects {
		b.home[i] = -1
		if name, ok := homes[b.desired.objects[i].Ref]; ok {
			b.home[i] = index[name]
		}
	}
}

// namer returns a function that names the n-th new work of a wave. A work that is being deleted
// still has its name.
func (b *builder) namer() func(wave, n int) string {
	taken := make(map[string]bool, len(b.all))
	for _, work := range b.all {
		taken[work.Name] = true
	}
	return func(wave, _ int) string {
		for n := 0; ; n++ {
			name := fmt.Sprintf("%s-%d-%d", b.now.Prefix, wave, n)
			if !taken[name] {
				taken[name] = true
				return name
			}
		}
	}
}
