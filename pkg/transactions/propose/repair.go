package propose

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions/install"
)

// repair adds the packages whose version stays and whose objects are not as they were installed:
// the Lock says what has to be in force, and only the objects say what is. A package that cannot be
// read is left out, unless the Transaction is about it.
func (p *Proposer) repair(ctx context.Context, tx *pkgv1alpha1.Transaction, w *world, proposal *Proposal) error {
	var stay []pkgv1beta1.LockPackage
	var refs []pkgv1.TypedReference
	for _, locked := range proposal.Packages {
		r, o := w.revisions[locked.Name], w.of(locked.Source)
		installs := slices.ContainsFunc(proposal.Install, func(i install.Package) bool { return i.Locked.Source == locked.Source })
		if installs || r == nil || o == nil || o.paused || r.Spec.DesiredState != pkgv1.RevisionActive || transaction.Awaits(r) {
			continue
		}
		stay, refs = append(stay, locked), append(refs, r.Status.ObjectRefs...)
	}
	find, unread := p.Live.Read(ctx, refs)
	names := w.names(&w.subject)
	for n := range stay {
		locked := &stay[n]
		deviations, unknown := transaction.Deviations(w.revisions[locked.Name], find)
		if len(deviations) == 0 && len(unknown) == 0 {
			continue
		}
		o := w.of(locked.Source)
		own := locked.Source == w.subject.reference.Source
		unreadable := slices.ContainsFunc(unknown, func(ref pkgv1.TypedReference) bool { _, known := find(ref); return !known })
		if unreadable && !own { // the installation of its own objects says what is wrong
			proposal.Warnings = append(proposal.Warnings, fmt.Sprintf("%s cannot be compared with what was installed: %v", o.Ref, unread))
			continue
		}
		content, err := p.content(ctx, tx, w, &w.subject, locked, names, w.options(locked.Source))
		if err != nil && own {
			return err
		}
		about := fmt.Sprintf("%s is not as it was installed: %s", o.Ref, transaction.Describe(deviations))
		if err != nil {
			proposal.Warnings = append(proposal.Warnings, fmt.Sprintf("%s. It cannot be installed again: %v", about, err))
			continue
		}
		if len(deviations) > 0 {
			content.Differs = about
		}
		content.Repair = !own
		proposal.Install = append(proposal.Install, *content)
	}
	order := map[string]int{}
	for n := range proposal.Packages {
		order[proposal.Packages[n].Source] = n
	}
	slices.SortStableFunc(proposal.Install, func(a, b install.Package) int {
		return cmp.Compare(order[a.Locked.Source], order[b.Locked.Source])
	})
	return nil
}

// Repairs returns the packages that are installed again although the Transaction is not about them.
func (p *Proposal) Repairs() []install.Package {
	return slices.DeleteFunc(slices.Clone(p.Install), func(i install.Package) bool { return !i.Repair })
}

// WithRepairs returns the proposal with these repairs only, by their sources, as it was before any
// validation.
func (p *Proposal) WithRepairs(sources map[string]bool) *Proposal {
	with := *p
	with.Unchanged, with.Notes, with.Warnings = nil, slices.Clone(p.Notes), slices.Clone(p.Warnings)
	with.Install = slices.DeleteFunc(slices.Clone(p.Install), func(i install.Package) bool { return i.Repair && !sources[i.Locked.Source] })
	return &with
}
