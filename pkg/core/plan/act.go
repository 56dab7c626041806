package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// act makes the Actions: creations and changes wave by wave, then deletions and nudges.
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

// holds reports whether the work has the object.
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

// arrived reports whether the object's home reports it Applied with the desired content, so that it
// may leave elsewhere. Of an object whose content is not known, it is not known either which of two
// places has the newer one: it leaves neither.
func (b *builder) arrived(i int) bool {
	if b.hold(i) {
		return false
	}
	item := b.homeOf(i)
	return item != nil && item.inCluster() && b.upToDate(i, item)
}

// homeOf returns the item of the object in its home, nil if it is not there yet.
func (b *builder) homeOf(i int) *Item {
	home := b.home[i]
	if home < 0 || home >= newWork {
		return nil
	}
	for j := range b.works[home].Items {
		if item := &b.works[home].Items[j]; item.Ref == b.desired.objects[i].Ref {
			return item
		}
	}
	return nil
}

func (b *builder) create(name string, wave int, objects []int) Action {
	a := Action{Verb: Create, Reason: ReasonPlace, Mailbox: b.now.Mailbox, Name: name, Wave: wave}
	for _, i := range objects { // objects are in order
		a.After = append(a.After, b.entry(i))
	}
	return a
}

func (b *builder) entry(i int) Entry {
	object := &b.desired.objects[i]
	_, waits := b.awaited[i] // its manifest names the object, and claims nothing
	return Entry{
		Ref: object.Ref, Kind: object.Kind.Kind, Hash: object.Hash, Size: object.Size(),
		Options: b.options(i, nil), Object: object, Withdrawn: waits,
	}
}

// isHeld reports whether the item stays as it is, but for heldOptions. An item that is not wanted
// stays too if a held object needs it: the cluster would delete the object with its Namespace. So
// it does in a work that lost its annotations, since the resources of its kinds are then not known
// for sure.
func (b *builder) isHeld(work *Work, item *Item) bool {
	if !b.now.Hold.Any() {
		return false
	}
	if b.now.Hold.Holds(item.Ref) {
		return true
	}
	_, wanted := b.desired.index[item.Ref]
	return !wanted && (b.needed[item.Ref] || work.Recorded == (transform.Hash{}))
}

func deletionOf(work *Work, reason string) Action {
	return Action{
		Verb: Delete, Reason: reason, Mailbox: work.Mailbox, Name: work.Name, Wave: work.Wave,
		UID: work.UID, Generation: work.Generation, Recorded: work.Recorded,
	}
}

// change compares a work with its desired items. It returns nil if there is nothing to do.
//
// Where an object leaves this work for another one with older content than it has there, this
// work's last application may have come after the other's: the other work is nudged, so that the
// newer content wins.
func (b *builder) change(w int, guests []int) (action *Action, nudges []Action) {
	work := b.works[w]
	repair := work.Recorded != work.Actual
	if !repair && !work.Unmarked && len(guests) == 0 && len(work.Items) > 0 && b.asDesired(w) {
		return nil, nil
	}
	c := changes{builder: b, work: work, after: make([]Entry, 0, len(work.Items)+len(guests))}
	for j := range work.Items {
		c.existing(w, j)
	}
	for _, i := range guests {
		c.insert(i)
	}
	if len(c.after) == 0 && work.Begun && (!b.now.Unattended || b.now.Passed) {
		c.withdrawAll()
		if len(c.after) == 0 && len(work.Listed) > 0 && !b.now.Unattended {
			return nil, nil // the cluster has not reported yet that it has done with what left before
		}
	}
	// Perhaps nobody removes a work that is being deleted: nothing of what passed may stay in it.
	unattended := b.now.Unattended && !(b.now.Passed && c.withdrawn)
	if len(c.after) == 0 || c.kept == 0 && (!work.Begun || unattended) {
		reason := ReasonRemove
		if c.moves {
			reason = ReasonMove
		}
		action := deletionOf(work, reason)
		if len(c.after) > 0 && !b.now.Unattended {
			action.ResourceVersion = work.ResourceVersion
		}
		return &action, c.nudges
	}
	// What another writer wrote into the rest of the spec may concern what is held. It is corrected
	// when that is not held any more, or when the options of another object change, which cannot be
	// written alone.
	rest := repair && !c.holding || c.flagged || c.otherResources()
	claims := work.Unmarked || c.otherClaims()
	if len(c.replaced)+len(c.removed)+len(c.inserted) == 0 && !rest && !claims {
		return nil, nil
	}
	for i := range c.after {
		c.after[i].Object = nil
	}
	version := ""
	if !work.Begun && (c.withdrawn || len(c.removed) > 0) {
		version = work.ResourceVersion
	}
	return &Action{
		Verb: Patch, Reason: c.reason(repair), Mailbox: b.now.Mailbox, Name: work.Name, Wave: work.Wave,
		UID: work.UID, Generation: work.Generation, Recorded: work.Recorded, ResourceVersion: version,
		Changes: slices.Concat(c.replaced, c.removed, c.inserted),
		Rest:    rest, Claims: claims, Unproven: c.withdrawn || c.returned,
		After: c.after, Left: c.left(),
	}, c.nudges
}

// asDesired reports whether each item of the work has the desired content and flags, and no other
// work is its home.
func (b *builder) asDesired(w int) bool {
	for j := range b.works[w].Items {
		item := &b.works[w].Items[j]
		if b.isHeld(b.works[w], item) {
			if item.Options != b.heldOptions(item) {
				return false
			}
			continue
		}
		i, ok := b.desired.index[item.Ref]
		if !ok || b.home[i] != w || !b.upToDate(i, item) || b.held[i] != (place{w, j}) {
			return false
		}
		if item.Options != b.options(i, item) {
			return false
		}
	}
	return true
}

// changes collects the changes of one work. Replacements come first, at the present positions; then
// removals, the last position first; then insertions, at the resulting positions.
type changes struct {
	*builder
	work     *Work
	after    []Entry
	replaced []Change
	removed  []Change
	inserted []Change
	flagged  bool // options of objects changed
	holding  bool // some object is held
	moves    bool
	kept     int // entries of after that are not withdrawn

	withdrawn bool // some object was withdrawn
	returned  bool // some object came back that the destination may still list, or have released, from before
	nudges    []Action
}

// existing decides on the j-th item of the work w.
func (c *changes) existing(w, j int) {
	item := &c.work.Items[j]
	if c.isHeld(c.work, item) {
		c.holding = true
		c.stay(item, c.heldOptions(item))
		return
	}
	i, wanted := c.desired.index[item.Ref]
	before := (c.moved || !wanted) && slices.ContainsFunc(c.work.Items[:j], func(other Item) bool { return other.Ref == item.Ref })
	switch {
	case before: // another writer edited a work that has an object twice
		c.remove(j)
		return
	case !wanted:
		c.leave(j)
		return
	case c.goes(i, item) && (c.awaited[i].later || (item.Orphan || c.awaited[i].orphan) && item.deletable()):
		c.orphan(item)
		return
	case c.goes(i, item) && !c.awaited[i].placed:
		c.stay(item, item.Options)
		return
	case c.goes(i, item):
		c.removeOrWithdraw(j)
		return
	case c.home[i] != w && item.Withdrawn:
		c.removeOrWithdraw(j)
		return
	case c.home[i] != w && c.arrived(i):
		c.moves = true
		if (contested(c.now.Owners[item.Ref]) || c.homeOf(i).Orphan) && !released(item) {
			c.release(item) // the cluster might delete the object for this work, since the other one does not own it (any more)
			return
		}
		c.removeOrWithdraw(j)
		if !c.upToDate(i, item) {
			home := c.works[c.home[i]]
			c.nudges = append(c.nudges, NudgeOf(home, ReasonMove))
		}
		return
	}
	if c.home[i] == w && !c.upToDate(i, item) {
		entry := c.entry(i)
		entry.Options = c.keeping(item, entry.Options)
		c.replaced = append(c.replaced, Change{Op: OpReplace, At: j, Ref: item.Ref, Object: entry.Object})
		c.flagged = c.flagged || item.Options != entry.Options
		c.after = append(c.after, entry)
		c.kept++
		c.returned = c.returned || item.Withdrawn || item.Orphan && !entry.Orphan
		return
	}
	c.stay(item, c.options(i, item))
}

// heldOptions returns the options of an item that is held. They stay, but for the wish that the
// cluster keeps the object: that changes and removes nothing, and without it the cluster might
// delete the object when the hold ends.
func (b *builder) heldOptions(item *Item) Options {
	i, wanted := b.desired.index[item.Ref]
	if !wanted || !b.desired.objects[i].Known || !b.desired.objects[i].Options.Orphan || !item.deletable() || item.Awaited() {
		return item.Options
	}
	options := item.Options
	options.Orphan = true
	return b.keeping(item, options)
}

// stay retains the content of the item.
func (c *changes) stay(item *Item, options Options) {
	c.kept++
	c.flagged = c.flagged || item.Options != options
	c.returned = c.returned || item.Orphan && !options.Orphan
	c.after = append(c.after, Entry{Ref: item.Ref, Kind: item.Kind, Hash: item.Hash, Size: item.Size, Options: options, Withdrawn: item.Withdrawn})
}

// release makes the destination drop the ownership of an object, if that is not under way. Where
// nothing was reported of the item, that waits (deletable).
func (c *changes) release(item *Item) {
	if item.Orphan || !item.Seen && item.State != Silent {
		c.stay(item, item.Options)
		return
	}
	c.stay(item, releasing())
}

// orphan makes the destination keep an object whose item is about to leave. The item leaves when
// that is reported.
func (c *changes) orphan(item *Item) {
	options := item.Options
	options.Orphan = true
	options = c.keeping(item, options)
	handOver := HandOver{Ref: item.Ref}
	if item.State == Failed && item.Options == options {
		handOver.Failed = item
	}
	c.plan.Leaving = append(c.plan.Leaving, handOver)
	c.stay(item, options)
}

// leave removes an item that is not wanted any more, as soon as no other owner needs it to stay.
func (c *changes) leave(j int) {
	item := &c.work.Items[j]
	leaving := c.leaving[item]
	switch {
	case leaving.how == removal && c.requires(item):
		c.stay(item, item.Options)
		return
	case item.barred():
		c.remove(j)
		return
	case item.Withdrawn:
		c.removeOrWithdraw(j)
		return
	case leaving.how == removal && released(item):
		c.remove(j)
		return
	case leaving.how == removal && c.under[item.Ref]:
		c.stay(item, item.Options)
		return
	case leaving.how == removal:
		c.removeOrWithdraw(j)
		return
	}
	if leaving.how == orphaning {
		c.orphan(item)
		return
	}
	handOver := HandOver{Ref: item.Ref, To: *leaving.to, Waits: leaving.how == wait}
	if leaving.how == wait {
		c.stay(item, item.Options)
	} else {
		if item.Orphan && item.State == Failed {
			handOver.Failed = item
		}
		c.release(item)
	}
	c.plan.Leaving = append(c.plan.Leaving, handOver)
}

// removeOrWithdraw removes the j-th item. If the destination may have applied it without having
// noted that, it is withdrawn first.
func (c *changes) removeOrWithdraw(j int) {
	if c.work.Items[j].mayLeave() {
		c.remove(j)
		return
	}
	if behind := c.work.Unread(); behind != nil && behind.Ref != c.work.Items[j].Ref {
		c.plan.Leaving = append(c.plan.Leaving, HandOver{Ref: c.work.Items[j].Ref, Behind: behind})
	}
	c.withdraw(j)
}

// remove removes the j-th item at once.
func (c *changes) remove(j int) {
	item := &c.work.Items[j]
	c.removed = slices.Insert(c.removed, 0, Change{Op: OpRemove, At: j, Ref: item.Ref})
	c.flagged = c.flagged || item.Options != (Options{})
	c.outdates(item)
}

// left returns the Work.Left of the work without what it loses.
func (c *changes) left() Left {
	if len(c.removed) == 0 {
		return nil
	}
	left := maps.Clone(c.work.Left)
	if left == nil {
		left = Left{}
	}
	for i := range c.work.Items {
		switch item := &c.work.Items[i]; {
		case released(item) && !item.Withdrawn: // it stays in the cluster
			delete(left, LeftKey(item.Ref))
		default:
			left[LeftKey(item.Ref)] = item.had()
		}
	}
	for i := range c.after {
		delete(left, LeftKey(c.after[i].Ref))
	}
	return left
}

// outdates notes the works of other Bindings that an item which goes may have outdated in the
// cluster.
func (c *changes) outdates(item *Item) {
	if item.Observe {
		return
	}
	for _, o := range c.now.Owners[item.Ref] {
		if o.SameSource() && !o.Leaving && o.Delivers() && o.Item.Hash != item.Hash && !slices.Contains(c.plan.Outdated, o.Work) {
			c.plan.Outdated = append(c.plan.Outdated, o.Work)
		}
	}
}

// insert puts the object before the first one that comes after it in order. What the work has is in
// order, unless another writer changed that; then that stays as it is.
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

// otherResources reports whether the resources of objects without options change: a work may name
// each of them once, rather than each object.
func (c *changes) otherResources() bool {
	if len(c.inserted)+len(c.removed) == 0 {
		return false
	}
	before, after := map[schema.GroupResource]bool{}, map[schema.GroupResource]bool{}
	for i := range c.work.Items {
		if c.work.Items[i].Options == (Options{}) {
			before[c.work.Items[i].Ref.GroupResource()] = true
		}
	}
	for i := range c.after {
		if c.after[i].Options == (Options{}) {
			after[c.after[i].Ref.GroupResource()] = true
		}
	}
	return !maps.Equal(before, after)
}

// otherClaims reports whether other objects of the work are claims than before.
func (c *changes) otherClaims() bool {
	before, after := map[objref.Ref]bool{}, map[objref.Ref]bool{}
	for i := range c.work.Items {
		if c.work.Items[i].Claim() {
			before[c.work.Items[i].Ref] = true
		}
	}
	for i := range c.after {
		if c.after[i].Claim() {
			after[c.after[i].Ref] = true
		}
	}
	return !maps.Equal(before, after)
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
