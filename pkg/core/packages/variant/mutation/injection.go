package mutation

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
)

// ErrNotServed is the error of Lookup if the API server does not serve the kind.
var ErrNotServed = errors.New("the kind is not served")

// RefusedError is the error of Lookup if objects of a kind are not injected. It is why.
type RefusedError string

// Error implements error.
func (e RefusedError) Error() string { return string(e) }

// Lookup returns the content of an object in the namespace of the PackageVariant, as decoded from
// JSON, or nil if it does not exist. It returns ErrNotServed, a RefusedError, or another error if
// it is unknown whether the object exists. It is called for the candidates of each injection point
// in their order, up to the first that exists.
type Lookup func(kind schema.GroupVersionKind, name string) (map[string]any, error)

// point is an injection point.
type point struct {
	file     string
	document int
	gvk      schema.GroupVersionKind
	name     string
	required bool
	// object is the object to inject, nil if there is none. Its name is from.
	object map[string]any
	from   string
	result kpt.Condition
}

func (p *point) condition() string {
	return configv1alpha1.ConditionInjectionPrefix + p.gvk.Kind + "." + p.name
}

// isOfPoint reports whether a condition is about an injection point.
func isOfPoint(condition string) bool {
	return strings.HasPrefix(condition, configv1alpha1.ConditionInjectionPrefix)
}

// field returns the field that is copied from an object.
func (p *point) field() string { return kpt.InjectedField(p.gvk.GroupVersion().String(), p.gvk.Kind) }

// inject copies the objects that injectors select into the injection points of the package, and
// returns the injection points.
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
		text, err := kpt.Edit(name, r.Files[name], func(document *yaml.RNode) (bool, error) {
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

// findPoints returns the injection points of a package, in the order of files, or every error in
// them.
func findPoints(files kpt.Files) ([]*point, error) {
	var points []*point
	var wrong []string
	first := map[string]*point{}
	in := manifests.In(files)
	for _, name := range files.Paths() {
		if !in(name) || path.Base(name) == kpt.KptfileName || !strings.Contains(files[name], configv1alpha1.AnnotationConfigInjection) {
			continue
		}
		documents, err := kpt.Documents(files[name])
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

// choose finds the object of an injection point: that of the first injector that matches and whose
// object exists. It returns an error if that is unknown; then the object that was injected before
// stays.
func (p *point) choose(in *Input) error {
	p.result = kpt.Condition{Type: p.condition(), Status: "False", Reason: configv1alpha1.ReasonNoResourceSelected}
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
		refused, isRefused := errors.AsType[RefusedError](err)
		switch {
		case isRefused:
			p.result.Message = fmt.Sprintf("objects of kind %s are not injected: %s", p.gvk.Kind, refused)
			continue
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

// copyTo copies the object into a document.
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
		return false, fmt.Errorf("write object %q as YAML: %w", p.from, err)
	}
	if before := document.Field(p.field()); before == nil || !same(before.Value, value) {
		if err := document.PipeE(yaml.SetField(p.field(), value)); err != nil {
			return false, err
		}
		changed = true
	}
	annotations := document.GetAnnotations()
	name, ofPorch := annotations[configv1alpha1.AnnotationInjectedResource], annotations[configv1alpha1.AnnotationInjectedResourceOfPorch]
	switch {
	case name == p.from && (ofPorch == "" || ofPorch == p.from), name == "" && ofPorch == p.from:
		return changed, nil
	case ofPorch != "" && ofPorch != p.from:
		if err := document.PipeE(yaml.ClearAnnotation(configv1alpha1.AnnotationInjectedResourceOfPorch)); err != nil {
			return false, err
		}
	}
	return true, document.PipeE(yaml.SetAnnotation(configv1alpha1.AnnotationInjectedResource, p.from))
}

// same reports whether two nodes have the same value, in any notation.
func same(a, b *yaml.RNode) bool {
	x, errX := a.MarshalJSON()
	y, errY := b.MarshalJSON()
	return errX == nil && errY == nil && string(x) == string(y)
}
