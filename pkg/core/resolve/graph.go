package resolve

import (
	"fmt"
	"slices"
	"strings"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
)

// Dependents returns the sources of the packages that require the source, sorted.
func Dependents(packages []Package, source string) []string {
	var dependents []string
	for i := range packages {
		p := &packages[i]
		requires := slices.ContainsFunc(p.Dependencies, func(d Dependency) bool { return d.Source == source })
		if requires && p.Source != source {
			dependents = append(dependents, p.Source)
		}
	}
	slices.Sort(dependents)
	return slices.Compact(dependents)
}

// Reachable returns the sources of the packages that the given sources are or require, directly or
// indirectly. Sources that are not among the packages are left out.
func Reachable(packages []Package, from ...string) map[string]bool {
	bySource := make(map[string]*Package, len(packages))
	for i := range packages {
		bySource[packages[i].Source] = &packages[i]
	}
	reached := make(map[string]bool, len(packages))
	for todo := slices.Clone(from); len(todo) > 0; {
		source := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p := bySource[source]
		if p == nil || reached[source] {
			continue
		}
		reached[source] = true
		for _, d := range p.Dependencies {
			todo = append(todo, d.Source)
		}
	}
	return reached
}

// Orphans returns the sources of the packages that no root requires, sorted.
func Orphans(packages []Package, roots ...string) []string {
	needed := Reachable(packages, roots...)
	var orphans []string
	for i := range packages {
		if source := packages[i].Source; !needed[source] {
			orphans = append(orphans, source)
		}
	}
	slices.Sort(orphans)
	return slices.Compact(orphans)
}

// Order returns the packages with dependencies before their dependents, and otherwise by source.
// Dependencies that are not among the packages do not matter. If packages require each other, it
// also returns one such cycle: sources from one back to itself, the smallest first. They are then
// ordered as far as possible.
func Order(packages []Package) (ordered []Package, cycle []string) {
	left := make(map[string]*Package, len(packages))
	for i := range packages {
		left[packages[i].Source] = &packages[i]
	}
	sources := make([]string, 0, len(left))
	waits := make(map[string]int, len(left))
	dependents := make(map[string][]string, len(left))
	for source, p := range left {
		sources = append(sources, source)
		for _, d := range p.Dependencies {
			if left[d.Source] != nil {
				waits[source]++
				dependents[d.Source] = append(dependents[d.Source], source)
			}
		}
	}
	slices.Sort(sources)

	ordered = make([]Package, 0, len(left))
	take := func(source string) {
		ordered = append(ordered, *left[source])
		delete(left, source)
		for _, dependent := range dependents[source] {
			waits[dependent]--
		}
	}
	for len(left) > 0 {
		ready := slices.IndexFunc(sources, func(source string) bool { return left[source] != nil && waits[source] == 0 })
		if ready < 0 {
			found := findCycle(left)
			if cycle == nil {
				cycle = found
			}
			ready = slices.Index(sources, found[0])
		}
		take(sources[ready])
		sources = slices.Delete(sources, ready, ready+1)
	}
	return ordered, cycle
}

// findCycle returns a cycle among packages of which each requires another one of them.
func findCycle(packages map[string]*Package) []string {
	var source string
	for s := range packages {
		if source == "" || s < source {
			source = s
		}
	}
	var path []string
	for !slices.Contains(path, source) {
		path = append(path, source)
		next := ""
		for _, d := range packages[source].Dependencies {
			if packages[d.Source] != nil && (next == "" || d.Source < next) {
				next = d.Source
			}
		}
		source = next
	}
	return rotate(path[slices.Index(path, source):])
}

// rotate returns a cycle that starts and ends with its smallest source.
func rotate(cycle []string) []string {
	first := slices.Index(cycle, slices.Min(cycle))
	rotated := slices.Concat(cycle[first:], cycle[:first])
	return append(rotated, rotated[0])
}

// CheckRemoval returns a conflict if an installed package requires the source, which a transaction
// is about to remove. It returns nil if nothing does.
func CheckRemoval(packages []Package, source string) *Conflict {
	names := newNames(nil)
	for i := range packages {
		names.add(packages[i].Source)
	}
	conflict := &Conflict{Reason: pkgv1alpha1.ReasonMissingDependency}
	var messages []string
	for _, dependent := range Dependents(packages, source) {
		at := slices.IndexFunc(packages, func(p Package) bool { return p.Source == dependent })
		for _, d := range packages[at].Dependencies {
			if d.Source != source {
				continue
			}
			step := Step{
				Package: names.of(dependent), Source: dependent, Version: packages[at].Version.short(), State: Installed,
				Requires: names.of(source), RequiredSource: source, Constraint: d.Constraint,
			}
			conflict.Steps = append(conflict.Steps, step)
			messages = append(messages, fmt.Sprintf("Package %s requires %s", step.Package, step.required()))
		}
	}
	if len(messages) == 0 {
		return nil
	}
	conflict.Message = capped(messages) + ", which would be removed"
	conflict.Hint = "Delete or change " + strings.Join(namesOf(conflict.Steps), ", ") + " first"
	return conflict
}
