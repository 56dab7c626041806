package mutation

import (
	"fmt"
	"strconv"
	"strings"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// setFunctions inserts the functions of a PackageVariant before those of the package, and removes
// those that it inserted before.
func setFunctions(pv *configv1alpha1.PackageVariant, kptfile *kpt.Kptfile) error {
	pipeline := pv.Spec.Pipeline
	if pipeline == nil {
		pipeline = &configv1alpha1.Pipeline{}
	}
	ours := func(name string) bool { return isFunctionOf(pv.Name, name) }
	if err := kptfile.ReplaceFunctions("mutators", ours, functionsOf(pv.Name, pipeline.Mutators)); err != nil {
		return fmt.Errorf("mutators: %w", err)
	}
	if err := kptfile.ReplaceFunctions("validators", ours, functionsOf(pv.Name, pipeline.Validators)); err != nil {
		return fmt.Errorf("validators: %w", err)
	}
	return nil
}

// functionName returns the name of a function of a PackageVariant in a Kptfile.
func functionName(variant, name string, index int) string {
	return fmt.Sprintf("PackageVariant.%s.%s.%d", variant, name, index)
}

// isFunctionOf reports whether a function, by its name, belongs to a PackageVariant. Names may
// contain dots, so the parts of the name cannot be distinguished: only its prefix, and the number
// at its end, are checked.
func isFunctionOf(variant, name string) bool {
	rest, is := strings.CutPrefix(name, "PackageVariant."+variant+".")
	i := strings.LastIndexByte(rest, '.')
	if !is || i < 0 {
		return false
	}
	n, err := strconv.Atoi(rest[i+1:])
	return err == nil && n >= 0
}

func functionsOf(variant string, functions []configv1alpha1.Function) []kpt.Function {
	var all []kpt.Function
	for i := range functions {
		f := &functions[i]
		all = append(all, kpt.Function{
			Image: f.Image, Tag: f.Tag, Exec: f.Exec, ConfigPath: f.ConfigPath, ConfigMap: f.ConfigMap, Name: functionName(variant, f.Name, i),
			Selectors: selectorsOf(f.Selectors), Exclude: selectorsOf(f.Exclusions),
		})
	}
	return all
}

func selectorsOf(selectors []configv1alpha1.Selector) []kpt.Selector {
	var all []kpt.Selector
	for i := range selectors {
		s := &selectors[i]
		all = append(all, kpt.Selector{APIVersion: s.APIVersion, Kind: s.Kind, Name: s.Name, Namespace: s.Namespace, Labels: s.Labels, Annotations: s.Annotations})
	}
	return all
}
