package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

const (
	// localConfig is the annotation of objects that are for tools and not for clusters.
	localConfig = "config.kubernetes.io/local-config"
	// contextFile holds the package context.
	contextFile = "package-context.yaml"
	// kptGroup is the API group of what describes packages, and of what kpt notes about them.
	kptGroup = "kpt.dev"
)

// Resource is how objects of a kind are served.
type Resource struct {
	// Name is the lowercase plural.
	Name       string
	Namespaced bool
}

// Kinds says how objects of a kind are served; known is false if nobody knows. An error says that it could not be found out.
type Kinds func(kind schema.GroupVersionKind) (r Resource, known bool, err error)

// Object is an object that goes to a cluster.
type Object struct {
	// Ref identifies it in the cluster; its namespace is in Content, too.
	Ref objref.Ref
	// File is the file that it is in.
	File string
	// Content is the object. It belongs to whoever asked.
	Content map[string]any
}

// Workload is what a package holds for clusters.
type Workload struct {
	// Objects are those in its files, in the order of the files; no two have the same Ref.
	Objects []Object
	// Problems say what is wrong, each with the file and, if it is known, the object.
	Problems []string
	// Unsure are objects of which it is not known what they shall be: what a cluster has of them shall stay.
	Unsure []objref.Ref
	// Incomplete tells that the package may hold more objects than those: what the cluster has of it shall stay.
	Incomplete bool
}

// Read reads the objects in the files of a package. Its error says that it could not be found out how some kind is served; all that is
// wrong with the files is in the Workload.
func Read(files kptpkg.Files, kinds Kinds) (*Workload, error) {
	r := &reader{kinds: kinds, own: map[schema.GroupKind]Resource{}, at: map[objref.Ref]int{}}
	var all []document
	for _, name := range files.Paths() {
		if !kptpkg.IsKRM(name) || path.Base(name) == kptpkg.KptfileName || path.Base(name) == contextFile {
			continue
		}
		documents, err := r.documents(name, files[name])
		if err != nil {
			r.problem(name, "", err)
			r.workload.Incomplete = true
		}
		all = append(all, documents...)
	}
	for i := range all {
		r.define(all[i].content)
	}
	for i := range all {
		if err := r.add(&all[i]); err != nil {
			return nil, err
		}
	}
	return &r.workload, nil
}

// document is an object in a file.
type document struct {
	file    string
	content map[string]any
}

type reader struct {
	kinds Kinds
	// own are the kinds that the package itself defines.
	own      map[schema.GroupKind]Resource
	workload Workload
	at       map[objref.Ref]int // in workload.Objects; -1 for what is unsure
}

func (r *reader) problem(file, object string, err error) {
	text := file + ": "
	if object != "" {
		text += object + ": "
	}
	r.workload.Problems = append(r.workload.Problems, text+err.Error())
}

// documents returns the objects of a file that are for clusters; with an error those before it.
func (r *reader) documents(file, content string) ([]document, error) {
	var found []document
	source := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content)))
	for n := 1; ; n++ {
		text, err := source.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		encoded, err := yaml.ToJSON(text)
		if err != nil {
			return found, fmt.Errorf("document %d: is no YAML%s", n, syntax(err))
		}
		var value any
		if err := kjson.Unmarshal(encoded, &value); err != nil {
			return found, fmt.Errorf("document %d: is no YAML of an object", n) // the text may quote a Secret
		}
		if value == nil {
			continue // comments alone
		}
		object, ok := value.(map[string]any)
		if !ok {
			return found, fmt.Errorf("document %d: is no object", n)
		}
		objects, err := flat(object)
		if err != nil {
			return found, fmt.Errorf("document %d: %w", n, err)
		}
		for _, o := range objects {
			if !local(o) {
				found = append(found, document{file, o})
			}
		}
	}
}

// quiet are texts of the parser that quote nothing of what it reads: that may be a Secret.
var quiet = regexp.MustCompile("line [0-9]+(: (did not find expected [^`]*|could not find expected [^`]*|mapping values are not allowed in this context|" +
	"found character that cannot start any token))?")

func syntax(err error) string {
	if found := quiet.FindString(err.Error()); found != "" {
		return ": " + found
	}
	return ""
}

// flat returns the items of a List, or the object.
func flat(object map[string]any) ([]map[string]any, error) {
	if object["kind"] != "List" || object["apiVersion"] != "v1" {
		return []map[string]any{object}, nil
	}
	items, ok := object["items"].([]any)
	if !ok && object["items"] != nil {
		return nil, errors.New("items of the List are no list")
	}
	var all []map[string]any
	for i, item := range items {
		o, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d of the List is no object", i)
		}
		all = append(all, o)
	}
	return all, nil
}

// local tells whether an object is for tools. Whatever the annotation says, but for "false", as with kpt.
func local(object map[string]any) bool {
	if text(object, "kind") == kptpkg.KptfileKind || groupVersionKind(object).Group == kptGroup {
		return true
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, there := annotations[localConfig]
	return there && fmt.Sprint(value) != "false"
}

func text(object map[string]any, field string) string {
	value, _ := object[field].(string)
	return value
}

func groupVersionKind(object map[string]any) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(text(object, "apiVersion"), text(object, "kind"))
}

// define notes what a CustomResourceDefinition defines.
func (r *reader) define(object map[string]any) {
	kind := groupVersionKind(object)
	if kind.Kind != "CustomResourceDefinition" || kind.Group != "apiextensions.k8s.io" {
		return
	}
	spec, _ := object["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	if text(names, "kind") != "" && text(names, "plural") != "" {
		r.own[schema.GroupKind{Group: text(spec, "group"), Kind: text(names, "kind")}] = Resource{text(names, "plural"), text(spec, "scope") != "Cluster"}
	}
}

// add adds an object. What has no identity, or a bad one, makes the workload incomplete: nobody knows which object was meant.
func (r *reader) add(d *document) error {
	kind := groupVersionKind(d.content)
	metadata, _ := d.content["metadata"].(map[string]any)
	name, namespace := text(metadata, "name"), text(metadata, "namespace")
	object := strings.TrimSpace(kind.Kind + " " + strings.TrimPrefix(namespace+"/"+name, "/"))
	if err := identity(kind, metadata); err != nil {
		r.problem(d.file, object, err)
		r.workload.Incomplete = true
		return nil
	}
	resource, err := r.resource(kind, namespace != "")
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.file, object, err)
	}
	ref := objref.Ref{Group: kind.Group, Resource: resource.Name, Name: name}
	if resource.Namespaced {
		if namespace == "" {
			namespace = metav1.NamespaceDefault // as kubectl does
		}
		ref.Namespace = namespace
		metadata["namespace"] = namespace
	} else {
		delete(metadata, "namespace") // an API server ignores it
	}
	if match.NeverResource(ref.GroupResource()) {
		r.problem(d.file, object, fmt.Errorf("%s never go to clusters: each has its own, or they direct the hub", ref.GroupResource()))
		return nil
	}
	switch first, twice := r.at[ref]; {
	case !twice:
		r.at[ref] = len(r.workload.Objects)
		r.workload.Objects = append(r.workload.Objects, Object{ref, d.file, d.content})
	case first >= 0:
		// Which of the two is meant nobody knows.
		r.problem(d.file, object, fmt.Errorf("is in %s, too: take one of the two out", r.workload.Objects[first].File))
		r.unsure(first)
	default:
		r.problem(d.file, object, errors.New("is in other files, too"))
	}
	return nil
}

// unsure takes an object out again.
func (r *reader) unsure(i int) {
	objects := r.workload.Objects
	r.workload.Unsure = append(r.workload.Unsure, objects[i].Ref)
	r.at[objects[i].Ref] = -1
	r.workload.Objects = slices.Delete(objects, i, i+1)
	for j := i; j < len(r.workload.Objects); j++ {
		r.at[r.workload.Objects[j].Ref] = j
	}
}

func identity(kind schema.GroupVersionKind, metadata map[string]any) error {
	switch {
	case kind.Version == "" || kind.Kind == "":
		return errors.New("has no apiVersion and kind; if it is for tools, annotate it with " + localConfig + ": \"true\"")
	case metadata == nil:
		return errors.New("has no metadata")
	}
	for _, field := range []string{"name", "namespace"} {
		if value, there := metadata[field]; there && value != nil {
			if _, ok := value.(string); !ok {
				return fmt.Errorf("metadata.%s is no string", field)
			}
		}
	}
	name, namespace := text(metadata, "name"), text(metadata, "namespace")
	if name == "" {
		return errors.New("has no metadata.name; a cluster cannot be given one that it names itself")
	}
	if wrong := pathvalidation.IsValidPathSegmentName(name); len(wrong) > 0 {
		return fmt.Errorf("metadata.name %q %s", name, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
		return fmt.Errorf("metadata.namespace %q: %s", namespace, wrong[0])
	}
	return nil
}

// resource returns how objects of a kind are served. Where nobody knows, the name is that which most kinds have, and whoever names a
// namespace means one.
func (r *reader) resource(kind schema.GroupVersionKind, namespaced bool) (Resource, error) {
	if resource, ok := r.own[kind.GroupKind()]; ok {
		return resource, nil
	}
	resource, known, err := r.kinds(kind)
	if err != nil || known {
		return resource, err
	}
	guess, _ := meta.UnsafeGuessKindToResource(kind)
	return Resource{guess.Resource, namespaced}, nil
}
