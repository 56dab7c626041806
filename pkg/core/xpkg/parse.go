package xpkg

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// Parse reads a package.yaml. Its errors are those of the reader, or InvalidPackageErrors. It holds
// one document and all objects in memory.
func Parse(r io.Reader) (*Package, error) {
	var meta *unstructured.Unstructured
	found := map[identity]*unstructured.Unstructured{}
	result := &Package{}
	stream := newDocuments(r)
	for {
		document, err := stream.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		o, err := decode(document)
		if err != nil {
			return nil, Invalidf("package.yaml: document %d: %v", stream.number, err)
		}
		if o == nil {
			continue
		}
		gvk := o.GroupVersionKind()
		if gvk.Group == MetaGroup {
			if meta != nil {
				return nil, Invalidf("package.yaml has more than one object of %s: %s %q and %s %q", MetaGroup, meta.GetKind(), meta.GetName(), gvk.Kind, o.GetName())
			}
			meta = o
			continue
		}
		id := identity{gvk.GroupKind(), o.GetName()}
		if other := found[id]; other != nil {
			if !reflect.DeepEqual(other.Object, o.Object) {
				return nil, Invalidf("package.yaml has two different objects %s %q", gvk.Kind, o.GetName())
			}
			continue
		}
		found[id] = o
		result.Objects = append(result.Objects, o)
	}
	if meta == nil {
		return nil, Invalidf("package.yaml has no object of %s", MetaGroup)
	}
	parsed, err := parseMeta(meta)
	if err != nil {
		return nil, err
	}
	result.Meta = *parsed
	for _, o := range result.Objects {
		if err := allowed(result.Kind, o); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// identity is what no two different objects of a package have in common.
type identity struct {
	schema.GroupKind
	name string
}

// decode returns the object in a document; nil if the document is empty.
func decode(document []byte) (*unstructured.Unstructured, error) {
	content, isJSON := decodeJSON(document)
	if !isJSON {
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, err
		}
	}
	if content == nil {
		return nil, nil
	}
	object, ok := content.(map[string]any)
	if !ok {
		return nil, errors.New("is not an object")
	}
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		text, _, err := unstructured.NestedString(object, field...)
		if err != nil || text == "" {
			return nil, fmt.Errorf("has no %s", field[len(field)-1])
		}
	}
	o := &unstructured.Unstructured{Object: object}
	if _, err := schema.ParseGroupVersion(o.GetAPIVersion()); err != nil {
		return nil, err
	}
	return o, nil
}

// metaObject is an object of MetaGroup.
type metaObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Crossplane *struct {
			Version string `json:"version"`
		} `json:"crossplane"`
		DependsOn    []metaDependency `json:"dependsOn"`
		Capabilities []string         `json:"capabilities"`
	} `json:"spec"`
}

// metaDependency is a dependency, in the present form or in the deprecated one.
type metaDependency struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Package    string `json:"package"`

	Provider      string `json:"provider"`
	Configuration string `json:"configuration"`
	Function      string `json:"function"`

	Version string `json:"version"`
}

func parseMeta(o *unstructured.Unstructured) (*Meta, error) {
	gvk := o.GroupVersionKind()
	versions, ok := metaVersions[gvk.Kind]
	switch {
	case !ok:
		return nil, Invalidf("kind %q of %s is not known: it must be Provider, Configuration or Function", gvk.Kind, MetaGroup)
	case !slices.Contains(versions, gvk.Version):
		return nil, Invalidf("%s %q has apiVersion %s: the versions %q are known", gvk.Kind, o.GetName(), o.GetAPIVersion(), versions)
	}
	var object metaObject
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &object); err != nil {
		return nil, Invalidf("%s %q: %v", gvk.Kind, o.GetName(), err)
	}
	meta := &Meta{
		APIVersion: o.GetAPIVersion(), Kind: gvk.Kind, Name: o.GetName(), Labels: object.Labels, Annotations: object.Annotations,
		Capabilities: object.Spec.Capabilities,
	}
	if object.Spec.Crossplane != nil {
		meta.Crossplane = object.Spec.Crossplane.Version
	}
	dependencies, err := dependenciesOf(object.Spec.DependsOn)
	if err != nil {
		return nil, Invalidf("%s %q: spec.dependsOn%v", gvk.Kind, o.GetName(), err)
	}
	meta.Dependencies = dependencies
	return meta, nil
}

// ParseDependencies parses a list of dependencies in YAML or JSON, in the form of spec.dependsOn of
// a package.yaml. The error is an InvalidPackageError.
func ParseDependencies(text string) ([]Dependency, error) {
	var raw []map[string]any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil, Invalidf("must be a list of objects with apiVersion, kind, package and version")
	}
	var list []metaDependency
	if err := yaml.UnmarshalStrict([]byte(text), &list); err != nil {
		return nil, Invalidf("%s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: "))
	}
	dependencies, err := dependenciesOf(list)
	if err != nil {
		return nil, Invalidf("%s", strings.TrimSpace(err.Error()))
	}
	return dependencies, nil
}

// maxDependencies bounds what one package requires: the Lock lists all of it.
const maxDependencies = 500

// dependenciesOf returns dependencies without duplicates. The error begins with the index.
func dependenciesOf(list []metaDependency) ([]Dependency, error) {
	if len(list) > maxDependencies {
		return nil, fmt.Errorf(" has %d entries, at most %d are possible", len(list), maxDependencies)
	}
	var found []Dependency
	for i := range list {
		dependency, err := list[i].normalize()
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		if !slices.Contains(found, dependency) {
			found = append(found, dependency)
		}
	}
	return found, nil
}

func (d *metaDependency) normalize() (Dependency, error) {
	result := Dependency{Source: d.Package, APIVersion: d.APIVersion, Kind: d.Kind, Constraint: d.Version}
	deprecated := 0
	for kind, source := range map[string]string{pkgv1.KindProvider: d.Provider, pkgv1.KindConfiguration: d.Configuration, pkgv1.KindFunction: d.Function} {
		if source != "" {
			deprecated++
			result.Source, result.APIVersion, result.Kind = source, pkgv1.GroupVersion.String(), kind
		}
	}
	switch present := d.Package != "" || d.APIVersion != "" || d.Kind != ""; {
	case present && deprecated > 0 || deprecated > 1:
		return result, errors.New("must name one package only")
	case !present && deprecated == 0:
		return result, errors.New("names no package: apiVersion, kind and package are required")
	case d.Package == "" && deprecated == 0:
		return result, errors.New("package is required")
	}
	gv, err := schema.ParseGroupVersion(result.APIVersion)
	if _, known := payload[result.Kind]; err != nil || !known || gv.Group != pkgv1.GroupName || gv.Version == "" {
		return result, fmt.Errorf("apiVersion %q and kind %q must be %s with a version, and Provider, Configuration or Function", result.APIVersion, result.Kind, pkgv1.GroupName)
	}
	result.Source, err = ParseSource(result.Source)
	return result, err
}
