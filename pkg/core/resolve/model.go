package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
)

// freedom is what the search may do with the roots that are not the subject.
type freedom int

const (
	// rootsStay keeps them at their installed versions.
	rootsStay freedom = iota
	// pendingMove also permits the desired versions of pending roots.
	pendingMove
)

// variable is a repository, of which the search chooses a version.
type variable struct {
	source string
	root   *Root
	locked *candidate
	// pinned are the candidates that come before, or are instead of, the tags of the repository.
	pinned []*candidate
	// open permits the tags of the repository.
	open bool
	// base is set if the package is in the result in any case: it is installed, or the subject.
	base bool
	// removed forbids the package.
	removed bool
	// rank is the length of the longest chain of installed dependents.
	rank int
	// byDigest and byTag are the candidates of the repository that were looked at.
	byDigest map[string]*candidate
	byTag    []*candidate
	// repository has the tags, if the search looked at them.
	repository *repository
	// after are the variables that the search learned to decide before this one.
	after []*variable

	// What follows is the state of the search.

	// demands are the requirements of the decided packages, in the order of their levels.
	demands []demand
	// node is the decision. It is nil if there is none yet.
	node *node
	// skipped is set if the search goes on without a decision.
	skipped bool
}

// demand is a requirement of a decided package.
type demand struct {
	by *node
	*edge
}

// candidate is a version that may be chosen.
type candidate struct {
	Version
	// semantic is the version as a semantic version. It is nil if it is none.
	semantic *semver.Version
	// kept marks an installed version that stays as it is.
	kept bool
	// same marks the installed version, also where it is installed again.
	same bool
	// wanted marks the version that a package object names.
	wanted bool
	// loaded is set when the rest is known.
	loaded bool
	// installed is the installed package, if the candidate is kept.
	installed *Package
	// release is the metadata. It is nil for a kept candidate.
	release *release
	edges   []edge
	// unusable is set if the candidate fits nowhere.
	unusable *unusable
}

// unusable is why a candidate fits nowhere.
type unusable struct {
	reason string
	// notFound is set if the registry does not have the version.
	notFound bool
	text     string
}

// edge is a requirement of a candidate.
type edge struct {
	*requirement
	to *variable
	// broken is set if the installed packages do not meet the requirement, and this is one of them.
	// Then it is no demand, and the installed version of the dependency may stay.
	broken bool
}

// optional reports whether the edge demands nothing. It still constrains a package that is in the
// result for another reason.
func (e *edge) optional() bool { return e.broken && e.to.locked == nil }

// model is a Problem with its variables.
type model struct {
	problem   *Problem
	knowledge *Knowledge
	hub       *semver.Version
	freedom   freedom
	variables map[string]*variable
	// all are the variables in the order in which they were found.
	all []*variable
	// duplicates are installed packages that are left out, because another one has their source.
	duplicates []Package
}

func newModel(p *Problem, k *Knowledge, f freedom) (*model, error) {
	m := &model{problem: p, knowledge: k, freedom: f, variables: map[string]*variable{}}
	if p.HubVersion != "" {
		hub, err := semver.NewVersion(p.HubVersion)
		if err != nil {
			return nil, fmt.Errorf("parse hub version %q: %w", p.HubVersion, err)
		}
		m.hub = hub
	}
	if err := m.addRoots(); err != nil {
		return nil, err
	}
	for _, source := range p.Remove {
		m.variable(source).removed = true
	}
	m.addLocked()
	for _, v := range m.all {
		m.pin(v)
	}
	return m, nil
}

func (m *model) variable(source string) *variable {
	v := m.variables[source]
	if v == nil {
		v = &variable{source: source, open: true}
		m.variables[source] = v
		m.all = append(m.all, v)
	}
	return v
}

// addRoots gives each root its variable. A source has one root: that of the subject.
func (m *model) addRoots() error {
	roots := make([]*Root, 0, len(m.problem.Roots))
	for i := range m.problem.Roots {
		roots = append(roots, &m.problem.Roots[i])
	}
	slices.SortFunc(roots, func(a, b *Root) int {
		return cmp.Or(compareBools(b.Subject, a.Subject), compareBools(a.Pending, b.Pending),
			strings.Compare(a.Source, b.Source), strings.Compare(a.object(), b.object()))
	})
	for _, root := range roots {
		if root.Subject && root.Version == (Version{}) {
			return fmt.Errorf("resolve %s: neither tag nor digest", root.object())
		}
		v := m.variable(root.Source)
		switch {
		case v.root == nil:
			v.root = root
		case v.root.Subject:
			return sharedSource(v.root, root)
		}
	}
	return nil
}

func sharedSource(subject, other *Root) *Conflict {
	return &Conflict{
		Reason:  pkgv1alpha1.ReasonVersionConflict,
		Message: fmt.Sprintf("%s and %s both install %s", subject.object(), other.object(), subject.Source),
		Hint:    "Delete one of them",
	}
}

// addLocked gives each installed package that is not removed its variable.
func (m *model) addLocked() {
	installed := make([]*Package, 0, len(m.problem.Locked))
	for i := range m.problem.Locked {
		installed = append(installed, &m.problem.Locked[i])
	}
	slices.SortFunc(installed, m.comparePreference)
	packages := make(map[string]*Package, len(installed))
	for _, p := range installed {
		if packages[p.Source] != nil {
			m.duplicates = append(m.duplicates, *p)
			continue
		}
		packages[p.Source] = p
		v := m.variable(p.Source)
		v.locked = &candidate{Version: p.Version, semantic: m.knowledge.pinned(p.Version.Tag), kept: true, same: true, installed: p}
		v.base = !v.removed
	}
	for _, p := range installed {
		if v := m.variables[p.Source]; packages[p.Source] == p && !v.removed {
			m.connect(v, v.locked, m.knowledge.requirements(p.Dependencies))
			v.locked.loaded = true
		}
	}
	m.breakEdges()
	m.rank()
}

// comparePreference orders installed packages of one source by which one counts: the one that the
// root names, else the highest version, else the first name.
func (m *model) comparePreference(a, b *Package) int {
	named := func(p *Package) bool {
		root := m.variable(p.Source).root
		return root != nil && root.Version != (Version{}) && root.Version.same(p.Version)
	}
	higher := 0
	if va, vb := m.knowledge.pinned(a.Version.Tag), m.knowledge.pinned(b.Version.Tag); va != nil && vb != nil {
		higher = vb.Compare(va)
	}
	return cmp.Or(strings.Compare(a.Source, b.Source), compareBools(named(b), named(a)), higher,
		strings.Compare(a.Name, b.Name), strings.Compare(a.Version.String(), b.Version.String()))
}

// connect gives a candidate its edges, unless its root ignores what it requires.
func (m *model) connect(v *variable, c *candidate, requires []requirement) {
	if v.root != nil && v.root.SkipDependencyResolution {
		return
	}
	c.edges = make([]edge, 0, len(requires))
	for i := range requires {
		r := &requires[i]
		c.edges = append(c.edges, edge{requirement: r, to: m.variable(r.Source)})
	}
}

// breakEdges finds the requirements that the installed packages do not meet. A transaction must not
// fail because of them: it may be the one that repairs another package.
func (m *model) breakEdges() {
	for _, v := range m.all {
		if v.locked == nil {
			continue
		}
		for i := range v.locked.edges {
			e := &v.locked.edges[i]
			e.broken = e.wrong != "" || e.to.locked == nil || violated(e.constraint, e.to.locked)
		}
	}
}

// violated reports whether an installed version is known not to meet a constraint.
func violated(c *constraint, locked *candidate) bool {
	if c.digest != "" {
		return locked.Digest != "" && locked.Digest != c.digest
	}
	return !c.fits(locked.semantic)
}

// rank computes the ranks, so that dependents are decided before what they require.
func (m *model) rank() {
	packages := make([]Package, 0, len(m.problem.Locked))
	for _, v := range m.all {
		if v.locked == nil {
			continue
		}
		p := Package{Source: v.source}
		for i := range v.locked.edges {
			p.Dependencies = append(p.Dependencies, v.locked.edges[i].Dependency)
		}
		packages = append(packages, p)
	}
	ordered, _ := Order(packages)
	for i := range slices.Backward(ordered) {
		v := m.variables[ordered[i].Source]
		for j := range v.locked.edges {
			to := v.locked.edges[j].to
			to.rank = max(to.rank, v.rank+1)
		}
	}
}

// pin decides which versions of a repository may be chosen beside, or instead of, its tags.
func (m *model) pin(v *variable) {
	if v.removed {
		v.open = false
		return
	}
	root := v.root
	if root != nil && root.Subject {
		v.base = true
		v.open = false
		v.pinned = []*candidate{m.wanted(root)}
		return
	}
	if v.locked != nil {
		v.pinned = append(v.pinned, v.locked)
	}
	if root == nil {
		return
	}
	v.open = v.locked == nil && root.Version == (Version{})
	if root.Version == (Version{}) {
		return
	}
	pending := root.Pending && m.freedom == pendingMove && !root.Version.same(v.lockedVersion())
	if v.locked == nil || pending {
		v.pinned = append(v.pinned, m.wanted(root))
	}
}

func (v *variable) lockedVersion() Version {
	if v.locked == nil {
		return Version{}
	}
	return v.locked.Version
}

func (m *model) wanted(root *Root) *candidate {
	return &candidate{Version: root.Version, semantic: m.knowledge.pinned(root.Version.Tag), wanted: true}
}

// movable reports whether the search has a choice.
func (v *variable) movable() bool { return v.open || len(v.pinned) > 1 }

// load completes a candidate. It returns false, and what is needed, if its metadata is not known.
func (m *model) load(v *variable, c *candidate) (Need, bool) {
	if c.loaded {
		return Need{}, true
	}
	need := Need{Source: v.source, Version: c.reference()}
	r := m.knowledge.releases[need]
	if r == nil {
		return need, false
	}
	c.loaded = true
	c.release = r
	c.unusable = m.judge(v, r)
	if !r.found || r.wrong != "" {
		return Need{}, true
	}
	c.Digest = cmp.Or(c.Digest, r.Digest)
	c.same = v.locked != nil && c.Version.same(v.locked.Version)
	m.connect(v, c, r.requires)
	return Need{}, true
}

// judge returns why a release fits nowhere, or nil.
func (m *model) judge(v *variable, r *release) *unusable {
	switch {
	case !r.found:
		return &unusable{reason: pkgv1alpha1.ReasonMissingDependency, notFound: true, text: "was not found in its repository"}
	case r.wrong != "":
		return &unusable{reason: pkgv1alpha1.ReasonInvalidPackage, text: "is not valid: " + r.wrong}
	}
	if v.root == nil || !v.root.SkipDependencyResolution {
		for i := range r.requires {
			if d := &r.requires[i]; d.wrong != "" {
				return &unusable{
					reason: pkgv1alpha1.ReasonInvalidPackage,
					text:   fmt.Sprintf("has an invalid dependency %q: %s", d.Source, d.wrong),
				}
			}
		}
	}
	ignore := m.hub == nil || v.root != nil && v.root.IgnoreCrossplaneConstraints
	if !ignore && r.crossplane != nil && !r.crossplane.fits(m.hub) {
		return &unusable{
			reason: pkgv1alpha1.ReasonVersionConflict,
			text:   fmt.Sprintf("requires Crossplane %s, but the hub has the version %s", r.crossplane.text, m.problem.HubVersion),
		}
	}
	return nil
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
