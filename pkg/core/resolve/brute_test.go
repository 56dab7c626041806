package resolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// brute is a solver that tries all combinations. It shares no code with the search, and states the
// rules once more.
type brute struct {
	world   world
	problem *Problem
	freedom freedom
	names   []string
	roots   map[string]*Root
	locked  map[string]Package
}

// pick is a version of a package in a combination: a tag, or a digest only.
type pick struct {
	version string
	// untagged is set if it was chosen by digest.
	untagged bool
	// kept is set if it is the installed version, and not installed again.
	kept bool
}

func newBrute(w world, p *Problem, f freedom) *brute {
	b := &brute{world: w, problem: p, freedom: f, roots: map[string]*Root{}, locked: map[string]Package{}}
	b.names = slices.Sorted(maps.Keys(w))
	for i := range p.Roots {
		b.roots[lastSegment(p.Roots[i].Source)] = &p.Roots[i]
	}
	for _, l := range p.Locked {
		b.locked[lastSegment(l.Source)] = l
	}
	return b
}

// choices returns the versions that a package may have. The last result is set if it may be absent.
func (b *brute) choices(name string) ([]pick, bool) {
	root, installed := b.roots[name], b.locked[name]
	_, isLocked := b.locked[name]
	if slices.Contains(b.problem.Remove, repo(name)) {
		return nil, true
	}
	if root != nil && root.Subject {
		return []pick{{version: root.Version.Tag}}, false
	}
	var picks []pick
	if isLocked {
		picks = append(picks, pick{version: installed.Version.Tag, kept: true})
	}
	if root != nil {
		moves := root.Pending && b.freedom >= pendingMove && root.Version.Tag != installed.Version.Tag
		if !isLocked || moves {
			picks = append(picks, pick{version: root.Version.Tag})
		}
		return picks, !isLocked
	}
	for version := range b.world[name] {
		lower := isLocked && semver.MustParse(version).LessThan(semver.MustParse(installed.Version.Tag))
		if version != installed.Version.Tag && (!lower || b.problem.AllowDowngrade) {
			picks = append(picks, pick{version: version})
		}
		if version != installed.Version.Tag {
			picks = append(picks, pick{version: version, untagged: true})
		}
	}
	return picks, !isLocked
}

// each calls yield with every combination that is valid, until it returns false.
func (b *brute) each(yield func(map[string]pick) bool) {
	combination := map[string]pick{}
	var next func(i int) bool
	next = func(i int) bool {
		if i == len(b.names) {
			return b.valid(combination) != "" || yield(combination)
		}
		name := b.names[i]
		picks, mayBeAbsent := b.choices(name)
		if mayBeAbsent && !next(i+1) {
			return false
		}
		for _, p := range picks {
			combination[name] = p
			if !next(i + 1) {
				return false
			}
		}
		delete(combination, name)
		return true
	}
	next(0)
}

func (b *brute) solvable() bool {
	found := false
	b.each(func(map[string]pick) bool { found = true; return false })
	return found
}

// onlyByDigest reports whether all solutions have a package that is chosen by digest.
func (b *brute) onlyByDigest() bool {
	only := true
	b.each(func(c map[string]pick) bool {
		only = slices.ContainsFunc(slices.Collect(maps.Values(c)), func(p pick) bool { return p.untagged })
		return only
	})
	return only
}

// requires returns what a package of a combination requires.
func (b *brute) requires(name string, p pick) []Dependency {
	if r := b.roots[name]; r != nil && r.SkipDependencyResolution {
		return nil
	}
	if p.kept {
		return b.locked[name].Dependencies
	}
	return requires(b.world[name][p.version])
}

// meets reports whether a version meets a constraint.
func meets(name string, p pick, constraint string) bool {
	switch {
	case isDigest(constraint):
		return constraint == digestOf(name, p.version)
	case p.untagged:
		return constraint == "" || constraint == "*"
	case constraint == "":
		constraint = "*"
	}
	c, err := semver.NewConstraint(constraint)
	return err == nil && c.Check(semver.MustParse(p.version))
}

// valid returns what is wrong with a combination, or nothing.
func (b *brute) valid(combination map[string]pick) string {
	demanded, needed := map[string]bool{}, map[string]bool{}
	for name, p := range combination {
		for _, d := range b.requires(name, p) {
			if isDigest(d.Constraint) {
				demanded[d.Constraint] = true
			}
			if wrong := b.unmet(combination, name, p, d); wrong != "" {
				return wrong
			}
			needed[lastSegment(d.Source)] = true
		}
	}
	for name, p := range combination {
		if _, mayBeAbsent := b.choices(name); mayBeAbsent && !needed[name] {
			return name + " is not needed"
		}
		if _, ok := b.world[name][p.version]; !p.kept && (!ok || b.world[name][p.version] == "broken") {
			return name + " cannot be installed"
		}
		if p.untagged && !demanded[digestOf(name, p.version)] {
			return name + " is chosen by a digest that no package requires"
		}
	}
	for name, p := range combination {
		if b.cyclic(combination, name, name, !p.kept, map[string]bool{}) {
			return name + " is in a cycle"
		}
	}
	return ""
}

func (b *brute) unmet(combination map[string]pick, name string, p pick, d Dependency) string {
	to := lastSegment(d.Source)
	got, present := combination[to]
	_, parseErr := parseConstraint(d.Constraint)
	before, installed := b.locked[to]
	broken := p.kept && (parseErr != nil || !installed || !meets(to, pick{version: before.Version.Tag}, d.Constraint))
	stays := installed && got.version == before.Version.Tag && !got.untagged
	switch {
	case broken && (!present && !installed || present && (parseErr != nil || stays)):
		return ""
	case !present, !meets(to, got, d.Constraint):
		return fmt.Sprintf("%s requires %s %s", name, to, d.Constraint)
	}
	return ""
}

// cyclic reports whether a path leads back to a package, with a package on it that changes.
func (b *brute) cyclic(combination map[string]pick, start, at string, changed bool, seen map[string]bool) bool {
	for _, d := range b.requires(at, combination[at]) {
		to := lastSegment(d.Source)
		p, present := combination[to]
		key := fmt.Sprint(to, changed || !p.kept)
		if !present {
			continue
		}
		if to == start {
			if changed {
				return true
			}
			continue
		}
		if !seen[key] {
			seen[key] = true
			if b.cyclic(combination, start, to, changed || !p.kept, seen) {
				return true
			}
		}
	}
	return false
}

// combination returns the packages of a solution.
func (b *brute) combination(s *Solution) map[string]pick {
	combination := map[string]pick{}
	for i := range s.Packages {
		p := &s.Packages[i]
		name := lastSegment(p.Source)
		picked := pick{version: p.Version.Tag}
		if p.Version.Tag == "" {
			picked.untagged = true
			for version := range b.world[name] {
				if digestOf(name, version) == p.Version.Digest {
					picked.version = version
				}
			}
		}
		root := b.roots[name]
		picked.kept = p.Change == ChangeNone && (root == nil || !root.Subject)
		combination[name] = picked
	}
	return combination
}

// better returns the tags that come before the one of a package, in the order of preference.
func (b *brute) better(name string, p pick) []pick {
	picks, _ := b.choices(name)
	installed, isLocked := b.locked[name]
	var better []pick
	for _, other := range picks {
		if other.untagged || p.untagged {
			continue
		}
		if b.preference(name, other, isLocked, installed) < b.preference(name, p, isLocked, installed) {
			better = append(better, other)
		}
	}
	return better
}

// preference is lower for what comes first.
func (b *brute) preference(name string, p pick, isLocked bool, installed Package) int {
	version := int(semver.MustParse(p.version).Major())
	root := b.roots[name]
	switch {
	case p.kept:
		return -1000
	case root != nil && root.Version.Tag == p.version && (!isLocked || root.Pending):
		return -900
	case !isLocked:
		return -version
	}
	distance := version - int(semver.MustParse(installed.Version.Tag).Major())
	if distance < 0 {
		return 1000 - distance
	}
	return distance
}

func (b *brute) String() string {
	var text strings.Builder
	for _, name := range b.names {
		for _, version := range slices.Sorted(maps.Keys(b.world[name])) {
			fmt.Fprintf(&text, "%s %s: %s\n", name, version, b.world[name][version])
		}
	}
	for name, p := range b.locked {
		fmt.Fprintf(&text, "locked %s %s: %v\n", name, p.Version.Tag, p.Dependencies)
	}
	for _, r := range b.problem.Roots {
		fmt.Fprintf(&text, "root %+v\n", r)
	}
	fmt.Fprintf(&text, "downgrade %v, remove %v\n", b.problem.AllowDowngrade, b.problem.Remove)
	return text.String()
}
