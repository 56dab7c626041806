package destination

import (
	"cmp"
	"context"
	"fmt"
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
	case !e.after:
		if len(e.resources) > 0 && e.stored == nil && len(e.crds) == 0 {
			return []Finding{{Text: fmt.Sprintf("it is not known whether there is a CRD %s, which %s needs; no Binding delivers it", name, objects(e.resources, nil))}}, nil
		}
		return nil, nil
	}
	var findings []Finding
	after := crdcheck.Hash(change.After)
	for _, f := range e.crds {
		if f.hash != after {
			findings = append(findings, Finding{pkgv1alpha1.ReasonCRDConflict, fmt.Sprintf(
				"workload definition space %q delivers CRD %s with different content", f.Space, name)})
		}
	}
	schema, err := j.schema(ctx, e)
	return append(findings, schema...), err
}

// leaves checks that nothing needs a CRD that leaves.
func leaves(change *Change, e *seen) []Finding {
	if len(e.crds) > 0 {
		return nil // another space keeps it there
	}
	own := e.resources
	if change.Takes {
		own = nil
	}
	if len(own)+len(e.objects) == 0 {
		return nil
	}
	return []Finding{{pkgv1alpha1.ReasonMissingDependency, fmt.Sprintf("CRD %s would be removed, but %s needs it", change.crd().Name, objects(own, e.objects))}}
}

// named is how many objects a text names.
const named = 3

// objects names objects.
func objects(own []*Object, foreign []Foreign) string {
	var names []string
	for _, o := range own {
		names = append(names, strings.TrimPrefix(o.Ref.Namespace+"/"+o.Ref.Name, "/"))
	}
	for _, f := range foreign {
		names = append(names, fmt.Sprintf("%s of workload definition space %q", strings.TrimPrefix(f.Ref.Namespace+"/"+f.Ref.Name, "/"), f.Space))
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
	checker := t.Checker()
	checker.Applied = true
	if t.NeedsApplied() {
		for _, o := range slices.Concat(e.resources, objectsOf(e.objects)) {
			if err := checker.Object(ctx, o.Content); err != nil {
				return nil, err
			}
		}
	}
	var findings []Finding
	if e.held {
		findings = storedHere(j.in.Changes[e.change].After, e.stored)
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
	key := fmt.Sprintf("%d %t %t %t %q", e.change, e.before, e.held, e.stored == nil, e.stored)
	if t := j.transitions[key]; t != nil {
		return t
	}
	before := change.Before
	switch {
	case !e.before || e.held:
		before = nil
	case e.stored != nil && before != nil:
		before = before.DeepCopy()
		before.Status.StoredVersions = e.stored
	}
	t := crdcheck.NewTransition(ctx, before, change.After)
	j.transitions[key] = t
	return t
}
