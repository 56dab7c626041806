package mutation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// Input is what mutations follow from. It is not changed.
type Input struct {
	Variant *configv1alpha1.PackageVariant
	// Revision is the name of the revision that Files are of.
	Revision string
	Files    kptpkg.Files
	Lookup   Lookup
}

// Result is what became of files.
type Result struct {
	Files kptpkg.Files
	// Content tells that something other than gates and conditions has changed; Changed, that anything has.
	Content, Changed bool
}

// Apply returns the files of a package as its PackageVariant wants them: first the package context, then the functions, then what is
// injected; none sees what the others did. With an error nothing is changed.
//
// The condition PVOperationsComplete is set to True: whoever writes these files has done it all.
func Apply(in *Input) (*Result, error) {
	text, there := in.Files[kptpkg.KptfileName]
	if !there {
		return nil, errors.New("the package has no Kptfile")
	}
	kptfile, err := kptpkg.ParseKptfile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	r := &Result{Files: maps.Clone(in.Files)}
	if err := setContext(in, r.Files); err != nil {
		return nil, err
	}
	if err := setFunctions(in.Variant, kptfile); err != nil {
		return nil, fmt.Errorf("%s: pipeline: %w", kptpkg.KptfileName, err)
	}
	content := kptfile.String()
	points, err := inject(in, r)
	if err != nil {
		return nil, err
	}
	if err := report(kptfile, points); err != nil {
		return nil, fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	// What only is written in another way stays as it is written.
	before, err := kptpkg.ParseKptfile(text)
	if err != nil {
		return nil, err
	}
	as := before.String()
	if after := kptfile.String(); after != as {
		r.Files[kptpkg.KptfileName] = after
		r.Changed = true
	}
	r.Content = content != as
	for name, text := range r.Files {
		if name != kptpkg.KptfileName && text != in.Files[name] {
			r.Content = true
		}
	}
	r.Changed = r.Changed || r.Content
	return r, nil
}

// report sets conditions and gates of points, and takes away those of points that are gone.
func report(kptfile *kptpkg.Kptfile, points []*point) error {
	wanted := map[string]kptpkg.Condition{
		configv1alpha1.ConditionPVOperationsComplete: {
			Type: configv1alpha1.ConditionPVOperationsComplete, Status: "True", Reason: configv1alpha1.ReasonOperationsComplete,
			Message: "all operations of the package variant are complete",
		},
	}
	gates := map[string]bool{configv1alpha1.ConditionPVOperationsComplete: true}
	for _, p := range points {
		wanted[p.condition()] = p.result
		if p.required {
			gates[p.condition()] = true
		}
	}
	var conditions []kptpkg.Condition
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
	known := map[string]bool{}
	for _, p := range points {
		known[p.condition()] = true
	}
	var all []kptpkg.ReadinessGate
	for _, g := range kptfile.ReadinessGates() {
		delete(gates, g.ConditionType)
		if !isOfPoint(g.ConditionType) || known[g.ConditionType] { // somebody may want a gate for an optional one
			all = append(all, g)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(gates)) {
		all = append(all, kptpkg.ReadinessGate{ConditionType: kind})
	}
	if err := kptfile.SetReadinessGates(all); err != nil {
		return fmt.Errorf("info.readinessGates: %w", err)
	}
	if err := kptfile.SetConditions(conditions); err != nil {
		return fmt.Errorf("status.conditions: %w", err)
	}
	return nil
}
