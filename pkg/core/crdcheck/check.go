package crdcheck

import (
	"context"
	"fmt"
	"iter"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Accepted returns the names of the CRDs that the value of the annotation lists, separated by
// commas.
func Accepted(annotation string) map[string]bool {
	accepted := map[string]bool{}
	for _, name := range strings.FieldsFunc(annotation, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		accepted[name] = true
	}
	return accepted
}

// An Update is a CRD that is created or that may change.
type Update struct {
	Old *apiextensionsv1.CustomResourceDefinition // nil if it is created
	New *apiextensionsv1.CustomResourceDefinition
}

// An Input is all that Check decides by.
type Input struct {
	// Deliveries are the CRDs of all packages of the proposal, Existing those of the cluster, and
	// MayTake is what Conflicts wants.
	Deliveries []Delivery
	Existing   []Existing
	MayTake    func(Package, Owner) bool
	// Updates are the CRDs of the proposal that are new or differ from those of the cluster. Equal
	// ones do no harm: they are skipped.
	Updates []Update
	// Objects returns all objects of a CRD in one version. It is called for CRDs with breaking
	// changes only. An error ends Check.
	Objects func(ctx context.Context, crd, version string) iter.Seq2[map[string]any, error]
	// Accepted are the CRDs whose breaking changes the user accepts.
	Accepted map[string]bool
}

// Check makes all checks of a transaction.
func Check(ctx context.Context, in *Input) (Report, error) {
	report := Report{Findings: Conflicts(in.Deliveries, in.Existing, in.MayTake)}
	for _, update := range in.Updates {
		transition := NewTransition(ctx, update.Old, update.New)
		checker := transition.Checker()
		for _, version := range transition.ReadVersions() {
			for object, err := range in.Objects(ctx, transition.CRD, version) {
				if err == nil {
					err = checker.Object(ctx, object)
				}
				if err != nil {
					return Report{}, fmt.Errorf("check objects of CustomResourceDefinition %q: %w", transition.CRD, err)
				}
			}
		}
		report.Findings = append(report.Findings, checker.Findings(in.Accepted[transition.CRD])...)
	}
	return report, nil
}
