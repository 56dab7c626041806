package delivery

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// Outcome is the result of the last delivery of a Binding to one destination. It is immutable once
// recorded.
type Outcome struct {
	// Errors are what kept objects from being delivered. Sorted.
	Errors []string
	// Waiting are objects that wait for others at the same destination.
	Waiting []plan.Wait
	// TooLarge are objects that fit into no work; the same for all destinations.
	TooLarge []objref.Ref
	// Claims are conflicts over objects that somebody else delivers, Disputes conflicts over
	// objects that we deliver.
	Claims, Disputes []string
	// HeldBack counts objects that are held and differ from what is desired.
	HeldBack int
	// Leaving are objects that are being handed over.
	Leaving []string

	// desired is what was delivered.
	desired *plan.Desired
	// properties are those of the destination that templates were expanded with.
	properties *customize.Properties
	// removedFor is the Placement, of a Binding that is being deleted, for which the works were
	// removed as far as possible.
	removedFor *placement.Placement
}

// lingers reports whether there is something to say about a destination that is not listed any
// more.
func (o *Outcome) lingers() bool { return len(o.Errors)+len(o.Leaving)+o.HeldBack > 0 }

// outcomes holds the Outcomes by Binding and mailbox. It is safe for concurrent use.
type outcomes struct {
	index *placement.Index

	mu sync.Mutex
	by nested.Map[string, string, *Outcome]
	// left says what is left in ITSes from which the names of clusters have passed, by Binding.
	left nested.Map[string, leftIn, string]
}

// leftIn is a mailbox in an ITS.
type leftIn struct{ its, mailbox string }

// record stores the Outcome of a delivery. Of a destination that is not listed any more it stores
// only an Outcome that lingers. It returns the Placement of the Binding, nil if the Binding is
// gone.
func (o *outcomes) record(key Key, outcome *Outcome) *placement.Placement {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The Placement is read under the lock: prune, which comes after a newer Placement is
	// published, sees what is stored here.
	p := o.index.Get(key.Binding)
	switch {
	case p == nil:
		return nil
	case !p.Lists(key.Mailbox) && !p.Deleting && !outcome.lingers():
		o.by.Delete(key.Binding, key.Mailbox)
	default:
		o.by.Set(key.Binding, key.Mailbox, outcome)
	}
	return p
}

// prune drops the Outcomes that a new Placement, nil if the Binding is gone, makes meaningless. The
// same one does not: nothing is delivered again that would record them.
func (o *outcomes) prune(name string, before, after *placement.Placement) {
	if before == after {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if after == nil {
		delete(o.by, name)
		delete(o.left, name)
		return
	}
	another := before == nil || before.UID != after.UID
	maps.DeleteFunc(o.left[name], func(in leftIn, _ string) bool { return !after.Lists(in.mailbox) || after.Deleting || another })
	maps.DeleteFunc(o.by[name], func(mailbox string, outcome *Outcome) bool {
		return !after.Lists(mailbox) && (after.Deleting || another || !outcome.lingers())
	})
}

// leave records what is left of a Binding in the mailbox of an ITS from which the name of the
// cluster has passed; "" is nothing. It reports whether that is something else than before.
func (o *outcomes) leave(key Key, its, text string) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	in := leftIn{its: its, mailbox: key.Mailbox}
	if o.left[key.Binding][in] == text {
		return false
	}
	if p := o.index.Get(key.Binding); text == "" || p == nil || p.Deleting || !p.Lists(key.Mailbox) {
		o.left.Delete(key.Binding, in)
	} else {
		o.left.Set(key.Binding, in, text)
	}
	return true
}

// of returns the Outcomes of a Binding by mailbox.
func (o *outcomes) of(name string) map[string]*Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := maps.Clone(o.by[name])
	for in, text := range o.left[name] {
		with := Outcome{}
		if outcome := all[in.mailbox]; outcome != nil {
			with = *outcome
		}
		with.Leaving = append(slices.Clone(with.Leaving), text)
		slices.Sort(with.Leaving)
		if all == nil {
			all = map[string]*Outcome{}
		}
		all[in.mailbox] = &with
	}
	return all
}

// at returns the Outcome of a Binding at one mailbox.
func (o *outcomes) at(key Key) *Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return cmp.Or(o.by[key.Binding][key.Mailbox], &Outcome{})
}
