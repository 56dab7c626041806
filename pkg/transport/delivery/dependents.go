package delivery

import (
	"fmt"
	"slices"
	"sync"

	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// dependents returns what others have, or are to have, in a mailbox of the kinds and in the
// Namespaces that leave the works of a Binding. Mostly none leave, and nothing is read.
//
// Also objects count that are about to leave: what they need follows them. If the name of the
// cluster has passed to another ITS, nothing more comes to the mailbox.
func (d *deliverer) dependents(p *placement.Placement, mailbox string, works []*plan.Work, passed bool) plan.Dependents {
	leaving := refs{}
	listed := p.Lists(mailbox) && !p.Deleting && !passed
	for _, item := range plan.Items(works) {
		if !plan.IsPrerequisite(item.Ref) {
			continue // most are of other kinds
		}
		if _, wanted := p.Objects[item.Ref]; !wanted || !listed {
			leaving[item.Ref] = true
		}
	}
	if len(leaving) == 0 || p.Deleting && p.Annotations.Release.Of(mailbox) {
		return nil
	}
	found := plan.Dependents{}
	add := func(ref objref.Ref, owner plan.Owner) {
		for _, need := range plan.Prerequisites(ref) {
			if leaving[need] {
				found[need] = append(found[need], plan.Dependent{Ref: ref, Owner: owner})
			}
		}
	}
	for _, work := range d.its.store.othersAt(mailbox, p.UID) {
		for i := range work.Items {
			if item := &work.Items[i]; !item.Withdrawn {
				add(item.Ref, plan.OwnerOf(work, item))
			}
		}
	}
	index := d.controller.config.Index
	for _, binding := range index.BindingsAt(mailbox) {
		if binding.DeletionTimestamp != nil || passed {
			continue
		}
		owner := plan.Owner{Binding: binding.Name}
		gathered := index.Get(binding.Name)
		current := gathered != nil && gathered.UID == binding.UID && gathered.Generation == binding.Generation && !gathered.Provisional
		if binding.Name == p.Name && binding.UID == p.UID && (current || gathered == p && p.Generation == binding.Generation) {
			continue // what the Binding itself wants is planned
		}
		if current {
			for ref := range gathered.Objects {
				add(ref, owner)
			}
			continue
		}
		for ref := range corebinding.Refs(&binding.Spec) {
			add(ref, owner)
		}
		if len(binding.Spec.Workload.Packages) > 0 { // what they hold is not known before they are gathered
			for need := range leaving {
				found[need] = append(found[need], plan.Dependent{Owner: owner, Unknown: true})
			}
		}
	}
	for need, all := range found {
		found[need] = once(all)
	}
	return found
}

// once returns dependents in order, each object of an owner once.
func once(all []plan.Dependent) []plan.Dependent {
	slices.SortStableFunc(all, func(a, b plan.Dependent) int {
		if order := objref.Compare(a.Ref, b.Ref); order != 0 {
			return order
		}
		switch x, y := a.Owner.Text(), b.Owner.Text(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return slices.CompactFunc(all, func(a, b plan.Dependent) bool {
		return a.Ref == b.Ref && a.Unknown == b.Unknown && a.Owner.Text() == b.Owner.Text()
	})
}

// namedDependents is how many objects a text names.
const namedDependents = 3

// requiredTexts returns why CustomResourceDefinitions and Namespaces stay that a Binding does not
// want any more.
func requiredTexts(required []plan.Requirement) []string {
	var texts []string
	for i := range required {
		r := &required[i]
		var names []string
		for _, ref := range r.Own {
			names = append(names, ref.String()+" of this Binding")
		}
		for n := range r.Others {
			other := &r.Others[n]
			if other.Unknown {
				names = append(names, "what "+other.Owner.Text()+" has, which is not known yet")
				continue
			}
			names = append(names, other.Ref.String()+" of "+other.Owner.Text())
		}
		which := "of its kind"
		if r.Ref.Group == "" {
			which = "in it"
		}
		texts = append(texts, placement.Clip(fmt.Sprintf("%s: stays, because %s %s would be deleted with it: %s; remove %s first, or select this object again",
			r.Ref, text.Count(len(names), "object"), which, text.List(names, namedDependents), text.Plural(len(names), "it", "them"))))
	}
	return Bound(texts)
}

// required has the Bindings that keep a CustomResourceDefinition or a Namespace in a mailbox
// because others need it there, by mailbox. It is safe for concurrent use.
type required struct {
	mu       sync.Mutex
	bindings map[string]map[string]bool
}

// note records whether a Binding keeps something in a mailbox.
func (r *required) note(key Key, keeps bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !keeps:
		delete(r.bindings[key.Mailbox], key.Binding)
		if len(r.bindings[key.Mailbox]) == 0 {
			delete(r.bindings, key.Mailbox)
		}
	case r.bindings == nil:
		r.bindings = map[string]map[string]bool{key.Mailbox: {key.Binding: true}}
	case r.bindings[key.Mailbox] == nil:
		r.bindings[key.Mailbox] = map[string]bool{key.Binding: true}
	default:
		r.bindings[key.Mailbox][key.Binding] = true
	}
}

// at returns the Bindings that keep something in a mailbox, in no order.
func (r *required) at(mailbox string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.bindings[mailbox]))
	for name := range r.bindings[mailbox] {
		names = append(names, name)
	}
	return names
}

// enqueueRequired enqueues the Bindings that keep something in a mailbox because of others: these
// changed.
func (d *deliverer) enqueueRequired(mailbox string) {
	for _, name := range d.required.at(mailbox) {
		d.its.queue.Add(Key{Binding: name, Mailbox: mailbox})
	}
}
