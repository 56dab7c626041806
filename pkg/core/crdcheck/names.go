package crdcheck

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A claim is a name in one group that a CRD wants. Plural, singular and short names are of one
// kind, kinds and list kinds of another, as the API server sees it.
type claim struct {
	group string
	kind  bool
	name  string
}

// A claimant is a CRD that has names.
type claimant struct {
	crd     string
	owner   string // "package x"; "" if it only exists
	settled bool   // unchanged, or only existing
}

// clashes finds names in one group that two CRDs have. The API server would not accept the names of
// the second, and would not serve it.
func clashes(deliveries []Delivery, existing []Existing) []Finding {
	claims := map[claim][]claimant{}
	add := func(group string, names *apiextensionsv1.CustomResourceDefinitionNames, by claimant) {
		for _, wanted := range claimsOf(group, names) {
			if !slices.ContainsFunc(claims[wanted], func(other claimant) bool { return other.crd == by.crd }) {
				claims[wanted] = append(claims[wanted], by)
			}
		}
	}
	delivered := map[string]bool{}
	for _, d := range deliveries {
		delivered[d.CRD.Name] = true
		spec := apiextensionsv1.CustomResourceDefinitionSpec{Names: d.CRD.Spec.Names}
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&spec) // singular and listKind
		add(d.CRD.Spec.Group, &spec.Names, claimant{d.CRD.Name, fmt.Sprintf(" of package %s", d.Package), d.Unchanged})
	}
	for i := range existing {
		if e := &existing[i]; !delivered[e.Name] {
			add(e.Group, &e.Names, claimant{crd: e.Name, settled: true})
		}
	}
	return clashing(claims)
}

// clashing returns one finding for each pair of CRDs.
func clashing(claims map[claim][]claimant) []Finding {
	type pair struct{ one, other claimant }
	names := map[pair][]string{}
	for wanted, by := range claims {
		// Deliveries come before CRDs that only exist: among the latter there is nothing to check.
		for _, other := range by[1:] {
			if by[0].owner != "" {
				names[pair{by[0], other}] = append(names[pair{by[0], other}], wanted.name)
			}
		}
	}
	pairs := slices.SortedFunc(maps.Keys(names), func(a, b pair) int {
		return slices.Compare([]string{a.one.crd, a.other.crd}, []string{b.one.crd, b.other.crd})
	})
	var findings []Finding
	for _, p := range pairs {
		slices.Sort(names[p])
		finding := conflict(p.one.crd, "CRD %s%s and CRD %s%s have the same names in one group: %s",
			p.one.crd, p.one.owner, p.other.crd, p.other.owner, list(slices.Compact(names[p])))
		finding.Warning = p.one.settled && p.other.settled
		findings = append(findings, finding)
	}
	return findings
}

func claimsOf(group string, names *apiextensionsv1.CustomResourceDefinitionNames) []claim {
	var claims []claim
	for _, name := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
		claims = append(claims, claim{group: group, name: name})
	}
	for _, name := range []string{names.Kind, names.ListKind} {
		claims = append(claims, claim{group: group, kind: true, name: name})
	}
	return slices.DeleteFunc(claims, func(c claim) bool { return c.name == "" })
}
