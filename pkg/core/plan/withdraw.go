package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/transform"
)

// An agent applies an object first and notes afterwards that it did. If the object leaves the work
// in between, the agent may never note it, and then never deletes it: the object would stay in the
// cluster forever, unnoticed. So an object that the destination has not reported leaves in two
// steps. It is withdrawn first: the work still names it, but has no content of it and applies
// nothing, so that a cluster that was offline does not get an object that is not wanted any more.
// Once the destination has reported anything of that, it has also noted whether the object exists,
// and the object leaves. OCM's agent has one exception: see docs/design/0004-transport.md.
//
// An agent that cannot read one object of a work notes nothing of the whole work (Item.Unread).
// What leaves then stays withdrawn until that object can be read, or has left (barred).
//
// A destination may still list an object that left when that comes back. Then, too, only what it
// reports afterwards counts.
//
// A work is deleted when everything in it was withdrawn, and that was reported. The cluster's
// account of the work owns its objects, and they are deleted with it. But the agent looks for that
// account in its cache, and releases a deleted work of which the cache has none. A first report
// proves only that the account exists: while the agent cannot watch, its cache lacks it for as long
// as that takes. The report on a later change proves that the cache has it. A work that the agent
// has not begun is deleted at once, as is one that no agent is expected to report on.

// mayLeave reports whether the item may leave the work at once: the destination keeps account of
// it, or never does, or has reported that it keeps the object anyway.
func (i *Item) mayLeave() bool {
	return i.Reported || i.State == Silent || i.Orphan && i.State == Applied
}

// deletable reports whether the cluster may have the object, and would delete it if the item left
// now. An agent that finds an object gone from its work does what the last options ask for that it
// has applied, and a cluster that is away has applied none of the newer ones: so an option is in
// force when the cluster has reported that. One that an item came with is: nothing was reported of
// it (keeping). Of a kind that the cluster does not serve it has no object.
func (i *Item) deletable() bool {
	switch {
	case i.Withdrawn || i.Observe || i.NotServed():
		return false
	case i.State == Silent:
		return !i.Orphan
	}
	return !i.Orphan || i.Seen && i.State != Applied
}

// owned reports whether the cluster may delete the object for the work, and the object was not
// withdrawn.
func (i *Item) owned() bool { return !i.Withdrawn && !i.Orphan && !i.Observe && i.State != Silent }

// inCluster reports whether the object is in the cluster, as far as the cluster reports.
func (i *Item) inCluster() bool { return (i.State == Applied || i.State == Silent) && !i.Withdrawn }

// remainingSize returns the size of an item that is not wanted any more and stays for now; zero if
// it is removed.
func (b *builder) remainingSize(work *Work, item *Item) int {
	switch {
	case b.isHeld(work, item) || b.stays(item):
		return item.Size
	case item.mayLeave() || item.barred() || released(item) && !item.Withdrawn:
		return 0
	}
	object, ok := withdrawn(item)
	if !ok {
		return 0
	}
	return object.Size()
}

// withdraw removes the content of the j-th item from the work. What is not an object cannot be in
// the cluster, and is removed.
func (c *changes) withdraw(j int) {
	item := &c.work.Items[j]
	object, ok := withdrawn(item)
	if !ok {
		c.remove(j)
		return
	}
	c.flagged = c.flagged || item.Options != object.Options
	c.after = append(c.after, Entry{Ref: item.Ref, Kind: item.Kind, Hash: object.Hash, Size: object.Size(), Options: object.Options, Withdrawn: true})
	if item.Hash != object.Hash {
		c.replaced = append(c.replaced, Change{Op: OpReplace, At: j, Ref: item.Ref, Object: object})
		c.withdrawn = true
		c.outdates(item)
	}
}

// withdrawAll withdraws the items of a work in which nothing is to stay.
func (c *changes) withdrawAll() {
	c.removed = nil
	for j := range c.work.Items {
		item := &c.work.Items[j]
		twice := slices.ContainsFunc(c.work.Items[:j], func(other Item) bool { return other.Ref == item.Ref })
		if item.owned() && !twice {
			c.withdraw(j)
		} else {
			c.remove(j)
		}
	}
}

// withdrawn returns what replaces an item that is withdrawn.
func withdrawn(item *Item) (*Object, bool) {
	if item.Kind == "" || item.Version == "" {
		return nil, false
	}
	object, err := transform.Withdrawn(item.Ref, schema.GroupVersionKind{Group: item.Ref.Group, Version: item.Version, Kind: item.Kind}, item.had())
	return &Object{Object: object, Known: true, Options: Options{Observe: true}}, err == nil
}
