package plan

import (
	"slices"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// act writes down the Actions: creations and changes wave by wave, then what goes.
func (b *builder) act() {
	guests := make([][]int, len(b.works)) // the objects that come into each work
	fresh := make([][]int, len(b.fresh))
	for i, home := range b.home {
		switch {
		case home < 0:
		case home >= newWork:
			fresh[home-newWork] = append(fresh[home-newWork], i)
		case !b.holds(home, i):
			guests[home] = append(guests[home], i)
		}
	}
	var deletions []Action
	for wave := packing.WaveFirst; wave <= packing.WaveSecond; wave++ {
		for w, work := range b.works {
			if work.Wave != wave {
				continue
			}
			action, nudges := b.change(w, guests[w])
			switch {
			case action == nil:
			case action.Verb == Delete:
				deletions = append(deletions, *action)
			default:
				b.plan.Actions = append(b.plan.Actions, *action)
			}
			deletions = append(deletions, nudges...)
		}
		for n, objects := range fresh {
			if len(objects) > 0 && packing.WaveOf(b.desired.objects[objects[0]].Ref.GroupResource()) == wave {
				b.plan.Actions = append(b.plan.Actions, b.create(b.fresh[n], wave, objects))
			}
		}
	}
	b.plan.Actions = append(b.plan.Actions, deletions...)
}

// holds tells whether the work holds the object.
func (b *builder) holds(w, i int) bool {
	if b.held[i].work == w {
		return true
	}
	if !b.moved {
		return false
	}
	ref := b.desired.objects[i].Ref
	return slices.ContainsFunc(b.works[w].Items, func(item Item) bool { return item.Ref == ref })
}

// arrived tells whether the object's home reports it Applied with the content that is wanted, so that it may leave elsewhere.
// Of an object whose content is not known nobody can say which of two places has the newer one: it leaves neither.
func (b *builder) arrived(i int) bool {
	home := b.home[i]
	if home < 0 || home >= newWork || b.hold(i) {
		return false
	}
	ref := b.desired.objects[i].Ref
	for j := range b.works[home].Items {
		if item := &b.works[home].Items[j]; item.Ref == ref {
			return item.there() && b.current(i, item)
		}
	}
	return false
}

// finish puts in order what was found on the way.
func (b *builder) finish() {
	slices.SortFunc(b.plan.Leaving, func(x, y HandOver) int { return objref.Compare(x.Ref, y.Ref) })
}

func (b *builder) create(name string, wave int, objects []int) Action {
	a := Action{Verb: Create, Reason: ReasonPlace, Mailbox: b.site.Mailbox, Name: name, Wave: wave}
	for _, i := range objects { // objects are in order
		a.After = append(a.After, b.entry(i))
	}
	return a
}

func (b *builder) entry(i int) Entry {
	object := &b.desired.objects[i]
	return Entry{
		Ref: object.Ref, Kind: object.Kind.Kind, Hash: object.Hash, Size: object.Size(),
		Options: b.options(i, nil), Object: object,
	}
}

// isHeld tells whether the item stays exactly as it is. What nobody wants stays too if a held object needs it, since that would go
// along with its Namespace; and in a work that lost its annotations, which cannot tell the resources of its kinds for sure.
func (b *builder) isHeld(work *Work, item *Item) bool {
	if !b.site.Hold.Any() {
		return false
	}
	if b.site.Hold.Holds(item.Ref) {
		return true
	}
	_, wanted := b.desired.index[item.Ref]
	return !wanted && (b.needed[item.Ref] || work.Recorded == (transform.Hash{}))
}

// awaits tells whether somebody of our own is about to deliver an object that is to leave.
func (b *builder) awaits(ref objref.Ref) bool {
	_, awaited := b.site.Awaited[ref]
	return awaited
}

func remove(work *Work, reason string) Action {
	return Action{
		Verb: Delete, Reason: reason, Mailbox: work.Mailbox, Name: work.Name, Wave: work.Wave,
		UID: work.UID, Generation: work.Generation, Recorded: work.Recorded,
	}
}

// change compares a work with what it should hold. It returns nil if nothing is to be done.
//
// Where an object leaves this work for another one with older content than it has there, this work's last application may
// have come after the other's: the other work is nudged, so that the newer content wins.
func (b *builder) change(w int, guests []int) (action *Action, nudges []Action) {
	work := b.works[w]
	repair := work.Recorded != work.Actual
	if !repair && len(guests) == 0 && len(work.Items) > 0 && b.asWanted(w) {
		return nil, nil
	}
	c := changes{builder: b, work: work, after: make([]Entry, 0, len(work.Items)+len(guests))}
	for j := range work.Items {
		c.existing(w, j)
	}
	for _, i := range guests {
		c.insert(i)
	}
	if c.kept == 0 {
		reason := ReasonRemove
		if c.moves {
			reason = ReasonMove
		}
		action := remove(work, reason)
		return &action, c.nudges
	}
	// What a hand wrote into the rest of the spec may be about what is held. It waits until that is free, or until the options
	// of something else change, which cannot be written alone.
	rest := repair && !c.holding || c.flagged
	if len(c.replaced)+len(c.removed)+len(c.inserted) == 0 && !rest {
		return nil, nil
	}
	for i := range c.after {
		c.after[i].Object = nil
	}
	return &Action{
		Verb: Patch, Reason: c.reason(repair), Mailbox: b.site.Mailbox, Name: work.Name, Wave: work.Wave,
		UID: work.UID, Generation: work.Generation, Recorded: work.Recorded,
		Changes: slices.Concat(c.replaced, c.removed, c.inserted),
		Rest:    rest, Unproven: c.withdrawn || c.returned,
		After: c.after,
	}, c.nudges
}

// asWanted tells whether each item of the work is there with the content and the flags that are wanted.
func (b *builder) asWanted(w int) bool {
	for j := range b.works[w].Items {
		item := &b.works[w].Items[j]
		if b.isHeld(b.works[w], item) {
			continue
		}
		i, ok := b.desired.index[item.Ref]
		if !ok || b.home[i] != w || !b.current(i, item) || b.held[i] != (place{w, j}) {
			return false
		}
		if item.Options != b.options(i, item) {
			return false
		}
	}
	return true
}

// changes collects what happens to one work. Replacements come first, at the positions that are; then removals, the last
// position first; then insertions, at the positions that will be.
type changes struct {
	*builder
	work     *Work
	after    []Entry
	replaced []Change
	removed  []Change
	inserted []Change
	flagged  bool // flags of objects changed
	holding  bool // some object is held
	moves    bool
	kept     int // entries of after that are there for more than being withdrawn

	withdrawn bool // some object was withdrawn
	returned  bool // some object came back that the destination may still list from before
	nudges    []Action
}

// existing decides on the j-th item of the work w.
func (c *changes) existing(w, j int) {
	item := &c.work.Items[j]
	if c.isHeld(c.work, item) {
		c.holding = true
		c.stay(item, item.Options)
		return
	}
	i, wanted := c.desired.index[item.Ref]
	before := (c.moved || !wanted) && slices.ContainsFunc(c.work.Items[:j], func(other Item) bool { return other.Ref == item.Ref })
	switch {
	case before: // a work that holds an object twice was edited by somebody else
		c.take(j)
		return
	case !wanted:
		c.leave(j)
		return
	case c.home[i] != w && item.Withdrawn:
		c.drop(j)
		return
	case c.home[i] != w && c.arrived(i):
		c.moves = true
		if c.heir(item.Ref) != nil && !released(item) {
			c.letGo(item) // or the destination might delete the object for this work after the other one has let it go
			return
		}
		c.drop(j)
		if !c.current(i, item) {
			home := c.works[c.home[i]]
			c.nudges = append(c.nudges, NudgeOf(home, ReasonMove))
		}
		return
	}
	if c.home[i] == w && !c.current(i, item) {
		entry := c.entry(i)
		c.replaced = append(c.replaced, Change{Op: OpReplace, At: j, Ref: item.Ref, Object: entry.Object})
		c.flagged = c.flagged || item.Options != entry.Options
		c.after = append(c.after, entry)
		c.kept++
		c.returned = c.returned || item.Withdrawn
		return
	}
	c.stay(item, c.options(i, item))
}

// stay keeps the item's content.
func (c *changes) stay(item *Item, options Options) {
	c.kept++
	c.flagged = c.flagged || item.Options != options
	c.after = append(c.after, Entry{Ref: item.Ref, Kind: item.Kind, Hash: item.Hash, Size: item.Size, Options: options})
}

// letGo makes the destination drop the ownership of an object, if that is not under way.
func (c *changes) letGo(item *Item) {
	if item.Orphan {
		c.stay(item, item.Options)
		return
	}
	c.stay(item, letGo())
}

// leave takes out an item that nobody wants any more. If somebody else is to have the object, it is let go first; if another Binding
// of ours is, that comes first.
func (c *changes) leave(j int) {
	item := &c.work.Items[j]
	heir := c.heir(item.Ref)
	switch {
	case item.Withdrawn:
		c.drop(j)
		return
	case released(item):
		c.take(j)
		return
	case heir == nil && c.awaits(item.Ref):
		c.stay(item, item.Options)
		c.plan.Leaving = append(c.plan.Leaving, HandOver{Ref: item.Ref, To: Stake{Binding: c.site.Awaited[item.Ref]}})
		return
	case heir == nil:
		c.drop(j)
		return
	}
	leaving := HandOver{Ref: item.Ref, To: *heir}
	if item.Orphan && item.State == Failed {
		leaving.Failed = item
	}
	c.letGo(item)
	c.plan.Leaving = append(c.plan.Leaving, leaving)
}

// drop takes out the j-th item. If the destination may have applied it without having noted that, it is withdrawn first.
func (c *changes) drop(j int) {
	if c.work.Items[j].settled() {
		c.take(j)
		return
	}
	c.withdraw(j)
}

// take takes out the j-th item at once.
func (c *changes) take(j int) {
	item := &c.work.Items[j]
	c.removed = slices.Insert(c.removed, 0, Change{Op: OpRemove, At: j, Ref: item.Ref})
	c.flagged = c.flagged || item.Options != (Options{})
	c.outdates(item)
}

// outdates notes the work of another Binding that an item which goes may have outdated in the cluster.
func (c *changes) outdates(item *Item) {
	copied, ok := c.site.Copies[item.Ref]
	if ok && !item.Observe && copied.Hash != item.Hash && !slices.Contains(c.plan.Outdated, copied.Work) {
		c.plan.Outdated = append(c.plan.Outdated, copied.Work)
	}
}

// insert puts the object before the first one that comes after it in order. What the work holds is in order, unless somebody
// else changed that; then it stays as it is.
func (c *changes) insert(i int) {
	entry := c.entry(i)
	at := slices.IndexFunc(c.after, func(e Entry) bool { return packing.Order(e.Ref, entry.Ref) > 0 })
	if at < 0 {
		at = len(c.after)
	}
	c.after = slices.Insert(c.after, at, entry)
	c.kept++
	c.returned = c.returned || slices.Contains(c.work.Listed, entry.Ref)
	c.inserted = append(c.inserted, Change{Op: OpInsert, At: at, Ref: entry.Ref, Object: entry.Object})
	c.flagged = c.flagged || entry.Options != (Options{})
}

func (c *changes) reason(repair bool) string {
	switch {
	case repair:
		return ReasonRepair
	case len(c.inserted) > 0:
		return ReasonPlace
	case c.moves:
		return ReasonMove
	case len(c.removed) > 0 || c.withdrawn:
		return ReasonRemove
	}
	return ReasonEdit
}

// NudgeOf returns the Action that nudges the work.
func NudgeOf(work *Work, reason string) Action {
	return Action{
		Verb: Nudge, Reason: reason, Mailbox: work.Mailbox, Name: work.Name, Wave: work.Wave,
		UID: work.UID, Generation: work.Generation, Recorded: work.Recorded, Nudges: work.Nudges + 1,
	}
}
