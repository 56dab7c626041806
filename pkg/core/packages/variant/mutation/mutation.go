package mutation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Input holds all inputs of mutations. It is not changed.
type Input struct {
	Variant *configv1alpha1.PackageVariant
	// Revision is the name of the revision to which Files belong.
	Revision string
	Files    kpt.Files
	Lookup   Lookup
}

// Result is the result of the mutations.
type Result struct {
	Files kpt.Files
	// Content is true if anything other than gates and conditions changed. Changed is true if
	// anything changed.
	Content, Changed bool
}

// ChangedFiles returns the names of the files that are different before the mutations.
func (r *Result) ChangedFiles(before kpt.Files) []string {
	var names []string
	for name, text := range r.Files {
		if text != before[name] {
			names = append(names, name)
		}
	}
	return names
}

// Apply applies the mutations of a PackageVariant to the files of a package: the package context,
// then the functions, then the injection. They are independent of each other. If there is an error,
// nothing is changed.
//
// Apply sets the condition PVOperationsComplete to True, because writing these files completes the
// operations of the PackageVariant.
func Apply(in *Input) (*Result, error) {
	text, ok := in.Files[kpt.KptfileName]
	if !ok {
		return nil, errors.New("the package has no Kptfile")
	}
	kptfile, err := kpt.ParseKptfile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	unchanged := kptfile.String() // in our notation: a Kptfile that differs only in that is not rewritten
	r := &Result{Files: maps.Clone(in.Files)}
	if err := setContext(in, r.Files); err != nil {
		return nil, err
	}
	if err := setFunctions(in.Variant, kptfile); err != nil {
		return nil, fmt.Errorf("%s: pipeline: %w", kpt.KptfileName, err)
	}
	content := kptfile.String()
	points, err := inject(in, r)
	if err != nil {
		return nil, err
	}
	r.Content = content != unchanged
	for name, text := range r.Files {
		if name != kpt.KptfileName && text != in.Files[name] {
			r.Content = true
		}
	}
	if err := report(kptfile, points); err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	if after := kptfile.String(); after != unchanged {
		r.Files[kpt.KptfileName] = after
		r.Changed = true
	}
	r.Changed = r.Changed || r.Content
	return r, nil
}

// report sets the conditions and gates of injection points, and removes those of injection points
// that no longer exist.
func report(kptfile *kpt.Kptfile, points []*point) error {
	wanted := map[string]kpt.Condition{
		configv1alpha1.ConditionPVOperationsComplete: {
			Type: configv1alpha1.ConditionPVOperationsComplete, Status: "True", Reason: configv1alpha1.ReasonOperationsComplete,
			Message: "all operations of the package variant are complete",
		},
	}
	gates := map[string]bool{configv1alpha1.ConditionPVOperationsComplete: true}
	known := map[string]bool{}
	for _, p := range points {
		wanted[p.condition()], known[p.condition()] = p.result, true
		if p.required {
			gates[p.condition()] = true
		}
	}
	var conditions []kpt.Condition
	for _, c := range kptfile.Conditions() {
		if w, ours := wanted[c.Type]; ours {
			conditions = append(conditions, w)
			delete(wanted, c.Type)
		} else if !isOfPoint(c.Type) {
			conditions = append(conditions, c)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(wanted)) {
		conditions = append(conditions, wanted[kind])
	}
	var all []kpt.ReadinessGate
	for _, g := range kptfile.ReadinessGates() {
		delete(gates, g.ConditionType)
		if !isOfPoint(g.ConditionType) || known[g.ConditionType] { // a user may add a gate for an optional injection point
			all = append(all, g)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(gates)) {
		all = append(all, kpt.ReadinessGate{ConditionType: kind})
	}
	if err := kptfile.SetReadinessGates(all); err != nil {
		return fmt.Errorf("info.readinessGates: %w", err)
	}
	if err := kptfile.SetConditions(conditions); err != nil {
		return fmt.Errorf("status.conditions: %w", err)
	}
	return nil
}
