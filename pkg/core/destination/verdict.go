package destination

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Finding is one thing that speaks against a change at a destination.
type Finding struct {
	// Reason is a reason of the condition Validated=False; "" if it is a warning.
	Reason string
	// Text says what is wrong, and for which objects. It does not name the cluster.
	Text string
}

// reasons is the order in which reasons are reported.
var reasons = []string{
	pkgv1alpha1.ReasonMissingDependency, pkgv1alpha1.ReasonVersionConflict, pkgv1alpha1.ReasonCRDConflict, pkgv1alpha1.ReasonSchemaIncompatible,
}

func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(slices.Index(reasons, a.Reason), slices.Index(reasons, b.Reason)), strings.Compare(a.Text, b.Text))
}

// judge validates situations.
type judge struct {
	in          *Input
	transitions map[string]*crdcheck.Transition
	// checked has what objects violate that all clusters get alike.
	checked map[checked]*crdcheck.Checker
	// validated counts the situations.
	validated int
}

// verdict returns the findings on one situation, errors first.
func (j *judge) verdict(ctx context.Context, s *situation) ([]Finding, error) {
	j.validated++
	var findings []Finding
	for i := range s.effects {
		e := &s.effects[i]
		found, err := j.effect(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("check CustomResourceDefinition %q: %w", j.in.Changes[e.change].crd().Name, err)
		}
		findings = append(findings, found...)
	}
	for _, d := range s.demands {
		version := resolve.ParseVersion(j.in.Packages[d.source].Version)
		if _, err := semver.NewVersion(version.Tag); err != nil && !strings.HasPrefix(d.constraint, "sha256:") {
			continue // whether it is in a range is not known
		}
		if fits, err := resolve.Fits(d.constraint, version); err == nil && !fits {
			findings = append(findings, Finding{pkgv1alpha1.ReasonVersionConflict, fmt.Sprintf(
				"package %s of another workload definition space requires %s %s, not %s", d.by, d.source, d.constraint, version)})
		}
	}
	for _, source := range s.ranges {
		findings = append(findings, kubernetes(source, j.in.Packages[source].Kubernetes, s.kubernetes)...)
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(warns(a), warns(b)), compareFindings(a, b))
	})
	return slices.Compact(findings), nil
}

func warns(f Finding) int {
	if f.Reason == "" {
		return 1
	}
	return 0
}

// kubernetes checks the range that a package states.
func kubernetes(source, supported, version string) []Finding {
	constraint, err := semver.NewConstraint(supported)
	if err != nil {
		return []Finding{{pkgv1alpha1.ReasonVersionConflict, fmt.Sprintf("package %s states the range of Kubernetes versions %q, which is not one", source, supported)}}
	}
	parsed, err := semver.NewVersion(version)
	if err != nil {
		return []Finding{{Text: fmt.Sprintf("package %s requires Kubernetes %s; the version of the cluster is not known", source, supported)}}
	}
	if parsed, err := parsed.SetPrerelease(""); err != nil || !constraint.Check(&parsed) { // "v1.31.2-gke.1" is 1.31.2
		return []Finding{{pkgv1alpha1.ReasonVersionConflict, fmt.Sprintf("package %s requires Kubernetes %s, not %s", source, supported, version)}}
	}
	return nil
}

// effect checks what one Change does.
func (j *judge) effect(ctx context.Context, e *seen) ([]Finding, error) {
	change := &j.in.Changes[e.change]
	name := change.crd().Name
	switch {
	case e.before && !e.after:
		return leaves(change, e), nil
	case e.kept != "":
		return []Finding{{Text: fmt.Sprintf("CRD %s is not delivered, and what was delivered of it stays: %s", name, e.kept)}}, nil
	case !e.after:
		if len(e.resources) > 0 && e.stored == nil && len(e.crds) == 0 {
			return []Finding{{Text: fmt.Sprintf("it is not known whether there is a CRD %s, which %s needs; no Binding delivers it", name, objects(e.resources, nil))}}, nil
		}
		return nil, nil
	}
	var findings []Finding
	after := crdcheck.Hash(e.gets)
	for i := range e.crds {
		if f := &e.crds[i]; f.hash != after {
			findings = append(findings, Finding{pkgv1alpha1.ReasonCRDConflict, fmt.Sprintf(
				"%s delivers CRD %s with different content", f.by(), name)})
		}
	}
	schema, err := j.schema(ctx, e)
	return append(findings, schema...), err
}

// leaves checks that nothing needs a CRD that leaves, and says what becomes of it.
func leaves(change *Change, e *seen) []Finding {
	if len(e.crds) > 0 {
		return nil // another space, or Binding, keeps it there
	}
	name := change.crd().Name
	own := e.resources
	if change.Takes {
		own = nil
	}
	if len(own)+len(e.objects) > 0 {
		return []Finding{{pkgv1alpha1.ReasonMissingDependency, fmt.Sprintf("CRD %s would be removed, but %s %s it", name, objects(own, e.objects), text.Plural(len(own)+len(e.objects), "needs", "need"))}}
	}
	known := "whether there are such is not known"
	if e.stored == nil {
		known = "the CRD has not been reported from there"
	}
	becomes := "is deleted there, also with objects that no Binding delivers"
	if e.stays {
		becomes = "stays there, also with objects that no Binding delivers"
	}
	return []Finding{{Text: fmt.Sprintf("CRD %s %s; %s", name, becomes, known)}}
}

// named is how many objects a text names.
const named = 3

// objects names objects.
func objects(own []*Object, foreign []Foreign) string {
	var names []string
	for _, o := range own {
		names = append(names, strings.TrimPrefix(o.Ref.Namespace+"/"+o.Ref.Name, "/"))
	}
	for i := range foreign {
		f := &foreign[i]
		names = append(names, strings.TrimPrefix(f.Ref.Namespace+"/"+f.Ref.Name, "/")+" of "+f.by())
	}
	slices.Sort(names)
	ref := append(slices.Clone(own), objectsOf(foreign)...)[0].Ref
	return fmt.Sprintf("%s of %s (%s)", text.Count(len(names), "object"), nameOf(ref), text.List(names, named))
}

func objectsOf(foreign []Foreign) []*Object {
	all := make([]*Object, 0, len(foreign))
	for _, f := range foreign {
		all = append(all, f.Object)
	}
	return all
}

// schema checks the new schema against what the cluster stores, and against all custom resources
// that are bound there.
func (j *judge) schema(ctx context.Context, e *seen) ([]Finding, error) {
	t := j.transition(ctx, e)
	checker, err := j.check(ctx, t, e)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	if t.NeedsApplied() {
		findings = undelivered(slices.Concat(e.alike.objects, e.rendered))
	}
	if e.held {
		findings = append(findings, storedHere(e.gets, e.stored)...)
	}
	unknown := e.before && e.stored == nil
	for _, f := range checker.Findings(j.in.Accepted[t.CRD]) {
		switch {
		case f.Warning: // the space itself warns of it
		case f.Hard && unknown: // the space itself refuses what does not depend on the cluster
			findings = append(findings, Finding{Text: f.String() + "; which versions the cluster stores is not known"})
		default:
			findings = append(findings, Finding{string(f.Reason), f.String()})
		}
	}
	return findings, nil
}

// checked identifies objects that are checked against a change of a schema.
type checked struct {
	*crdcheck.Transition
	*alike
}

// check returns what objects violate at a cluster.
func (j *judge) check(ctx context.Context, t *crdcheck.Transition, e *seen) (*crdcheck.Checker, error) {
	key := checked{t, e.alike}
	shared := j.checked[key]
	if shared == nil {
		shared = t.Checker()
		shared.Applied = true
		if err := apply(ctx, shared, t, e.alike.objects); err != nil {
			return nil, err
		}
		j.checked[key] = shared
	}
	if len(e.rendered)+len(e.objects) == 0 {
		return shared, nil
	}
	checker := shared.Clone()
	return checker, apply(ctx, checker, t, slices.Concat(e.rendered, objectsOf(e.objects)))
}

func apply(ctx context.Context, checker *crdcheck.Checker, t *crdcheck.Transition, objects []*Object) error {
	if !t.NeedsApplied() {
		return nil
	}
	for _, o := range objects {
		if o.Unknown != "" {
			continue
		}
		if err := checker.Object(ctx, o.Content); err != nil {
			return err
		}
	}
	return nil
}

// undelivered returns which custom resources are not checked, because they are not delivered.
func undelivered(all []*Object) []Finding {
	why := map[string][]*Object{}
	for _, o := range all {
		if o.Unknown != "" {
			why[o.Unknown] = append(why[o.Unknown], o)
		}
	}
	var findings []Finding
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		findings = append(findings, Finding{Text: fmt.Sprintf("%s: not delivered, and what was delivered stays, which is not checked: %s", objects(why[reason], nil), reason)})
	}
	return findings
}

// storedHere checks that a CRD has the versions that a cluster stores, where the CRD that it has is
// not known.
func storedHere(after *CRD, stored []string) []Finding {
	var findings []Finding
	for _, version := range stored {
		if !slices.ContainsFunc(after.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version }) {
			findings = append(findings, Finding{pkgv1alpha1.ReasonSchemaIncompatible, fmt.Sprintf("%s: version %s is removed, but objects may be stored in it", after.Name, version)})
		}
	}
	return findings
}

// transition returns what a Change changes at a cluster. It is the same for all clusters that store
// the same versions.
func (j *judge) transition(ctx context.Context, e *seen) *crdcheck.Transition {
	change := &j.in.Changes[e.change]
	key := fmt.Sprintf("%d %t %t %t %q %q", e.change, e.before, e.held, e.stored == nil, e.stored, e.variant)
	if t := j.transitions[key]; t != nil {
		return t
	}
	before := e.had
	switch {
	case e.held:
		before = nil
	case before != nil:
		before = before.DeepCopy()
		before.Status.StoredVersions = change.Before.Status.StoredVersions // those that the space has
		if e.stored != nil {
			before.Status.StoredVersions = e.stored
		}
	}
	t := crdcheck.NewTransition(ctx, before, e.gets)
	j.transitions[key] = t
	return t
}
