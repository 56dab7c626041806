package kpt

import (
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Object identifies an object in a file.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// ObjectOf returns the identity of a document; ok is false if it is not an object.
func ObjectOf(document *yaml.RNode) (o Object, ok bool) {
	text := func(path ...string) string { return TextOf(Get(document.YNode(), path...)) }
	o = Object{text("apiVersion"), text("kind"), text("metadata", "namespace"), text("metadata", "name")}
	return o, o.APIVersion != "" && o.Kind != ""
}

// String returns the object as Kind.group namespace/name. A List has no name.
func (o Object) String() string {
	kind, name := o.Kind, o.Name
	if group, _, hasGroup := strings.Cut(o.APIVersion, "/"); hasGroup {
		kind += "." + group
	}
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return strings.TrimSuffix(kind+" "+name, " ")
}

// GroupOf returns the group of an apiVersion; "" for the core group.
func GroupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// SplitImage splits an image. A colon after the last slash begins a tag; a colon before it begins a
// port.
func SplitImage(image string) (name, tag, digest string) {
	name, digest, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name, tag = name[:colon], name[colon+1:]
	}
	return name, tag, digest
}

// InjectedField returns the field of an injection point that is injected, by the kind of the
// object.
func InjectedField(apiVersion, kind string) string {
	if kind == "ConfigMap" && GroupOf(apiVersion) == "" {
		return "data"
	}
	return "spec"
}
