// Package propose computes what a Transaction would change: all packages that the Lock lists
// afterwards, with their digests, and what is installed and removed for that. It writes nothing.
package propose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/fetch"
	"github.com/starlinghq/starling/pkg/transactions/install"
	"github.com/starlinghq/starling/pkg/transactions/live"
)

// Proposer computes proposals.
type Proposer struct {
	// Client reads packages and revisions from the API server.
	Client *transactions.Client
	// Definitions reads the CustomResourceDefinitions of the WDS.
	Definitions *live.Reader
	// Live reads the objects of packages.
	Live *live.Objects
	// Packages reads packages from registries.
	Packages *fetch.Reader
	// HubVersion is compared with the versions of Crossplane that packages support. If it is empty,
	// nothing is compared.
	HubVersion string
	// Revisions reads PackageRevisions.
	Revisions Revisions
}

// Proposal is what a Transaction would change.
type Proposal struct {
	// Packages are those that the Lock lists afterwards, dependencies first.
	Packages []pkgv1beta1.LockPackage
	// Before are those that are installed.
	Before []pkgv1beta1.LockPackage
	// Install are the packages to install or to update, dependencies first.
	Install []install.Package
	// Remove are the packages to remove, dependents first.
	Remove []install.Removal
	// Revisions are all revisions, by name.
	Revisions map[string]*pkgv1.ProviderRevision
	// Revision is set if a PackageRevision is validated. Then nothing is installed.
	Revision *Revision
	// Definitions are the CustomResourceDefinitions of the WDS, as they were when the first step
	// needed them.
	Definitions *live.Definitions
	// Unchanged are the names of CustomResourceDefinitions to install that have the desired
	// content. The validation finds them.
	Unchanged map[string]bool
	// Warnings and Notes are for the user. Notes are no reason to worry.
	Warnings, Notes []string
}

// MayTake reports whether the package of a source may take an object from its controller: a
// revision of the same package, or of one that is replaced.
func (p *Proposal) MayTake(source string, owner transaction.Owner) bool {
	r := p.Revisions[owner.Name]
	if r == nil || r.UID != owner.UID {
		return false
	}
	name := r.Labels[pkgv1.LabelPackage]
	return slices.ContainsFunc(p.Install, func(i install.Package) bool {
		return i.Locked.Source == source && i.Name == name && i.Kind.RevisionName == owner.Kind
	}) || slices.ContainsFunc(p.Remove, func(r install.Removal) bool {
		return r.Replaced && r.Name == name && r.Kind.RevisionName == owner.Kind
	})
}

// Propose computes the proposal of a Transaction that holds the Lock. Versions are pinned by digest
// here, and nowhere later. The error is a *transaction.FailedError if there is no proposal; any
// other error says that something did not answer.
func (p *Proposer) Propose(ctx context.Context, tx *pkgv1alpha1.Transaction, locked []pkgv1beta1.LockPackage) (*Proposal, error) {
	w, err := p.look(ctx, tx, locked)
	if err != nil {
		return nil, failed(err)
	}
	var proposal *Proposal
	switch spec := &tx.Spec; spec.Change {
	case pkgv1alpha1.ChangeTypeInstall:
		if spec.Install.Package.Kind == gate.Kind {
			proposal, err = p.revision(ctx, tx, w, &spec.Install.Package)
			break
		}
		proposal, err = p.install(ctx, tx, w, &spec.Install.Package)
	case pkgv1alpha1.ChangeTypeDelete:
		proposal, err = p.remove(tx, w, spec.Delete.Source)
	case pkgv1alpha1.ChangeTypeReplace:
		proposal, err = p.replace(ctx, tx, w, spec.Replace)
	default:
		err = corexpkg.Invalidf("change %q is unknown", spec.Change)
	}
	if err != nil {
		return nil, failed(err)
	}
	if proposal.Revision == nil {
		if err := p.repair(ctx, tx, w, proposal); err != nil {
			return nil, failed(err)
		}
	}
	proposal.Before, proposal.Revisions, proposal.Definitions = w.installed, w.revisions, p.Definitions.Definitions()
	proposal.Warnings = append(w.warnings, proposal.Warnings...)
	return proposal, nil
}

// failed gives an error that the user can repair its reason.
func failed(err error) error {
	conflict, impossible := errors.AsType[*resolve.Conflict](err)
	switch {
	case impossible:
		return &transaction.FailedError{Reason: conflict.Reason, Message: conflict.Error()}
	case corexpkg.IsInvalid(err):
		return &transaction.FailedError{Reason: pkgv1alpha1.ReasonInvalidPackage, Message: err.Error()}
	}
	return err
}

// install proposes that a package is installed or updated.
func (p *Proposer) install(ctx context.Context, tx *pkgv1alpha1.Transaction, w *world, snapshot *pkgv1alpha1.PackageSnapshot) (*Proposal, error) {
	s, err := subject(snapshot)
	if err != nil {
		return nil, err
	}
	w.subject = s
	handsOver := w.handOver(&s)
	problem, err := p.problem(ctx, tx, w, &s)
	if err != nil {
		return nil, err
	}
	proposal, err := p.solved(ctx, tx, w, &s, problem)
	if err != nil || handsOver == nil {
		return proposal, err
	}
	// Of a package that users activate, the other one stays in force until they have done so.
	if own := transaction.Find(proposal.Packages, s.reference.Source); own != nil && own.Name != handsOver.Revision {
		proposal.Remove = append(proposal.Remove, *handsOver)
	}
	return proposal, err
}

// handOver lets a package take the place of one of the same source: of a dependency, which a
// Transaction has installed under a name of its own, or of a package that is being deleted. The
// user wants that source under this name, with these labels and this version. It returns the
// removal of the other one, which gives away its objects, nil if there is none.
func (w *world) handOver(s *object) *install.Removal {
	locked := transaction.Find(w.installed, s.reference.Source)
	if locked == nil {
		return nil
	}
	owner := w.packageOf(locked)
	_, deleting := w.deleting[owner]
	is := func(o object) bool { return o.Ref == owner && o.managed }
	if owner.Name == "" || owner == s.Ref || !deleting && !slices.ContainsFunc(w.objects, is) {
		return nil
	}
	w.handedOver = s.reference.Source
	w.leaving = append(w.leaving, owner.Name)
	w.objects = slices.DeleteFunc(w.objects, is)
	return &install.Removal{Kind: w.kinds[locked.Name], Name: owner.Name, Revision: locked.Name, Replaced: true}
}

// solved solves the problem and returns the proposal with its packages.
func (p *Proposer) solved(ctx context.Context, tx *pkgv1alpha1.Transaction, w *world, s *object, problem *resolve.Problem) (*Proposal, error) {
	solution, err := p.solve(ctx, problem, w.options)
	if err != nil {
		return nil, err
	}
	proposal := &Proposal{}
	if len(solution.Orphans) > 0 {
		proposal.Notes = append(proposal.Notes, fmt.Sprintf("nothing requires %s; delete them if you do not need them", text.List(solution.Orphans, 10)))
	}
	for _, step := range solution.Unmet {
		proposal.Warnings = append(proposal.Warnings, "not met before and still not met: "+step.String())
	}
	for _, duplicate := range solution.Duplicates {
		proposal.Warnings = append(proposal.Warnings, fmt.Sprintf("the Lock had %s twice; revision %s is left out", duplicate.Source, duplicate.Name))
	}
	selected := make([]resolve.Package, len(solution.Packages))
	names := w.names(s)
	for n := range solution.Packages {
		chosen := &solution.Packages[n]
		if chosen.Change != resolve.ChangeNone || chosen.Source == w.handedOver {
			chosen.Name = corexpkg.RevisionName(names.of(chosen.Source), chosen.Version.Digest)
		}
		selected[n] = chosen.Package
	}
	proposal.Packages = resolve.ToLock(selected)
	difference := transaction.Diff(w.installed, proposal.Packages)
	install := difference.Installed
	own := transaction.Find(proposal.Packages, s.reference.Source)
	inactive := transaction.Manual(&s.spec.PackageSpec) && own != nil &&
		(w.revisions[own.Name] == nil || w.revisions[own.Name].Spec.DesiredState != pkgv1.RevisionActive)
	switch {
	case inactive:
		install = []pkgv1beta1.LockPackage{*own}
		if proposal.Packages, err = w.without(own); err != nil {
			return nil, err
		}
		proposal.Notes = append(proposal.Notes, fmt.Sprintf("revision %s is inactive, because spec.revisionActivationPolicy of %s is Manual: set spec.desiredState of the revision to Active to install it", own.Name, s.Ref))
	case own != nil && !slices.ContainsFunc(install, func(l pkgv1beta1.LockPackage) bool { return l.Source == own.Source }) && w.differs(own, s):
		install = append(install, *own)
	}
	for n := range install {
		content, err := p.content(ctx, tx, w, s, &install[n], names, w.options(install[n].Source))
		if err != nil {
			return nil, err
		}
		proposal.Warnings = append(proposal.Warnings, unnamedWebhooks(content)...)
		content.Inactive = inactive
		proposal.Install = append(proposal.Install, *content)
	}
	if notStarted := w.notStarted(proposal.Install); notStarted != "" {
		proposal.Warnings = append(proposal.Warnings, notStarted)
	}
	return proposal, nil
}

// problem returns what the solver is asked.
func (p *Proposer) problem(ctx context.Context, tx *pkgv1alpha1.Transaction, w *world, s *object) (*resolve.Problem, error) {
	problem := &resolve.Problem{
		Locked: resolve.FromLock(w.installed), HubVersion: p.HubVersion, AllowDowngrade: tx.Annotations[pkgv1.AnnotationAllowDowngrade] == "true",
	}
	wanted := root(s)
	wanted.Subject, wanted.Pending = true, true
	if s.spec.PackagePullPolicy != nil && *s.spec.PackagePullPolicy == pkgv1.PullAlways && wanted.Version.Digest == "" {
		resolved, err := p.Packages.Resolve(ctx, s.reference, w.options(s.reference.Source)) // it may have moved
		if err == nil {
			wanted.Version.Digest = resolved.Digest
		}
	}
	problem.Roots = append(problem.Roots, wanted)
	roots := map[string]bool{s.reference.Source: true}
	for n := range w.objects {
		o := &w.objects[n]
		source := o.reference.Source
		switch {
		case o.Ref == s.Ref:
			continue
		case source == s.reference.Source && !o.managed:
			return nil, &transaction.FailedError{
				Reason:  pkgv1alpha1.ReasonVersionConflict,
				Message: fmt.Sprintf("%s and %s have the same source %s, which can be installed once: delete one of them", s.Ref, o.Ref, source),
			}
		case o.managed && !o.edited || roots[source]:
			continue
		}
		other := root(o)
		installed := transaction.Find(w.installed, source)
		if transaction.Manual(&o.spec.PackageSpec) {
			if installed == nil {
				continue
			}
			other.Version = resolve.Version{} // what is active counts, not what is desired
		}
		other.Pending = installed == nil || other.Version != (resolve.Version{}) && resolve.ParseVersion(installed.Version).Tag != other.Version.Tag
		roots[source] = true
		problem.Roots = append(problem.Roots, other)
	}
	// What the package had installed from another source goes.
	for n := range w.installed {
		if l := &w.installed[n]; l.Source != s.reference.Source && w.packageOf(l) == s.Ref {
			problem.Remove = append(problem.Remove, l.Source)
		}
	}
	return problem, nil
}

func root(o *object) resolve.Root {
	r := resolve.Root{
		Name: o.Name, APIVersion: pkgv1.GroupVersion.String(), Kind: o.Kind, Source: o.reference.Source,
		Version: resolve.Version{Tag: o.reference.Tag, Digest: o.reference.Digest},
	}
	if o.spec.SkipDependencyResolution != nil {
		r.SkipDependencyResolution = *o.spec.SkipDependencyResolution
	}
	if o.spec.IgnoreCrossplaneConstraints != nil {
		r.IgnoreCrossplaneConstraints = *o.spec.IgnoreCrossplaneConstraints
	}
	return r
}

// differs reports whether a package whose version stays must be written all the same.
func (w *world) differs(locked *pkgv1beta1.LockPackage, s *object) bool {
	r := w.revisions[locked.Name]
	return r == nil || r.Spec.DesiredState != pkgv1.RevisionActive || transaction.Awaits(r) || w.rivals(r) ||
		!maps.Equal(r.Spec.CommonLabels, s.spec.CommonLabels) || !maps.Equal(r.Spec.CommonAnnotations, s.spec.CommonAnnotations)
}

// rivals reports whether another revision of the same package is active too.
func (w *world) rivals(r *pkgv1.ProviderRevision) bool {
	for name, other := range w.revisions {
		if name != r.Name && w.kinds[name] == w.kinds[r.Name] && other.Labels[pkgv1.LabelPackage] == r.Labels[pkgv1.LabelPackage] &&
			other.Spec.DesiredState == pkgv1.RevisionActive {
			return true
		}
	}
	return false
}

// without returns what the Lock lists when a revision becomes, or stays, inactive. The error is a
// *resolve.Conflict if another package requires it.
func (w *world) without(inactive *pkgv1beta1.LockPackage) ([]pkgv1beta1.LockPackage, error) {
	is := func(l pkgv1beta1.LockPackage) bool { return l.Source == inactive.Source && l.Name == inactive.Name }
	if !slices.ContainsFunc(w.installed, is) {
		return w.installed, nil
	}
	if conflict := resolve.CheckRemoval(resolve.FromLock(w.installed), inactive.Source); conflict != nil {
		return nil, conflict
	}
	return slices.DeleteFunc(slices.Clone(w.installed), is), nil
}

// names are the names of package objects.
type names struct {
	world   *world
	subject *object
	chosen  map[string]string // by source
}

func (w *world) names(s *object) *names { return &names{w, s, map[string]string{}} }

// of returns the name of the object of a source. That of a new dependency follows from its source.
func (n *names) of(source string) string {
	if source == n.subject.reference.Source {
		return n.subject.Name
	}
	if object := n.world.of(source); object != nil {
		return object.Name
	}
	if name, found := n.chosen[source]; found {
		return name
	}
	name := corexpkg.FriendlyName(source, func(name string) string {
		for _, o := range append(n.world.objects, *n.subject) {
			if o.Name == name {
				return o.reference.Source
			}
		}
		for other, taken := range n.chosen {
			if taken == name {
				return other
			}
		}
		if slices.Contains(n.world.leaving, name) {
			return name // any other text than the source
		}
		return ""
	})
	n.chosen[source] = name
	return name
}

// content returns a package with its objects.
func (p *Proposer) content(
	ctx context.Context, tx *pkgv1alpha1.Transaction, w *world, s *object, locked *pkgv1beta1.LockPackage, names *names, options fetch.Options,
) (*install.Package, error) {
	version := resolve.ParseVersion(locked.Version)
	pkg, err := p.Packages.Get(ctx, locked.Source, version.Digest, options)
	if err != nil {
		return nil, err
	}
	image := corexpkg.Reference{Source: locked.Source, Tag: version.Tag, Digest: version.Digest}
	content := &install.Package{
		Locked: *locked, Name: names.of(locked.Source), Image: image.String(), Digest: version.Digest,
		Labels: pkg.Labels, Annotations: pkg.Annotations, Capabilities: pkg.Capabilities,
	}
	content.Objects, content.Unnamed = corexpkg.NameWebhooks(pkg.Installed())
	if resolved, err := p.Packages.Resolve(ctx, image, options); err == nil {
		content.Fetched, content.ImageConfigs = resolved.Image.String(), resolved.Image.Configs
	}
	object := w.of(locked.Source)
	if locked.Source == s.reference.Source {
		object = s
		_, requested := tx.Labels[pkgv1.LabelGeneration]
		content.Rewrite = !requested // a user created the transaction, which says what the package is
	}
	if object != nil {
		content.Kind, content.Spec = object.kind, object.spec
		if object.managed {
			content.Managed, content.Seen = true, object.spec.Package
		}
	} else {
		content.Managed, content.Spec.PackagePullSecrets = true, s.spec.PackagePullSecrets
		kind, found := transactions.KindOf(pkg.Kind)
		if !found {
			return nil, corexpkg.Invalidf("package %s has the unknown kind %q", image, pkg.Kind)
		}
		content.Kind = kind
		content.Seen = w.deleting[transactions.Ref{Kind: kind.Name, Name: content.Name}]
		// One that is installed stays until nothing requires it.
		if content.Seen != "" && transaction.Find(w.installed, locked.Source) == nil {
			return nil, install.BeingDeleted(kind, content.Name)
		}
	}
	if content.Kind.Name != pkg.Kind {
		return nil, corexpkg.Invalidf("package %s is a %s, but %s %q names it: create a %s instead", image, pkg.Kind, content.Kind.Name, content.Name, pkg.Kind)
	}
	return content, nil
}

// notStarted warns of new packages that have a program, which a package manager with a runtime
// would start.
func (w *world) notStarted(install []install.Package) string {
	var names []string
	for n := range install {
		p := &install[n]
		if (p.Kind.Name == pkgv1.KindProvider || p.Kind.Name == pkgv1.KindFunction) && transaction.Find(w.installed, p.Locked.Source) == nil {
			names = append(names, p.Kind.Name+" "+p.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("Starling installs what %s %s, and starts no program: that runs in clusters, where somebody installs it",
		text.List(names, maxUnnamed), text.Plural(len(names), "defines", "define"))
}

// unnamedWebhooks warns of CustomResourceDefinitions whose objects nothing converts.
func unnamedWebhooks(p *install.Package) []string {
	if len(p.Unnamed) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("package %s leaves the conversion webhook of %s to a package manager that runs its program, which Starling does not: "+
		"write objects of these kinds in the storage version. Clusters get these kinds without a conversion", p.Name, text.List(p.Unnamed, maxUnnamed))}
}

// maxUnnamed bounds how many CustomResourceDefinitions, or packages, a warning names.
const maxUnnamed = 5
