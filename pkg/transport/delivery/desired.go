package delivery

import (
	"maps"
	"slices"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// desiredAt returns what a Placement asks of one destination: what it asks of all, with the
// templates expanded, and with the options that other Bindings want there. It returns the
// properties that templates were expanded with, nil if there are no templates or the properties are
// not known, and what is wrong with objects at this destination only, sorted. It does not block.
func (d *deliverer) desiredAt(p *placement.Placement, mailbox string) (desired *plan.Desired, properties *customize.Properties, problems []string) {
	desired = p.Desired
	if len(p.Templates) > 0 {
		destination, _ := d.its.store.destination(mailbox)
		properties = destination.Properties
		desired, problems = d.controller.expansions.expandAll(p, properties)
	}
	merged := d.mergedOptions(p, mailbox)
	if len(merged) > 0 {
		desired = desired.With(func(o *plan.Object) {
			if others, ok := merged[o.Ref]; ok {
				o.Options = options.Merge(o.Options, others)
			}
		})
	}
	desired, refused := d.controller.expansions.ignoreAll(desired)
	return desired, properties, append(problems, refused...)
}

// mergedOptions returns the options that other Bindings of the same source want for the objects of
// a Placement at a destination, where they change its own.
func (d *deliverer) mergedOptions(p *placement.Placement, mailbox string) map[objref.Ref]plan.Options {
	merged := map[objref.Ref]plan.Options{}
	d.controller.config.Index.View(func(view placement.View) {
		for _, ref := range view.Shared(p) {
			for name := range view.At(mailbox).Listing(ref) {
				if _, source := view.Identify(name); name == p.Name || source != p.Source {
					continue
				}
				wanted, delivers := d.wantedBy(view, name, ref, mailbox)
				if others, found := merged[ref]; found && delivers {
					wanted = options.Merge(others, wanted)
				}
				if delivers {
					merged[ref] = wanted
				}
			}
		}
	})
	maps.DeleteFunc(merged, func(ref objref.Ref, others plan.Options) bool {
		own := p.Objects[ref].Options
		return options.Merge(own, others) == own
	})
	return merged
}

// wantedBy returns the options that a Binding wants for an object at a destination, and whether it
// delivers the object there. Where that is not known, because the Binding is not gathered yet or
// the object cannot be read, they are those in its works there.
func (d *deliverer) wantedBy(view placement.View, name string, ref objref.Ref, mailbox string) (wanted plan.Options, delivers bool) {
	if p := view.Get(name); p != nil {
		if p.Deleting || !p.Lists(mailbox) {
			return plan.Options{}, false
		}
		if object, ok := p.Objects[ref]; ok && object.Known {
			return object.Options, true
		}
	}
	uid, _ := view.Identify(name)
	for _, item := range plan.Items(d.its.store.of(uid, mailbox)) {
		if item.Ref == ref && !item.Observe {
			return item.Options, true
		}
	}
	return plan.Options{}, false
}

// share returns what is delivered where other WDSes, or packages, deliver some of the same: none of
// them says of which object that is. All see the same, so all come to deliver the same bytes.
func share(desired *plan.Desired, owners plan.Owners) *plan.Desired {
	delivers := func(o plan.Owner) bool { return !o.SameSource() && o.Delivers() }
	shared := func(all []plan.Owner) bool { return slices.ContainsFunc(all, delivers) }
	if !slices.ContainsFunc(slices.Collect(maps.Values(owners)), shared) {
		return desired
	}
	return desired.With(func(object *plan.Object) {
		same := func(o plan.Owner) bool { return delivers(o) && o.Content() == object.Bare }
		plain := func(o plan.Owner) bool { return same(o) && o.Item.Bare == transform.Hash{} }
		if !object.Known || object.Bare == (transform.Hash{}) || !slices.ContainsFunc(owners[object.Ref], same) {
			return
		}
		as := slices.ContainsFunc(owners[object.Ref], plain)
		if o, err := object.Shared(as); err == nil { // it was encoded by us
			object.Object = o
		}
		if object.Whole == nil {
			return
		}
		if o, err := object.Whole.Shared(as); err == nil {
			object.Whole = &o
		}
	})
}
