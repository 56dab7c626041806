package resolve

import (
	"cmp"
	"slices"
	"strings"
)

// Solution is the set of packages after the transaction.
type Solution struct {
	// Packages are all of them, dependencies first, otherwise by source.
	Packages []Selected
	// Orphans are the sources of installed packages that no root requires, sorted. They stay.
	Orphans []string
	// Unmet are requirements of installed packages that were not met before, and still are not.
	Unmet []Step
	// Duplicates are installed packages that were left out, because another one has their source.
	Duplicates []Package
}

// Selected is a package of a solution.
type Selected struct {
	Package
	// Previous is the installed version, if any.
	Previous Version
	// Change is what becomes of it.
	Change Change
}

// Change is what a solution does with a package.
type Change string

const (
	// ChangeNone keeps the installed version.
	ChangeNone Change = ""
	// ChangeInstall installs a package that is not installed yet.
	ChangeInstall Change = "Install"
	// ChangeUpgrade installs a higher version.
	ChangeUpgrade Change = "Upgrade"
	// ChangeDowngrade installs a lower version.
	ChangeDowngrade Change = "Downgrade"
	// ChangeOther installs another digest of a version, or a version that cannot be compared.
	ChangeOther Change = "Change"
)

func (s *search) solution() *Solution {
	solution := &Solution{Duplicates: s.duplicates}
	selected := map[string]Selected{}
	var packages []Package
	var roots []string
	for n := s.top; n != nil; n = n.parent {
		p := s.selected(n)
		selected[p.Source] = p
		packages = append(packages, p.Package)
		if n.variable.root != nil {
			roots = append(roots, p.Source)
		}
	}
	ordered, _ := Order(packages)
	for i := range ordered {
		solution.Packages = append(solution.Packages, selected[ordered[i].Source])
	}
	solution.Orphans = Orphans(packages, roots...)
	solution.Unmet = s.unmet()
	return solution
}

func (s *search) selected(n *node) Selected {
	v, c := n.variable, n.candidate
	p := Selected{Package: Package{Source: v.source, Version: c.Version}, Previous: v.lockedVersion(), Change: change(v, c)}
	locked := s.lockedPackage(v)
	if c.release != nil {
		p.Dependencies = slices.Clone(c.release.Dependencies)
		p.APIVersion, p.Kind = c.release.APIVersion, c.release.Kind
	} else {
		p.Dependencies = slices.Clone(locked.Dependencies)
	}
	if locked != nil {
		p.APIVersion, p.Kind = cmp.Or(locked.APIVersion, p.APIVersion), cmp.Or(locked.Kind, p.Kind)
	}
	if p.Change == ChangeNone {
		p.Name = locked.Name
	}
	for i := range v.demands {
		if d := &v.demands[i]; locked == nil && d.Kind != "" {
			p.APIVersion, p.Kind = cmp.Or(d.APIVersion, p.APIVersion), d.Kind
			break
		}
	}
	if v.root != nil {
		p.APIVersion, p.Kind = cmp.Or(v.root.APIVersion, p.APIVersion), cmp.Or(v.root.Kind, p.Kind)
	}
	return p
}

// lockedPackage returns the installed package of a variable, or nil.
func (m *model) lockedPackage(v *variable) *Package {
	if v.locked == nil {
		return nil
	}
	return v.locked.installed
}

func change(v *variable, c *candidate) Change {
	switch {
	case v.locked == nil:
		return ChangeInstall
	case c.Version == v.locked.Version:
		return ChangeNone
	case c.semantic == nil || v.locked.semantic == nil:
		return ChangeOther
	}
	switch c.semantic.Compare(v.locked.semantic) {
	case 1:
		return ChangeUpgrade
	case -1:
		return ChangeDowngrade
	default:
		return ChangeOther
	}
}

// unmet returns the requirements that were broken before, and are still broken.
func (s *search) unmet() []Step {
	e := newExplainer(s.model)
	var steps []Step
	for n := s.top; n != nil; n = n.parent {
		for i := range n.candidate.edges {
			to := &n.candidate.edges[i]
			if to.broken && (to.to.node == nil || to.to.node.candidate.same) {
				steps = append(steps, e.step(n.variable, n.candidate, to))
			}
		}
	}
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.RequiredSource, b.RequiredSource),
			strings.Compare(a.Constraint, b.Constraint))
	})
	return steps
}
