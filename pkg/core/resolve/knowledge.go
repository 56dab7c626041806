package resolve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Need names metadata that the solver does not have: the tags of a repository, or the manifest of
// one of its versions.
type Need struct {
	// Source is the repository.
	Source string
	// Version is a tag or a digest. If it is empty, the tags are needed.
	Version string
}

func compareNeeds(a, b Need) int {
	return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Version, b.Version))
}

// Manifest is the metadata of a package at a version.
type Manifest struct {
	// Digest is the digest of the package.
	Digest string
	// APIVersion and Kind are those of a package object for it.
	APIVersion string
	Kind       string
	// Crossplane is the range of versions of Crossplane that the package requires, or empty.
	Crossplane string
	// Dependencies are the packages that it requires.
	Dependencies []Dependency
}

// Knowledge is what is known of registries. It distinguishes what is not found from what is not
// known: a registry that cannot be asked adds nothing. It keeps parsed forms, so one Knowledge is
// cheapest for all calls of a transaction. The zero value is empty and ready for use. It is not
// safe for concurrent use.
type Knowledge struct {
	repositories map[string]*repository
	releases     map[Need]*release
	constraints  map[string]parsedConstraint
	versions     map[string]*semver.Version
}

// repository is what is known of the tags of a repository.
type repository struct {
	found bool
	// tags are the full semantic versions, ascending.
	tags []tag
}

type tag struct {
	name    string
	version *semver.Version
}

// release is what is known of a package at a version.
type release struct {
	Manifest
	// found is not set if the registry does not have the version.
	found bool
	// wrong is set if the package is not usable, and says why.
	wrong      string
	crossplane *constraint
	requires   []requirement
}

// requirement is a dependency with its parsed constraint.
type requirement struct {
	Dependency
	constraint *constraint
	// wrong is set if the dependency is not usable, and says why.
	wrong string
}

type parsedConstraint struct {
	constraint *constraint
	err        error
}

// AddTags records the tags of a repository. Tags that are no full semantic versions are dropped.
func (k *Knowledge) AddTags(source string, names []string) {
	r := &repository{found: true}
	for _, name := range names {
		if version := fullVersion(name); version != nil {
			r.tags = append(r.tags, tag{name: name, version: version})
		}
	}
	slices.SortFunc(r.tags, func(a, b tag) int { return compareTags(a.version, b.version, a.name, b.name) })
	r.tags = slices.CompactFunc(r.tags, func(a, b tag) bool { return a.name == b.name })
	k.addRepository(source, r)
}

// AddManifest records the manifest of a version of a package. Version is the tag or the digest that
// was asked for.
func (k *Knowledge) AddManifest(source, version string, m Manifest) {
	r := &release{Manifest: m, found: true, requires: k.requirements(m.Dependencies)}
	if m.Crossplane != "" {
		c, err := k.constraint(m.Crossplane)
		if err != nil {
			r.wrong = "its Crossplane version is invalid: " + err.Error()
		}
		r.crossplane = c
	}
	k.addRelease(Need{Source: source, Version: version}, r)
	if m.Digest != "" {
		k.addRelease(Need{Source: source, Version: m.Digest}, r)
	}
}

// AddInvalid records that the registry has the version, and that it is not a usable package.
func (k *Knowledge) AddInvalid(source, version, why string) {
	k.addRelease(Need{Source: source, Version: version}, &release{found: true, wrong: why})
}

// AddNotFound records that the registry answered that it has no such repository or version.
func (k *Knowledge) AddNotFound(need Need) {
	if need.Version == "" {
		k.addRepository(need.Source, &repository{})
		return
	}
	k.addRelease(need, &release{})
}

func (k *Knowledge) addRepository(source string, r *repository) {
	if k.repositories == nil {
		k.repositories = map[string]*repository{}
	}
	k.repositories[source] = r
}

func (k *Knowledge) addRelease(need Need, r *release) {
	if k.releases == nil {
		k.releases = map[Need]*release{}
	}
	k.releases[need] = r
}

// requirements parses dependencies and orders them by source, so that their order in a package does
// not matter.
func (k *Knowledge) requirements(dependencies []Dependency) []requirement {
	parsed := make([]requirement, 0, len(dependencies))
	for _, d := range dependencies {
		r := requirement{Dependency: d}
		c, err := k.constraint(d.Constraint)
		if err != nil {
			r.wrong = err.Error()
		}
		if err := checkSource(d.Source); err != nil {
			r.wrong = err.Error()
		}
		r.constraint = c
		parsed = append(parsed, r)
	}
	slices.SortStableFunc(parsed, func(a, b requirement) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Constraint, b.Constraint))
	})
	return parsed
}

// constraint parses a constraint once.
func (k *Knowledge) constraint(text string) (*constraint, error) {
	parsed, ok := k.constraints[text]
	if !ok {
		parsed.constraint, parsed.err = parseConstraint(text)
		if k.constraints == nil {
			k.constraints = map[string]parsedConstraint{}
		}
		k.constraints[text] = parsed
	}
	return parsed.constraint, parsed.err
}

// pinned parses a tag that a user or a Lock names once, so that it is compared once.
func (k *Knowledge) pinned(tag string) *semver.Version {
	version, ok := k.versions[tag]
	if !ok {
		version = pinnedVersion(tag)
		if k.versions == nil {
			k.versions = map[string]*semver.Version{}
		}
		k.versions[tag] = version
	}
	return version
}
