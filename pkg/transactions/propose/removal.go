package propose

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/install"
)

// remove proposes that a package is removed. One that is not installed needs no change. The
// Transaction of a package that is being deleted removes nothing of another package, which may have
// adopted the source meanwhile.
func (p *Proposer) remove(tx *pkgv1alpha1.Transaction, w *world, source string) (*Proposal, error) {
	proposal := &Proposal{Packages: w.installed}
	sources := w.removedWith(source)
	w.removing, _ = transactions.PackageOf(tx)
	if listed := transaction.Find(w.installed, source); listed != nil && !w.mayRemove(w.packageOf(listed)) {
		sources = nil
	}
	for _, removed := range sources {
		if conflict := resolve.CheckRemoval(resolve.FromLock(w.installed), removed); conflict != nil {
			return nil, conflict
		}
	}
	w.take(proposal, tx, sources)
	if len(sources) == 0 {
		w.takePart(proposal, tx, source)
		if len(proposal.Remove) == 0 {
			proposal.Notes = []string{text.Clip(source, maxName) + " is not installed"}
		}
	}
	return proposal, nil
}

// mayRemove reports whether a package may be removed. One that is not known belongs to nobody.
func (w *world) mayRemove(p transactions.Ref) bool {
	return w.removing.Name == "" || p.Name == "" || p == w.removing
}

// maxName bounds how much of a source a message shows: a user may write anything there.
const maxName = 255

// removedWith returns the sources that the Lock lists for the package of a source, nil if the Lock
// does not list the source. All revisions of a package are removed with it.
func (w *world) removedWith(source string) []string {
	listed := transaction.Find(w.installed, source)
	if listed == nil {
		return nil
	}
	sources := []string{source}
	for n := range w.installed {
		l := &w.installed[n]
		if ref := w.packageOf(l); l.Source != source && ref.Name != "" && ref == w.packageOf(listed) {
			sources = append(sources, l.Source)
		}
	}
	return sources
}

// takePart removes the packages of all revisions of a source: what an installation, or an earlier
// try of this removal, that did not end has left. A package that is installed from another source
// stays: it had this source before.
func (w *world) takePart(proposal *Proposal, tx *pkgv1alpha1.Transaction, source string) {
	for _, name := range slices.Sorted(maps.Keys(w.revisions)) {
		image, err := corexpkg.ParseReference(w.revisions[name].Spec.Package)
		if err != nil || image.Source != source {
			continue
		}
		revision := &pkgv1beta1.LockPackage{Name: name}
		ref := w.packageOf(revision)
		if w.mayRemove(ref) && !slices.ContainsFunc(w.installed, func(l pkgv1beta1.LockPackage) bool { return l.Source != source && w.packageOf(&l) == ref }) {
			w.takeRevision(proposal, tx, revision)
		}
	}
}

// takeRevision removes a package by its revision.
func (w *world) takeRevision(proposal *Proposal, tx *pkgv1alpha1.Transaction, locked *pkgv1beta1.LockPackage) {
	ref := w.packageOf(locked)
	if ref.Name == "" || slices.ContainsFunc(proposal.Remove, func(r install.Removal) bool { return r.Kind.Name == ref.Kind && r.Name == ref.Name }) {
		return
	}
	proposal.Remove = append(proposal.Remove, install.Removal{
		Kind: w.kinds[locked.Name], Name: ref.Name, Revision: locked.Name,
		AllowDeletion: tx.Annotations[pkgv1.AnnotationAllowDeletion] == "true" || w.allowsDeletion[ref],
	})
}

// take removes these sources from the proposal.
func (w *world) take(proposal *Proposal, tx *pkgv1alpha1.Transaction, sources []string) {
	proposal.Packages = slices.DeleteFunc(slices.Clone(proposal.Packages), func(l pkgv1beta1.LockPackage) bool { return slices.Contains(sources, l.Source) })
	for _, locked := range slices.Backward(w.installed) {
		if !slices.Contains(sources, locked.Source) {
			continue
		}
		w.takeRevision(proposal, tx, &locked)
		w.takePart(proposal, tx, locked.Source) // the revision in the Lock may be gone already, and others not
	}
}

// replace proposes that a package of another source takes the place of one that is installed, and
// its dependencies those of the other.
func (p *Proposer) replace(ctx context.Context, tx *pkgv1alpha1.Transaction, w *world, spec *pkgv1alpha1.ReplaceSpec) (*Proposal, error) {
	s, err := subject(&spec.Package)
	if err != nil {
		return nil, err
	}
	w.subject = s
	old := transaction.Find(w.installed, spec.Source)
	switch {
	case spec.Source == s.reference.Source:
		return p.install(ctx, tx, w, &spec.Package)
	case old == nil:
		return nil, &transaction.FailedError{Reason: pkgv1alpha1.ReasonMissingDependency, Message: "source " + text.Clip(spec.Source, maxName) + " is not installed"}
	}
	replaced := w.packageOf(old)
	if replaced == s.Ref {
		return p.install(ctx, tx, w, &spec.Package) // the package gets another source, and stays
	}
	w.objects = slices.DeleteFunc(w.objects, func(o object) bool { return o.Ref == replaced })
	w.leaving = append(w.leaving, replaced.Name)
	problem, err := p.problem(ctx, tx, w, &s)
	if err != nil {
		return nil, err
	}
	problem.Remove = append(problem.Remove, spec.Source)
	first, err := p.solved(ctx, tx, w, &s, problem)
	if err != nil {
		return nil, err
	}
	// The dependencies of the old package that only it requires, and what takes their place.
	family, err := w.family(old, &s, first)
	if err != nil {
		return nil, err
	}
	proposal := first
	if len(family) > 0 {
		problem.Remove = append(problem.Remove, family...)
		if proposal, err = p.solved(ctx, tx, w, &s, problem); err != nil {
			return nil, err
		}
	}
	w.take(proposal, tx, append([]string{spec.Source}, family...))
	for n := range proposal.Remove {
		proposal.Remove[n].Replaced = true
	}
	return proposal, stays(proposal)
}

// stays returns an error if a package would be installed and removed: the removal would take what
// was installed.
func stays(proposal *Proposal) error {
	for _, r := range proposal.Remove {
		if slices.ContainsFunc(proposal.Install, func(p install.Package) bool { return p.Kind.Name == r.Kind.Name && p.Name == r.Name }) {
			return &transaction.FailedError{
				Reason:  pkgv1alpha1.ReasonVersionConflict,
				Message: fmt.Sprintf("%s %s would be installed and removed: replace it in a transaction of its own", r.Kind.Name, r.Name),
			}
		}
	}
	return nil
}

// family returns the dependencies of a replaced package that are replaced with it: those that only
// it requires, and for which a dependency of the replacement has the same name in another
// repository.
func (w *world) family(old *pkgv1beta1.LockPackage, s *object, proposal *Proposal) ([]string, error) {
	installed := resolve.FromLock(w.installed)
	others := resolve.Reachable(slices.DeleteFunc(slices.Clone(installed), func(r resolve.Package) bool { return r.Source == old.Source }), w.wanted(old.Source)...)
	after := resolve.Reachable(resolve.FromLock(proposal.Packages), s.reference.Source)
	var family []string
	for source := range resolve.Reachable(installed, old.Source) {
		if source == old.Source || others[source] || after[source] {
			continue
		}
		var matches []string
		for candidate := range after {
			if candidate != s.reference.Source && lastSegment(candidate) == lastSegment(source) {
				matches = append(matches, candidate)
			}
		}
		if len(matches) > 1 {
			slices.Sort(matches)
			return nil, &transaction.FailedError{
				Reason:  pkgv1alpha1.ReasonVersionConflict,
				Message: fmt.Sprintf("%s could be replaced by each of %s: replace it in a transaction of its own", source, strings.Join(matches, ", ")),
			}
		}
		if len(matches) == 1 {
			family = append(family, source)
		}
	}
	slices.Sort(family)
	return family, nil
}

// wanted returns the sources that users want, except one.
func (w *world) wanted(except string) []string {
	var sources []string
	for n := range w.objects {
		if o := &w.objects[n]; !o.managed && o.reference.Source != except {
			sources = append(sources, o.reference.Source)
		}
	}
	return sources
}

func lastSegment(source string) string { return source[strings.LastIndexByte(source, '/')+1:] }
