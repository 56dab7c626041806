package plan

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/transform"
)

// An agent applies an object first and notes afterwards that it did. If the object leaves the work in between, the agent may never note
// it, and then never deletes it: the object would stay in the cluster for ever, and nobody would know. So an object that the destination
// has not reported to be there leaves in two steps. It is withdrawn first: the work goes on to name it, but holds no content and has
// nothing applied, so that a cluster that was away does not get what nobody wants any more. Once the destination has said something of
// that, it has also noted whether the object is there, and it leaves.
//
// A destination may still list an object that left when that comes back. Then, too, only what it reports afterwards counts.
//
// A work that goes as a whole needs none of this: what the cluster knows of it owns its objects, and takes them along.

// settled tells whether the item may leave the work at once: the destination keeps account of it, or never does, or is to keep the
// object anyway.
func (i *Item) settled() bool { return i.Reported || i.State == Silent || i.Orphan }

// there tells whether the object can be taken to be in the cluster, as far as the cluster tells.
func (i *Item) there() bool { return (i.State == Applied || i.State == Silent) && !i.Withdrawn }

// lingers returns the size of an item that nobody wants any more and that stays nevertheless, for the time being; zero if it goes.
func (b *builder) lingers(work *Work, item *Item) int {
	switch {
	case b.isHeld(work, item) || !released(item) && (b.heir(item.Ref) != nil || b.awaits(item.Ref)):
		return item.Size
	case item.settled() || released(item) && !item.Withdrawn:
		return 0
	}
	object, ok := withdrawn(item)
	if !ok {
		return 0
	}
	return object.Size()
}

// withdraw takes the content of the j-th item out of the work. What is no object cannot be in the cluster, and goes.
func (c *changes) withdraw(j int) {
	item := &c.work.Items[j]
	object, ok := withdrawn(item)
	if !ok {
		c.take(j)
		return
	}
	c.flagged = c.flagged || item.Options != object.Options
	c.after = append(c.after, Entry{Ref: item.Ref, Kind: item.Kind, Hash: object.Hash, Size: object.Size(), Options: object.Options})
	if item.Hash != object.Hash {
		c.replaced = append(c.replaced, Change{Op: OpReplace, At: j, Ref: item.Ref, Object: object})
		c.withdrawn = true
		c.outdates(item)
	}
}

// withdrawn returns what stands for an item that is withdrawn.
func withdrawn(item *Item) (*Object, bool) {
	if item.Kind == "" || item.Version == "" {
		return nil, false
	}
	object, err := transform.Withdrawn(item.Ref, schema.GroupVersionKind{Group: item.Ref.Group, Version: item.Version, Kind: item.Kind})
	return &Object{Object: object, Known: true, Options: Options{Observe: true}}, err == nil
}
