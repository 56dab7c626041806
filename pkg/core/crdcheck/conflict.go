package crdcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Package is the owner of a CRD that is to be installed.
type Package struct {
	Source string // the repository, which is unique
	Name   string // of the Package object
}

func (p Package) String() string {
	if p.Name == "" {
		return p.Source
	}
	return p.Name
}

// An Owner is the controller of an existing object.
type Owner struct {
	Kind string
	Name string
	UID  types.UID
}

// A Delivery is a CRD that a package of the proposal has.
type Delivery struct {
	Package Package
	CRD     *apiextensionsv1.CustomResourceDefinition
	// Unchanged is set if the package had this CRD with the same content before. Names of two
	// unchanged CRDs that clash are a warning: they did so before.
	Unchanged bool
}

// An Existing is a CRD of the cluster, as far as its metadata and its status show.
type Existing struct {
	Name       string
	Group      string
	Names      apiextensionsv1.CustomResourceDefinitionNames // accepted ones
	Controller *Owner                                        // nil if it has none
}

// Unique returns the deliveries without repetitions: a package may have the same CRD twice. It is
// an error if their specs differ; the first is returned.
func Unique(deliveries []Delivery) ([]Delivery, []Finding) {
	type key struct {
		source, name string
	}
	var unique []Delivery
	var findings []Finding
	first := map[key]*apiextensionsv1.CustomResourceDefinition{}
	for _, d := range deliveries {
		id := key{d.Package.Source, d.CRD.Name}
		if known := first[id]; known == nil {
			first[id] = d.CRD
			unique = append(unique, d)
		} else if Hash(known) != Hash(d.CRD) {
			findings = append(findings, conflict(d.CRD.Name, "package %s has two different CRDs named %s", d.Package, d.CRD.Name))
		}
	}
	return unique, findings
}

// Conflicts checks that each CRD has one owner, and that the names of different CRDs differ. The
// deliveries are those of all packages of the proposal, the existing CRDs those of the whole
// cluster.
//
// The predicate mayTake reports whether a package may take a CRD from its controller: the
// controller is a revision of the package, or it releases its objects in this transaction.
func Conflicts(deliveries []Delivery, existing []Existing, mayTake func(Package, Owner) bool) []Finding {
	unique, findings := Unique(deliveries)
	findings = append(findings, sharedCRDs(unique)...)
	findings = append(findings, foreignOwners(unique, existing, mayTake)...)
	return append(findings, clashes(unique, existing)...)
}

func conflict(crd, format string, args ...any) Finding {
	return Finding{Reason: CRDConflict, CRD: crd, What: fmt.Sprintf(format, args...)}
}

// sharedCRDs finds CRDs that two packages deliver.
func sharedCRDs(deliveries []Delivery) []Finding {
	byName := map[string][]Delivery{}
	for _, d := range deliveries {
		byName[d.CRD.Name] = append(byName[d.CRD.Name], d)
	}
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		owners := byName[name]
		if len(owners) < 2 {
			continue
		}
		hash := Hash(owners[0].CRD)
		if slices.ContainsFunc(owners[1:], func(d Delivery) bool { return Hash(d.CRD) != hash }) {
			// The contract fixes this text.
			findings = append(findings, conflict(name, "Multiple packages install incompatible versions of CRD %s", name))
			continue
		}
		var packages []string
		for _, owner := range owners {
			packages = append(packages, owner.Package.String())
		}
		slices.Sort(packages)
		findings = append(findings, conflict(name, "packages %s would all control CRD %s; only one package can", strings.Join(packages, " and "), name))
	}
	return findings
}

// foreignOwners finds CRDs that something else controls, and those that nothing controls.
func foreignOwners(deliveries []Delivery, existing []Existing, mayTake func(Package, Owner) bool) []Finding {
	byName := map[string]*Existing{}
	for i := range existing {
		byName[existing[i].Name] = &existing[i]
	}
	var findings []Finding
	for _, d := range deliveries {
		current := byName[d.CRD.Name]
		switch {
		case current == nil:
		case current.Controller == nil:
			finding := conflict(d.CRD.Name, "CRD %s exists and has no controller; package %s adopts it", d.CRD.Name, d.Package)
			finding.Warning = true
			findings = append(findings, finding)
		case !mayTake(d.Package, *current.Controller):
			findings = append(findings, conflict(d.CRD.Name, "CRD %s of package %s is already controlled by %s %s (UID %s)",
				d.CRD.Name, d.Package, current.Controller.Kind, current.Controller.Name, current.Controller.UID))
		}
	}
	return findings
}
