package crdcheck_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

// What crdify finds, Compare must report as a change: at the same place, or above it if the place
// above was removed or has another type. These differences are deliberate:
//
//   - crdify reports descriptions, titles, examples and the words of rules. Compare does not.
//   - crdify compares all served versions with each other, in the order of their names. Compare
//     compares the served versions with those in which objects are stored: no object is converted
//     from another one.
//   - crdify reports a version pair if the pair is new or differs in other words than before.
//     Compare leaves out what the comparison of the version with itself reports at the same place.
//   - crdify reports a removed field for the branches of allOf, anyOf, oneOf and not. Compare
//     reports that the logic of the field changed.
//   - crdify knows nothing of implicit fields, and of fields that are kept as unknown ones. Compare
//     reports these as changes that are not breaking.
type oracle struct {
	run *runner.Runner
}

func newOracle(t *testing.T) oracle {
	t.Helper()
	run, err := runner.New(&config.Config{
		Validations:          []config.ValidationConfig{{Name: "description", Enforcement: config.EnforcementPolicyNone}},
		UnhandledEnforcement: config.EnforcementPolicyError,
	}, runner.DefaultRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return oracle{run}
}

// A complaint is one finding of crdify.
type complaint struct {
	version, path, text string
}

// complaints returns what crdify finds in the CRD as a whole and in its versions.
func (o oracle) complaints(before, after *crdType) []complaint {
	results := o.run.Run(before, after)
	var all []complaint
	for _, result := range results.CRDValidation {
		for _, text := range result.Errors {
			version, path := "", ""
			if result.Name == "existingFieldRemoval" {
				_, removed, _ := strings.Cut(text, "removed field : ")
				version, path, _ = strings.Cut(removed, ".")
			}
			all = append(all, complaint{version, ours(path), result.Name + ": " + text})
		}
	}
	for _, version := range results.SameVersionValidation {
		for _, property := range version.PropertyComparisons {
			for _, result := range property.ComparisonResults {
				for _, text := range result.Errors {
					all = append(all, complaint{version.Version, ours(property.Property), result.Name + ": " + text})
				}
			}
		}
	}
	return all
}

var branches = regexp.MustCompile(`\.(allOf\[\d+\]|anyOf\[\d+\]|oneOf\[\d+\]|not)(\..*)?$`)

// ours returns a path of crdify as Compare writes it. A branch of logic belongs to its field.
func ours(path string) string {
	path = branches.ReplaceAllString(path, "")
	path = strings.ReplaceAll(path, ".items", "[*]")
	path = strings.ReplaceAll(path, ".additionalProperties", "[*]")
	return strings.TrimPrefix(strings.TrimPrefix(path, "^"), ".")
}

const eachElement = "[*]"

// explained reports whether one of the changes covers what crdify says.
func explained(c complaint, changes []crdcheck.Change) bool {
	return slices.ContainsFunc(changes, func(change crdcheck.Change) bool {
		switch {
		case strings.HasPrefix(c.text, "scope:"):
			return change.Kind == crdcheck.ScopeChanged
		case strings.HasPrefix(c.text, "storedVersionRemoval:"):
			return change.Kind == crdcheck.StoredVersionRemoved && strings.Contains(c.text, change.Version)
		case change.Version != c.version || change.Stored != "":
			return false
		case change.Path == c.path:
			return true
		// crdify reports "required" for the parent.
		case strings.HasPrefix(c.text, "required:"):
			return strings.HasPrefix(change.Path, c.path) && change.Facet == "required"
		// It reports the schema of a map's values for the map, too.
		case strings.HasPrefix(c.text, "unhandled:") && strings.HasPrefix(change.Path, c.path+eachElement):
			return true
		default:
			below := strings.HasPrefix(c.path, change.Path+".") || strings.HasPrefix(c.path, change.Path+"[")
			return below && slices.Contains([]crdcheck.Kind{
				crdcheck.FieldRemoved, crdcheck.TypeChanged, crdcheck.AdditionalPropertiesRestricted, crdcheck.Loosened,
			}, change.Kind)
		}
	})
}

func TestOracleTable(t *testing.T) {
	o := newOracle(t)
	base := newCRD(t, "v1", spec("a: {type: string}"))
	two := installed(newCRD(t, "v1", spec("a: {type: string}"), "v2", spec("a: {type: string}")), "v1", "v2")
	cluster := base.DeepCopy()
	cluster.Spec.Scope = apiextensionsv1.ClusterScoped
	changed := func(before, after string) [2]*crdType {
		return [2]*crdType{newCRD(t, "v1", spec(before)), newCRD(t, "v1", spec(after))}
	}
	for name, pair := range map[string][2]*crdType{
		"Scope":         {base, cluster},
		"StoredVersion": {two, newCRD(t, "v2", spec("a: {type: string}"))},
		"FieldRemoved":  changed("a: {type: string}, b: {type: object, properties: {c: {type: string}}}", "a: {type: string}"),
		"Required":      changed("o: {type: object, properties: {a: {type: string}}}", "o: {type: object, required: [a], properties: {a: {type: string}}}"),
		"NewRequired":   changed("o: {type: object, properties: {}}", "o: {type: object, required: [a], properties: {a: {type: string}}}"),
		"Default":       changed("a: {type: string}", "a: {type: string, default: x}"),
		"DefaultGone":   changed("a: {type: string, default: x}", "a: {type: string}"),
		"Nullable":      changed("a: {type: string, nullable: true}", "a: {type: string}"),
		"Enum":          changed("a: {type: string, enum: [x, z]}", "a: {type: string, enum: [x]}"),
		"EnumAdded":     changed("a: {type: string}", "a: {type: string, enum: [x]}"),
		"Pattern":       changed("a: {type: string, pattern: a}", "a: {type: string, pattern: b}"),
		"Type":          changed("a: {type: string}", "a: {type: integer}"),
		"MaxLength":     changed("a: {type: string}", "a: {type: string, maxLength: 3}"),
		"ListType":      changed("a: {type: array, items: {type: string}}", "a: {type: array, x-kubernetes-list-type: set, items: {type: string}}"),
		"Items":         changed("a: {type: array, items: {type: string}}", "a: {type: array, items: {type: string, minLength: 3}}"),
		"Map":           changed("a: {type: object, additionalProperties: {type: string}}", "a: {type: object, additionalProperties: {type: integer}}"),
		"Rule":          changed("a: {type: string}", "a: {type: string, x-kubernetes-validations: [{rule: self != 'x'}]}"),
		"Unknown":       changed("a: {type: object, x-kubernetes-preserve-unknown-fields: true}", "a: {type: object}"),
		"Logic":         changed("a: {type: string, anyOf: [{pattern: a}, {pattern: b}]}", "a: {type: string, anyOf: [{pattern: a}]}"),
	} {
		t.Run(name, func(t *testing.T) {
			complaints, changes := o.complaints(pair[0], pair[1]), crdcheck.Compare(pair[0], pair[1])
			if len(complaints) == 0 {
				t.Error("crdify finds nothing")
			}
			for _, c := range complaints {
				if !explained(c, changes) {
					t.Errorf("crdify finds %+v, we have %+v", c, changes)
				}
			}
		})
	}
}

// TestOracleRandom: what crdify finds in random changes, Compare finds.
func TestOracleRandom(t *testing.T) {
	o := newOracle(t)
	count := 0
	for seed := range uint64(1500) {
		g := newGenerator(seed)
		before := g.root()
		after := &before
		var done []string
		for range 1 + g.IntN(3) {
			if changed, m, at, ok := g.mutate(after); ok && m.name != "describe" {
				after = changed
				done = append(done, m.name+" at "+at)
			}
		}
		oldCRD, newCRD := withSchema(t, before), withSchema(t, *after)
		changes := crdcheck.Compare(oldCRD, newCRD)
		for _, c := range o.complaints(oldCRD, newCRD) {
			count++
			if !explained(c, changes) {
				t.Errorf("seed %d: %v: crdify finds %+v, we have %+v", seed, done, c, changes)
			}
		}
	}
	if count < 1000 {
		t.Errorf("crdify found only %d changes", count)
	}
}

// TestOracleVersions: what crdify finds between the stored version and another one that is served
// is found, too. Its pairs begin with the older version.
func TestOracleVersions(t *testing.T) {
	o := newOracle(t)
	count := 0
	for seed := range uint64(800) {
		g := newGenerator(seed)
		stored := g.root()
		other := &stored
		for range 1 + g.IntN(3) {
			if changed, m, _, ok := g.mutate(other); ok && m.name != "describe" {
				other = changed
			}
		}
		// v1 is stored; v2 is new and served as well.
		before := installed(withSchema(t, stored), "v1")
		after := withSchema(t, stored)
		after.Spec.Versions = append(after.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: "v2", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: other},
		})
		changes := crdcheck.Compare(before, after)
		for i := range changes {
			if changes[i].Stored == "v1" {
				changes[i].Stored = ""
			}
		}
		// What is not breaking from v1 to v2 breaks no object, and is not reported for a new
		// version.
		alone := withSchema(t, *other)
		changes = append(changes, notBreaking(crdcheck.Compare(withSchema(t, stored), alone))...)
		for _, version := range o.run.Run(before, after).ServedVersionValidation {
			if version.Version != "v1 -> v2" {
				t.Fatalf("pair %s", version.Version)
			}
			for _, property := range version.PropertyComparisons {
				for _, result := range property.ComparisonResults {
					for _, text := range result.Errors {
						count++
						c := complaint{"v2", ours(property.Property), fmt.Sprintf("%s: %s", result.Name, text)}
						if !explained(c, changes) {
							t.Errorf("seed %d: crdify finds %+v, we have %+v", seed, c, changes)
						}
					}
				}
			}
		}
	}
	if count < 300 {
		t.Errorf("crdify found only %d differences", count)
	}
}

func notBreaking(changes []crdcheck.Change) []crdcheck.Change {
	changes = slices.DeleteFunc(changes, func(change crdcheck.Change) bool { return change.Breaking })
	for i := range changes {
		changes[i].Version = "v2"
	}
	return changes
}
