package delivery

import (
	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// refs are some objects.
type refs map[objref.Ref]bool

// foreign are the works of other WDSes that have an object, by mailbox, object and name.
type foreign map[string]nested.Map[objref.Ref, string, *plan.Work]

func (f foreign) add(work *plan.Work) {
	works := f[work.Mailbox]
	for i := range work.Items {
		works.Set(work.Items[i].Ref, work.Name, work)
	}
	if len(works) > 0 {
		f[work.Mailbox] = works
	}
}

func (f foreign) remove(work *plan.Work) {
	works := f[work.Mailbox]
	for i := range work.Items {
		works.Delete(work.Items[i].Ref, work.Name)
	}
	if len(works) == 0 {
		delete(f, work.Mailbox)
	}
}

// addTo adds the owners of other WDSes of objects in a mailbox that the Binding wants or its works
// have. Most often there are none.
//
// A work that has the Binding's UID was ours until somebody changed its label. We do not write it
// any more, but it is not of another WDS either. Its name is taken, and the error of a write that
// needs the name says why.
func (f foreign) addTo(owners plan.Owners, p *placement.Placement, mailbox string, works []*plan.Work) {
	if f[mailbox] == nil {
		return
	}
	found := nested.Map[*plan.Work, objref.Ref, bool]{}
	find := func(ref objref.Ref) {
		for _, work := range f[mailbox][ref] {
			if work.BindingUID != p.UID {
				found.Set(work, ref, true)
			}
		}
	}
	for ref := range p.Objects {
		find(ref)
	}
	for _, item := range plan.Items(works) {
		find(item.Ref)
	}
	for work, refs := range found {
		peer := plan.Peer{WDS: work.Foreign, Binding: work.Binding, Works: []*plan.Work{work}}
		owners.Add(&peer, func(ref objref.Ref) bool { return refs[ref] })
	}
}
