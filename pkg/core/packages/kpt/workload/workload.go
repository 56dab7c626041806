package workload

import (
	"bufio"
	"cmp"
	"encoding/json"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
	kptschema "github.com/starlinghq/starling/pkg/core/packages/kpt/schema"
)

// contextFile is the file of the package context.
const contextFile = "package-context.yaml"

// Resource is the resource of a kind.
type Resource struct {
	// Name is the lowercase plural.
	Name       string
	Namespaced bool
}

// Kinds returns the resource of a kind; known is false if no API server serves the kind. It returns
// an error if that is not known yet.
type Kinds func(kind schema.GroupVersionKind) (r Resource, known bool, err error)

// Object is an object that is delivered to a cluster.
type Object struct {
	// Ref identifies the object in the cluster. Content has the same namespace.
	Ref objref.Ref
	// File is the file of the object.
	File string
	// Content is the object. The caller owns it.
	Content map[string]any
}

// Workload holds the objects of a package that are delivered to clusters.
type Workload struct {
	// Objects in the order of the files. No two have the same Ref.
	Objects []Object
	// Problems are errors in the files, each with the file and, if it is known, the object.
	Problems []string
	// Refused says which objects are never delivered to clusters, whatever their content.
	Refused []string
	// Unsure are objects whose desired content is unknown. They must stay unchanged in clusters.
	Unsure []objref.Ref
	// Incomplete is true if the package may have more objects. Then no object of the package may be
	// deleted from clusters.
	Incomplete bool
	// Guessed are the kinds of Objects that are not known. Their Resource is a guess, and so is
	// whether it is namespaced.
	Guessed []schema.GroupVersionKind
}

// Report returns what the delivery of the package reports: Problems and Refused, and what follows
// from Incomplete.
func (w *Workload) Report() []string {
	all := slices.Concat(w.Problems, w.Refused)
	if w.Incomplete {
		all = append(all, "until the files are repaired, nothing of the package is removed from clusters")
	}
	return all
}

// Read reads the objects in the files of a package. It returns an error if the resource of a kind
// is not known yet; nil kinds know none, and there is no error. Errors in the files are in the
// Workload.
func Read(files kpt.Files, kinds Kinds) (*Workload, error) {
	r := &reader{kinds: kinds, own: map[schema.GroupKind]Resource{}, at: map[objref.Ref]int{}}
	var all []document
	in := manifests.In(files)
	for _, name := range files.Paths() {
		if !in(name) || path.Base(name) == kpt.KptfileName || path.Base(name) == contextFile {
			continue
		}
		documents, err := r.documents(name, files[name])
		if err != nil {
			r.incomplete(name, "", err)
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
	r.workload.Objects = slices.DeleteFunc(r.workload.Objects, func(o Object) bool { return r.at[o.Ref] < 0 })
	return &r.workload, nil
}

// document is an object in a file.
type document struct {
	file    string
	content map[string]any
}

type reader struct {
	kinds Kinds
	// own are the kinds that CustomResourceDefinitions in the package define.
	own      map[schema.GroupKind]Resource
	workload Workload
	at       map[objref.Ref]int // the index in workload.Objects; -1 for unsure objects
}

func (r *reader) problem(file, object string, err error) {
	r.workload.Problems = append(r.workload.Problems, problem(file, object, err))
}

func problem(file, object string, err error) string {
	if object != "" {
		object += ": "
	}
	return file + ": " + object + err.Error()
}

// incomplete records an error because of which the package may have more objects.
func (r *reader) incomplete(file, object string, err error) {
	r.problem(file, object, err)
	r.workload.Incomplete = true
}

// documents returns the objects of a file that are delivered to clusters. If there is an error, it
// returns those that are known.
func (r *reader) documents(file, content string) ([]document, error) {
	values, err := parse(content)
	kinds := make([]manifests.Document, len(values))
	for i, value := range values {
		kinds[i] = kindOf(value)
	}
	are, wrong := manifests.Objects(kinds)
	if err = cmp.Or(err, wrong); err == nil && !are {
		return nil, nil
	}
	var found []document
	for i, value := range values {
		if kinds[i].APIVersion == "" || kinds[i].Kind == "" {
			continue
		}
		objects, notList := flat(value.(map[string]any), 0)
		if notList != nil && err == nil {
			err = fmt.Errorf("document %d: %w", i+1, notList)
		}
		for _, o := range objects {
			if !forTools(o) {
				found = append(found, document{file, o})
			}
		}
	}
	return found, err
}

// kindOf returns what a value says of its kind.
func kindOf(value any) manifests.Document {
	object, _ := value.(map[string]any)
	return manifests.Document{APIVersion: text(object, "apiVersion"), Kind: text(object, "kind")}
}

// parse returns the values of the documents of a file that have any. If there is an error, it
// returns those before it.
func parse(content string) ([]any, error) {
	var values []any
	source := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content)))
	for n := 1; ; n++ {
		text, err := source.Read()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return values, err
		}
		value, err := decode(text)
		if err != nil {
			return values, fmt.Errorf("document %d: is not valid YAML%s", n, syntax(err))
		}
		if value != nil { // else only comments
			values = append(values, value)
		}
	}
}

// decode returns the value of a document, nil if there is none. What begins like JSON may be a flow
// mapping of YAML.
func decode(document []byte) (value any, err error) {
	if yaml.IsJSONBuffer(document) && json.Valid(document) {
		err = kjson.Unmarshal(document, &value)
	} else {
		err = yaml.Unmarshal(document, &value)
	}
	return value, err
}

// quiet matches errors of the parser, which have no type, that do not quote the file: it may be a
// Secret.
var quiet = regexp.MustCompile("line [0-9]+(: (did not find expected [^`]*|could not find expected [^`]*|mapping values are not allowed in this context|" +
	"found character that cannot start any token))?")

func syntax(err error) string {
	if found := quiet.FindString(err.Error()); found != "" {
		return ": " + found
	}
	return ""
}

// maxListDepth bounds lists in lists.
const maxListDepth = 10

// flat returns the items of a list, such as a List or a RoleList, or the object. Items of a list of
// one kind need not repeat the kind, as for kubectl.
func flat(object map[string]any, depth int) ([]map[string]any, error) {
	list := kindOf(object)
	kind, is := strings.CutSuffix(list.Kind, "List")
	content, there := object["items"]
	if !is || !there && (kind != "" || list.APIVersion != "v1") {
		return []map[string]any{object}, nil
	}
	items, ok := content.([]any)
	switch {
	case !ok && content != nil:
		return nil, fmt.Errorf("items of the %s must be a list", list.Kind)
	case depth == maxListDepth:
		return nil, fmt.Errorf("has lists in lists, more than %d deep", maxListDepth)
	}
	var all []map[string]any
	for i, item := range items {
		o, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d of the %s is not an object", i, list.Kind)
		}
		if kind != "" && kindOf(o) == (manifests.Document{}) {
			o["apiVersion"], o["kind"] = list.APIVersion, kind
		}
		found, err := flat(o, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// forTools reports whether an object is never for a cluster.
func forTools(object map[string]any) bool {
	value, set, _ := unstructured.NestedFieldNoCopy(object, "metadata", "annotations", manifests.LocalConfigAnnotation)
	return manifests.ForTools(kindOf(object), fmt.Sprint(value), set)
}

func text(object map[string]any, path ...string) string {
	value, _, _ := unstructured.NestedString(object, path...)
	return value
}

func groupVersionKind(object map[string]any) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(text(object, "apiVersion"), text(object, "kind"))
}

// define records the kind that a CustomResourceDefinition defines.
func (r *reader) define(object map[string]any) {
	kind := groupVersionKind(object)
	if kind.Kind != "CustomResourceDefinition" || kind.Group != "apiextensions.k8s.io" {
		return
	}
	name, plural := text(object, "spec", "names", "kind"), text(object, "spec", "names", "plural")
	if name != "" && plural != "" {
		r.own[schema.GroupKind{Group: text(object, "spec", "group"), Kind: name}] = Resource{plural, text(object, "spec", "scope") != "Cluster"}
	}
}

// add adds an object. An object without a valid identity makes the workload incomplete, because it
// is unknown which object it is.
func (r *reader) add(d *document) error {
	kind := groupVersionKind(d.content)
	metadata, _ := d.content["metadata"].(map[string]any)
	name, namespace := text(metadata, "name"), text(metadata, "namespace")
	object := strings.TrimSpace(kind.Kind + " " + strings.TrimPrefix(namespace+"/"+name, "/"))
	if err := identity(kind, metadata); err != nil {
		r.incomplete(d.file, object, err)
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
		r.workload.Refused = append(r.workload.Refused,
			problem(d.file, object, fmt.Errorf("%s are never delivered to clusters: each cluster has its own, or they configure the hub", ref.GroupResource())))
		return nil
	}
	switch first, duplicate := r.at[ref]; {
	case !duplicate:
		r.at[ref] = len(r.workload.Objects)
		r.workload.Objects = append(r.workload.Objects, Object{ref, d.file, d.content})
	case first >= 0:
		// It is unknown which of the two is desired.
		r.problem(d.file, object, fmt.Errorf("is also in %s: remove one of the two; %s", r.workload.Objects[first].File, manifests.Advice))
		r.workload.Unsure, r.at[ref] = append(r.workload.Unsure, ref), -1
	default:
		r.problem(d.file, object, errors.New("is also in other files"))
	}
	return nil
}

func identity(kind schema.GroupVersionKind, metadata map[string]any) error {
	switch {
	case kind.Version == "" || kind.Kind == "": // an item of a list
		return errors.New("has no apiVersion and kind")
	case metadata == nil:
		return errors.New("has no metadata; " + manifests.Advice)
	}
	for _, field := range []string{"name", "namespace"} {
		if value, ok := metadata[field]; ok && value != nil {
			if _, ok := value.(string); !ok {
				return fmt.Errorf("metadata.%s must be a string", field)
			}
		}
	}
	name, namespace := text(metadata, "name"), text(metadata, "namespace")
	if name == "" {
		return errors.New("has no metadata.name; metadata.generateName is not supported")
	}
	if wrong := pathvalidation.IsValidPathSegmentName(name); len(wrong) > 0 {
		return fmt.Errorf("metadata.name %q %s", name, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
		return fmt.Errorf("metadata.namespace %q: %s", namespace, wrong[0])
	}
	return nil
}

// resource returns the resource of a kind. For a kind that is not served, it guesses the usual
// plural, and, unless the kind is built in, that objects with a namespace are namespaced.
func (r *reader) resource(kind schema.GroupVersionKind, namespaced bool) (Resource, error) {
	if resource, ok := r.own[kind.GroupKind()]; ok {
		return resource, nil
	}
	if r.kinds != nil {
		if resource, known, err := r.kinds(kind); err != nil || known {
			return resource, err
		}
	}
	if !slices.Contains(r.workload.Guessed, kind) {
		r.workload.Guessed = append(r.workload.Guessed, kind)
	}
	if builtin, known := kptschema.Namespaced(kind.GroupVersion().String(), kind.Kind); known {
		namespaced = builtin
	}
	return Resource{guessPlural(kind), namespaced}, nil
}

// guessPlural returns the usual plural of a kind, such as gateways, policies, or classes.
func guessPlural(kind schema.GroupVersionKind) string {
	singular := strings.ToLower(kind.Kind)
	if n := len(singular); n > 1 && singular[n-1] == 'y' && strings.ContainsRune("aeiou", rune(singular[n-2])) {
		return singular + "s"
	}
	guess, _ := meta.UnsafeGuessKindToResource(kind)
	return guess.Resource
}
