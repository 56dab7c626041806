package functions

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
)

// Item is an object and its position.
type Item struct {
	// Path is the file, and Index the index of the document in it. An object that a function
	// creates has none, unless the function sets the annotation PathAnnotation.
	Path  string
	Index int
	Node  *yaml.RNode
}

// Annotations in which container functions find the position of an object. The functions here use
// Item instead. Starlark programs can read and set the annotations.
const (
	PathAnnotation        = "internal.config.kubernetes.io/path"
	IndexAnnotation       = "internal.config.kubernetes.io/index"
	LegacyPathAnnotation  = "config.kubernetes.io/path"
	LegacyIndexAnnotation = "config.kubernetes.io/index"

	dependsOnAnnotation = "config.kubernetes.io/depends-on"
)

// Severities of results.
const (
	Error   = "error"
	Warning = "warning"
	Info    = "info"
)

func (i Item) root() *yaml.Node { return kpt.Content(i.Node.YNode()) }

// APIVersion returns apiVersion; "" if it is not a string. The same holds for the methods below.
func (i Item) APIVersion() string { return kpt.TextOf(kpt.Get(i.root(), "apiVersion")) }

// Kind returns kind.
func (i Item) Kind() string { return kpt.TextOf(kpt.Get(i.root(), "kind")) }

// Name returns metadata.name.
func (i Item) Name() string { return kpt.TextOf(kpt.Get(i.root(), "metadata", "name")) }

// Namespace returns metadata.namespace.
func (i Item) Namespace() string { return kpt.TextOf(kpt.Get(i.root(), "metadata", "namespace")) }

// Group returns the API group; "" for the core group.
func (i Item) Group() string { return kpt.GroupOf(i.APIVersion()) }

func (i Item) version() string {
	version := i.APIVersion()
	return version[strings.LastIndex(version, "/")+1:]
}

// pairs returns the labels or the annotations.
func (i Item) pairs(field string) labels.Set {
	out := labels.Set{}
	if n := kpt.Get(i.root(), "metadata", field); n != nil && n.Kind == yaml.MappingNode {
		for j := 0; j+1 < len(n.Content); j += 2 {
			out[n.Content[j].Value] = kpt.TextOf(kpt.Content(n.Content[j+1]))
		}
	}
	return out
}

// Local reports whether an object is never applied to a cluster.
func (i Item) Local() bool {
	value := kpt.Get(i.root(), "metadata", "annotations", manifests.LocalConfigAnnotation)
	return manifests.ForTools(manifests.Document{APIVersion: i.APIVersion(), Kind: i.Kind()}, kpt.TextOf(value), value != nil)
}

// isKptfile reports whether an object is a Kptfile. Functions that change all objects skip it.
func (i Item) isKptfile() bool { return i.Kind() == "Kptfile" && i.Group() == "kpt.dev" }

// matches reports whether group, version, kind, name and namespace are equal to those given. Empty
// values match all.
func (i Item) matches(group, version, kind, name, namespace string) bool {
	return (group == "" || group == i.Group()) && (version == "" || version == i.version()) && (kind == "" || kind == i.Kind()) &&
		(name == "" || name == i.Name()) && (namespace == "" || namespace == i.Namespace())
}

// String returns the file, the kind and the name of an object, for messages.
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
