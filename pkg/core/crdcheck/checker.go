package crdcheck

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/starlinghq/starling/pkg/core/text"
)

// A Checker collects what the existing objects of one CRD violate. It keeps no objects.
type Checker struct {
	// Applied is set if the objects are what is applied to a cluster, and not what was read from
	// it: their own version must be served, and all of them are checked, also for a new CRD.
	Applied bool

	transition *Transition
	broken     map[breach]*Objects
}

// A breach is what one or more objects violate in the same way.
type breach struct {
	version, path string
	kind          violationKind
	detail        string
	inStatus      bool // a field of the status is lost; its controller writes it again
}

// Checker returns a new Checker.
func (t *Transition) Checker() *Checker {
	return &Checker{transition: t, broken: map[breach]*Objects{}}
}

// Clone returns a Checker that has found the same. Objects that are given to one of them do not
// count for the other.
func (c *Checker) Clone() *Checker {
	clone := &Checker{Applied: c.Applied, transition: c.transition, broken: make(map[breach]*Objects, len(c.broken))}
	for b, objects := range c.broken {
		clone.broken[b] = &Objects{Names: slices.Clone(objects.Names), Count: objects.Count}
	}
	return clone
}

// Object checks one object. It does not change the object. An error means that a schema cannot be
// compiled, which the API server would not have accepted either.
func (c *Checker) Object(ctx context.Context, object map[string]any) error {
	apiVersion, _ := object["apiVersion"].(string)
	group, version, _ := strings.Cut(apiVersion, "/")
	if c.Applied && !slices.Contains(servedVersions(c.transition.after), version) {
		c.add(breach{version: version, kind: lostVersion}, object)
		return nil
	}
	breaches := map[breach]bool{} // a list can have the same one at each item
	for _, name := range c.versionsFor(version) {
		after, err := c.transition.newSchemas.get(name)
		if err != nil || after == nil {
			return err
		}
		before, err := c.transition.oldSchemas.get(c.baseline(name, version))
		if err != nil {
			return err
		}
		for _, violation := range blame(ctx, before, after, as(object, group+"/"+name)) {
			breaches[c.breachOf(after, name, violation, object)] = true
		}
	}
	for b := range breaches {
		c.add(b, object)
	}
	return nil
}

const (
	// lostVersion is the violation of an applied object whose version is not served any more.
	lostVersion violationKind = "version"
	// others counts what exceeds breachLimit. Words of a rule can differ for each object.
	others violationKind = "others"
)

const breachLimit = 100

// versionsFor returns the versions whose schemas an object of one version must satisfy. Without
// conversion these are all versions, as any of them can be read and written.
func (c *Checker) versionsFor(version string) []string {
	t := c.transition
	switch {
	case t.before == nil:
		return []string{version}
	case convertsNothing(&t.after.Spec):
		return t.versions
	case slices.Contains(t.versions, version):
		return []string{version}
	default:
		return nil
	}
}

// baseline returns the version whose old schema an object satisfied so far. An object that was read
// in one version did so in all others only if nothing was converted.
func (c *Checker) baseline(wanted, read string) string {
	t := c.transition
	if t.before != nil && versionOf(&t.before.Spec, wanted) != nil && convertsNothing(&t.before.Spec) {
		return wanted
	}
	return read
}

// blame returns what the object violates under the new schema and not under the old one, which is
// nil if there is none. It does not change the object.
func blame(ctx context.Context, before, after *validator, object map[string]any) []violation {
	found := after.validate(ctx, runtime.DeepCopyJSON(object))
	if len(found) == 0 || before == nil {
		return found
	}
	known := map[string]bool{}
	for _, old := range before.validate(ctx, runtime.DeepCopyJSON(object)) {
		known[old.same] = true
	}
	return slices.DeleteFunc(found, func(violation violation) bool { return known[violation.same] })
}

// as returns an object in another version. It shares all else.
func as(object map[string]any, apiVersion string) map[string]any {
	out := maps.Clone(object)
	out["apiVersion"] = apiVersion
	return out
}

func (c *Checker) breachOf(after *validator, version string, violation violation, object map[string]any) breach {
	b := breach{
		version: version, kind: violation.kind, detail: violation.detail,
		path: locate(after.schema, object, violation.object).String(),
	}
	if b.kind == lost {
		definition := versionOf(&c.transition.after.Spec, version)
		b.inStatus = (b.path == "status" || strings.HasPrefix(b.path, "status.")) && definition.Subresources != nil && definition.Subresources.Status != nil
	}
	return b
}

func (c *Checker) add(b breach, object map[string]any) {
	if c.broken[b] == nil && len(c.broken) >= breachLimit {
		b = breach{version: b.version, kind: others}
	}
	if c.broken[b] == nil {
		c.broken[b] = &Objects{}
	}
	c.broken[b].add(nameOf(object))
}

func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Findings returns what the API server refuses, what the objects that were given violate, and what
// else is breaking, as a warning. If the user accepts breaking changes of this CRD, only what the
// API server refuses is an error.
func (c *Checker) Findings(accepted bool) []Finding {
	t := c.transition
	findings := slices.Clone(t.Refusals)
	said := map[[2]string]bool{} // version and path of what is in the findings
	for _, finding := range findings {
		said[[2]string{"", finding.Path}] = true
	}
	for _, b := range slices.SortedFunc(maps.Keys(c.broken), compareBreaches) {
		findings = append(findings, Finding{
			Reason: SchemaIncompatible, Warning: accepted || b.inStatus, CRD: t.CRD, Version: b.version, Path: b.path,
			What: c.describe(b), Objects: *c.broken[b],
		})
		said[[2]string{b.version, b.path}] = true
		if list, isItem := strings.CutSuffix(b.path, eachElement); isItem {
			said[[2]string{b.version, list}] = true // the items of a set
		}
	}
	for i := range t.Changes {
		change := &t.Changes[i]
		if !change.Breaking || change.Kind == StoredVersionRemoved || said[[2]string{change.Version, change.Path}] {
			continue
		}
		findings = append(findings, Finding{
			Reason: SchemaIncompatible, Warning: true, CRD: t.CRD, Version: change.Version, Path: change.Path, What: change.Describe(),
		})
	}
	return findings
}

func compareBreaches(a, b breach) int {
	return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.path, b.path), cmp.Compare(a.kind, b.kind), cmp.Compare(a.detail, b.detail))
}

// describe prefers the change that caused a breach to the words of the API server.
func (c *Checker) describe(b breach) string {
	for i := range c.transition.Changes {
		change := &c.transition.Changes[i]
		if change.Breaking && change.Version == b.version && change.Path == b.path && slices.Contains(causes[b.kind], change.Kind) {
			return change.Describe()
		}
	}
	switch b.kind {
	case lost:
		return place(b.path) + " is not in the schema and would be lost"
	case required:
		return place(b.path) + " is required"
	case lostVersion:
		return "is not served any more"
	case others:
		return "other violations"
	default:
		return place(b.path) + ": " + text.OneLine(b.detail)
	}
}

// causes are the changes that lead to a kind of violation at the same path. A rule names itself,
// and the words of the API server are better for limits, of which there can be more than one.
var causes = map[violationKind][]Kind{
	lost:     {FieldRemoved},
	required: {RequiredAdded, NewRequiredField},
	badType:  {TypeChanged, NullableRemoved},
	badEnum:  {EnumRestricted},
}
