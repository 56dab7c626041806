package resolve

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// world is what registries have: for each repository its versions, and for each version what it
// requires, as "a >=v1; b". A repository without versions is not found.
type world map[string]map[string]string

func repo(name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return "reg.example.org/packages/" + name
}

// digestOf returns the digest of a package of the world.
func digestOf(name, version string) string {
	sum := sha256.Sum256([]byte(name + "@" + version))
	return digestPrefix + hex.EncodeToString(sum[:])
}

// requires parses "a >=v1; b". "#v1" is the digest of that version.
func requires(text string) []Dependency {
	var dependencies []Dependency
	for part := range strings.SplitSeq(text, ";") {
		name, constraint, _ := strings.Cut(strings.TrimSpace(part), " ")
		if name == "" {
			continue
		}
		if version, ok := strings.CutPrefix(constraint, "#"); ok {
			constraint = digestOf(name, version)
		}
		dependencies = append(dependencies, Dependency{Source: repo(name), Kind: "Provider", Constraint: constraint})
	}
	return dependencies
}

// answer adds what the world knows of a need. A text "crossplane RANGE" is no dependency, and
// "broken" is a package that cannot be read.
func (w world) answer(k *Knowledge, need Need) {
	name := lastSegment(need.Source)
	versions, ok := w[name]
	if !ok {
		k.AddNotFound(need)
		return
	}
	if need.Version == "" {
		k.AddTags(need.Source, slices.Collect(maps.Keys(versions)))
		return
	}
	for version, text := range versions {
		if need.Version != version && need.Version != digestOf(name, version) {
			continue
		}
		if text == "broken" {
			k.AddInvalid(need.Source, need.Version, "no package.yaml")
			return
		}
		m := Manifest{Digest: digestOf(name, version), Kind: "Provider"}
		for _, d := range requires(text) {
			if d.Source == repo("crossplane") {
				m.Crossplane = d.Constraint
				continue
			}
			m.Dependencies = append(m.Dependencies, d)
		}
		k.AddManifest(need.Source, need.Version, m)
		return
	}
	k.AddNotFound(need)
}

// outcome is what a loop of Resolve calls came to.
type outcome struct {
	solution *Solution
	err      error
	rounds   int
	asked    []Need
}

// resolveAll calls Resolve as a controller does: until nothing is needed.
func resolveAll(tb testing.TB, w world, p Problem) outcome {
	tb.Helper()
	return resolveWith(tb, w, p, &Knowledge{})
}

func resolveWith(tb testing.TB, w world, p Problem, k *Knowledge) outcome {
	tb.Helper()
	var o outcome
	seen := map[Need]bool{}
	for {
		result, err := Resolve(&p, k)
		if err != nil || result.Solution != nil {
			if len(result.Needs) > 0 {
				tb.Fatalf("Resolve() = %+v, %v: needs beside a result", result, err)
			}
			o.solution, o.err = result.Solution, err
			return o
		}
		if len(result.Needs) == 0 {
			tb.Fatal("Resolve() returned nothing")
		}
		o.rounds++
		for _, need := range result.Needs {
			if seen[need] {
				tb.Fatalf("Resolve() asks for %v again", need)
			}
			seen[need] = true
			o.asked = append(o.asked, need)
			w.answer(k, need)
		}
	}
}

// versions returns the versions of a solution, as "a v1.0.0".
func (o *outcome) versions() []string {
	if o.solution == nil {
		return nil
	}
	var versions []string
	for i := range o.solution.Packages {
		p := &o.solution.Packages[i]
		versions = append(versions, strings.TrimSpace(lastSegment(p.Source)+" "+p.Version.short()+" "+string(p.Change)))
	}
	return versions
}

// reason returns the reason of the conflict, or the error that is none.
func (o *outcome) reason() string {
	var conflict *Conflict
	switch {
	case o.err == nil:
		return ""
	case errors.As(o.err, &conflict):
		return conflict.Reason
	default:
		return o.err.Error()
	}
}

// locked returns an installed package of the world.
func (w world) locked(names ...string) []Package {
	var packages []Package
	for _, text := range names {
		name, version, _ := strings.Cut(text, " ")
		packages = append(packages, Package{
			Name: name + "-revision", APIVersion: "pkg.crossplane.io/v1", Kind: "Provider", Source: repo(name),
			Version: Version{Tag: version, Digest: digestOf(name, version)}, Dependencies: requires(w[name][version]),
		})
	}
	return packages
}

// roots parses "a v1.0.0", with the marks "subject", "pending", "skip" and "ignore".
func roots(texts ...string) []Root {
	var list []Root
	for _, text := range texts {
		fields := strings.Fields(text)
		r := Root{Name: fields[0], Kind: "Provider", APIVersion: "pkg.crossplane.io/v1", Source: repo(fields[0])}
		for _, f := range fields[1:] {
			switch f {
			case "subject":
				r.Subject, r.Pending = true, true
			case "pending":
				r.Pending = true
			case "skip":
				r.SkipDependencyResolution = true
			case "ignore":
				r.IgnoreCrossplaneConstraints = true
			default:
				r.Version = ParseVersion(f)
			}
		}
		list = append(list, r)
	}
	return list
}
