package mutation

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// ErrNotServed is why an object cannot be looked up if there is no such kind.
var ErrNotServed = errors.New("the kind is not served")

// Lookup returns an object of the namespace of the PackageVariant: its content as it is written in JSON, nil if there is none. It returns
// ErrNotServed, or another error if it is not known whether there is one. It is asked for all objects that an injection point may take its
// content from, up to the one that is taken.
type Lookup func(kind schema.GroupVersionKind, name string) (map[string]any, error)

// point is an injection point.
type point struct {
	file     string
	document int
	gvk      schema.GroupVersionKind
	name     string
	required bool
	// object is what is injected, nil if nothing is.
	object map[string]any
	from   string
	result kptpkg.Condition
}

func (p *point) condition() string {
	return configv1alpha1.ConditionInjectionPrefix + p.gvk.Kind + "." + p.name
}

// isOfPoint tells whether a condition is about an injection point.
func isOfPoint(condition string) bool {
	return strings.HasPrefix(condition, configv1alpha1.ConditionInjectionPrefix)
}

// field is what is copied of an object.
func (p *point) field() string {
	if p.gvk.Group == "" && p.gvk.Kind == "ConfigMap" {
		return "data"
	}
	return "spec"
}

// inject copies what injectors select to the injection points of the package, and returns these.
func inject(in *Input, r *Result) ([]*point, error) {
	points, err := findPoints(r.Files)
	if err != nil {
		return nil, err
	}
	for _, p := range points {
		if err := p.choose(in); err != nil {
			return nil, err
		}
	}
	byFile := map[string]map[int]*point{}
	for _, p := range points {
		if p.object == nil {
			continue
		}
		if byFile[p.file] == nil {
			byFile[p.file] = map[int]*point{}
		}
		byFile[p.file][p.document] = p
	}
	for name, points := range byFile {
		i := -1
		text, err := kptpkg.Edit(name, r.Files[name], func(document *yaml.RNode) (bool, error) {
			i++
			if p := points[i]; p != nil {
				return p.copyTo(document)
			}
			return false, nil
		})
		if err != nil {
			return nil, fmt.Errorf("inject into %s: %w", name, err)
		}
		r.Files[name] = text
	}
	return points, nil
}

// findPoints returns the injection points of a package, in the order of files, or says all that is wrong with them.
func findPoints(files kptpkg.Files) ([]*point, error) {
	var points []*point
	var wrong []string
	first := map[string]*point{}
	for _, name := range files.Paths() {
		if !kptpkg.IsKRM(name) || path.Base(name) == kptpkg.KptfileName || !strings.Contains(files[name], configv1alpha1.AnnotationConfigInjection) {
			continue
		}
		documents, err := kptpkg.Documents(files[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, document := range documents {
			if document.YNode().Kind != yaml.MappingNode {
				continue
			}
			value, is := document.GetAnnotations()[configv1alpha1.AnnotationConfigInjection]
			if !is {
				continue
			}
			p := &point{
				file: name, document: i, name: document.GetName(), required: value == "required",
				gvk: schema.FromAPIVersionAndKind(document.GetApiVersion(), document.GetKind()),
			}
			if value != "required" && value != "optional" {
				wrong = append(wrong, fmt.Sprintf("%s: %s/%s has annotation %s with value %q; must be \"required\" or \"optional\"",
					name, p.gvk.Kind, p.name, configv1alpha1.AnnotationConfigInjection, value))
			}
			if p.gvk.Kind == "" || p.gvk.Version == "" || p.name == "" {
				wrong = append(wrong, fmt.Sprintf("%s: document %d is an injection point without apiVersion, kind or name", name, i+1))
			}
			if other := first[p.condition()]; other != nil {
				wrong = append(wrong, fmt.Sprintf("duplicate injection conditionType %q (%s and %s)", p.condition(), other.file, p.file))
			} else {
				first[p.condition()] = p
			}
			points = append(points, p)
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("errors in injection points: %s", strings.Join(wrong, ", "))
	}
	return points, nil
}

// choose finds the object of a point: that of the first injector that fits and whose object is there. An error says that this is not
// known; then what was injected before stays.
func (p *point) choose(in *Input) error {
	p.result = kptpkg.Condition{Type: p.condition(), Status: "False", Reason: configv1alpha1.ReasonNoResourceSelected}
	if len(in.Variant.Spec.Injectors) == 0 {
		p.result.Message = "no injectors defined"
		return nil
	}
	p.result.Message = "no resource matched any injection selector for this injection point"
	for i := range in.Variant.Spec.Injectors {
		s := &in.Variant.Spec.Injectors[i]
		if s.Group != nil && *s.Group != p.gvk.Group || s.Version != nil && *s.Version != p.gvk.Version || s.Kind != nil && *s.Kind != p.gvk.Kind {
			continue
		}
		object, err := in.Lookup(p.gvk, s.Name)
		switch {
		case errors.Is(err, ErrNotServed):
			p.result.Message = fmt.Sprintf("no in-cluster resources of type %s.%s", p.gvk.GroupVersion(), p.gvk.Kind)
			continue
		case err != nil:
			return fmt.Errorf("spec.injectors[%d]: look up %s %s: %w", i, p.gvk.Kind, s.Name, err)
		case object == nil:
			continue
		}
		if object[p.field()] == nil {
			p.result.Message = fmt.Sprintf("field %q not found in resource %q", p.field(), s.Name)
			return nil
		}
		p.object, p.from = object, s.Name
		p.result.Status, p.result.Reason = "True", configv1alpha1.ReasonConfigInjected
		p.result.Message = fmt.Sprintf("injected resource %q from cluster", s.Name)
		return nil
	}
	return nil
}

// copyTo writes what is injected into a document.
func (p *point) copyTo(document *yaml.RNode) (changed bool, err error) {
	text, err := yaml.Marshal(p.object[p.field()])
	if err != nil {
		return false, err
	}
	value, err := yaml.Parse(string(text))
	if err != nil {
		return false, err
	}
	if _, err := value.MarshalJSON(); err != nil {
		return false, fmt.Errorf("what is injected from %q cannot be written as YAML: %w", p.from, err)
	}
	if before := document.Field(p.field()); before == nil || !same(before.Value, value) {
		if err := document.PipeE(yaml.SetField(p.field(), value)); err != nil {
			return false, err
		}
		changed = true
	}
	annotations := document.GetAnnotations()
	if annotations[configv1alpha1.AnnotationInjectedResource] == p.from ||
		annotations[configv1alpha1.AnnotationInjectedResource] == "" && annotations[configv1alpha1.AnnotationInjectedResourceName] == p.from {
		return changed, nil
	}
	return true, document.PipeE(yaml.SetAnnotation(configv1alpha1.AnnotationInjectedResource, p.from))
}

// same tells whether two nodes mean the same, however they are written.
func same(a, b *yaml.RNode) bool {
	x, errX := a.MarshalJSON()
	y, errY := b.MarshalJSON()
	return errX == nil && errY == nil && string(x) == string(y)
}
