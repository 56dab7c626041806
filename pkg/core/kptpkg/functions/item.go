package functions

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Item is an object and where it is written.
type Item struct {
	// Path is the file, and Index the document in it. An object that a function makes has none; a function may give it a Path by the
	// annotation PathAnnotation.
	Path  string
	Index int
	Node  *yaml.RNode
}

// Annotations by which functions in other processes know where an object is written. Ours have Item for that; Starlark programs see
// them, and may set them.
const (
	PathAnnotation        = "internal.config.kubernetes.io/path"
	IndexAnnotation       = "internal.config.kubernetes.io/index"
	LegacyPathAnnotation  = "config.kubernetes.io/path"
	LegacyIndexAnnotation = "config.kubernetes.io/index"

	// LocalConfigAnnotation marks what is never applied to a cluster.
	LocalConfigAnnotation = "config.kubernetes.io/local-config"
	dependsOnAnnotation   = "config.kubernetes.io/depends-on"
)

// Severity says how bad a Result is.
type Severity string

// Severities of results.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Result is one thing that a function says, in the form that kpt gives it.
type Result struct {
	Message     string       `json:"message"`
	Severity    Severity     `json:"severity,omitempty"`
	ResourceRef *ResourceRef `json:"resourceRef,omitempty"`
	Field       *Field       `json:"field,omitempty"`
	File        *File        `json:"file,omitempty"`
}

// ResourceRef is the object that a Result is about.
type ResourceRef struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

// Field is the field that a Result is about.
type Field struct {
	Path          string `json:"path"`
	CurrentValue  any    `json:"currentValue,omitempty"`
	ProposedValue any    `json:"proposedValue,omitempty"`
}

// File is the file that a Result is about.
type File struct {
	Path  string `json:"path"`
	Index int    `json:"index,omitempty"`
}

func (i Item) ref() *ResourceRef {
	return &ResourceRef{APIVersion: i.APIVersion(), Kind: i.Kind(), Name: i.Name(), Namespace: i.Namespace()}
}

func (i Item) root() *yaml.Node { return content(i.Node.YNode()) }

// APIVersion is the object's; "" if it has none that is text, as with all that follow.
func (i Item) APIVersion() string { return text(get(i.root(), "apiVersion")) }

// Kind is the object's.
func (i Item) Kind() string { return text(get(i.root(), "kind")) }

// Name is metadata.name.
func (i Item) Name() string { return text(get(i.root(), "metadata", "name")) }

// Namespace is metadata.namespace.
func (i Item) Namespace() string { return text(get(i.root(), "metadata", "namespace")) }

// Group is the API group, "" for the core.
func (i Item) Group() string {
	group, _, ok := strings.Cut(i.APIVersion(), "/")
	if !ok {
		return ""
	}
	return group
}

func (i Item) version() string {
	version := i.APIVersion()
	return version[strings.LastIndex(version, "/")+1:]
}

func (i Item) annotation(key string) string {
	return text(get(i.root(), "metadata", "annotations", key))
}

// pairs are the labels or the annotations.
func (i Item) pairs(field string) labels.Set {
	out := labels.Set{}
	if n := get(i.root(), "metadata", field); n != nil && n.Kind == yaml.MappingNode {
		for j := 0; j+1 < len(n.Content); j += 2 {
			out[n.Content[j].Value] = text(content(n.Content[j+1]))
		}
	}
	return out
}

// Local tells whether an object is never applied to a cluster.
func (i Item) Local() bool { return i.annotation(LocalConfigAnnotation) == "true" }

// isKptfile tells whether an object describes the package. What changes all objects leaves it alone.
func (i Item) isKptfile() bool { return i.Kind() == "Kptfile" && i.Group() == "kpt.dev" }

// matches tells whether group, version, kind, name and namespace are those given; an empty one matches all.
func (i Item) matches(group, version, kind, name, namespace string) bool {
	return (group == "" || group == i.Group()) && (version == "" || version == i.version()) && (kind == "" || kind == i.Kind()) &&
		(name == "" || name == i.Name()) && (namespace == "" || namespace == i.Namespace())
}

// String names an object in messages.
func (i Item) String() string {
	name := i.Name()
	if namespace := i.Namespace(); namespace != "" {
		name = namespace + "/" + name
	}
	where := i.Kind() + " " + name
	if i.Path != "" {
		where = i.Path + ": " + where
	}
	return where
}
