package render

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Evaluate runs the function of an image. It may change its input.
type Evaluate func(image string, in functions.Input) (functions.Output, error)

// Result is the result of a render.
type Result struct {
	// Files of the package. If the render failed, they are unchanged.
	Files kpt.Files
	// Results of each function that was run, in order.
	Results porchv1alpha1.ResultList
}

// PackageError is an error in the package itself, found before any function was run.
type PackageError struct{ Err error }

func (e *PackageError) Error() string { return e.Err.Error() }

// Unwrap returns the error in the package.
func (e *PackageError) Unwrap() error { return e.Err }

// Render runs all pipelines. If there is an error, which names package and function, the files are
// unchanged. A PackageError is an error in the given files.
func Render(files kpt.Files, evaluate Evaluate) (Result, error) {
	return (*Cache)(nil).Render(files, evaluate)
}

// Render does the same as the function Render, with the cache.
func (m *Cache) Render(files kpt.Files, evaluate Evaluate) (Result, error) {
	r := &renderer{files: files, evaluate: evaluate, cache: m}
	err := r.run()
	out := files
	if err == nil {
		out, err = r.write()
	}
	if err != nil {
		r.results.ExitCode = 1
		out = files
	}
	return Result{Files: out, Results: r.results}, err
}

type renderer struct {
	files    kpt.Files
	evaluate Evaluate
	cache    *Cache
	results  porchv1alpha1.ResultList

	sources map[string]*source
	// objects are all current objects, in the order of their files.
	objects []*object
	// next is the index of the next new object in a file.
	next map[string]int
}

// object is an object of the package. pkg is its package or subpackage.
type object struct {
	functions.Item
	pkg string
	// origin is the document that it was read from; nil if a function created it.
	origin    *document
	protected []protected
}

func (r *renderer) run() error {
	dirs, err := r.orderedPackages()
	if err != nil {
		return &PackageError{err}
	}
	pipelines := make([]kpt.Pipeline, len(dirs))
	none := true
	for i, dir := range dirs {
		name := path.Join(dir, kpt.KptfileName)
		kptfile, err := kpt.ParseKptfile(r.files[name])
		if err == nil {
			err = kptfile.CheckPipeline()
		}
		if err != nil {
			return &PackageError{fmt.Errorf("%s: %w", name, err)}
		}
		pipelines[i] = kptfile.Pipeline()
		none = none && len(pipelines[i].Mutators) == 0 && len(pipelines[i].Validators) == 0
	}
	if err := r.read(); err != nil {
		return &PackageError{err}
	}
	if err := r.duplicates(); err != nil {
		return &PackageError{err}
	}
	if none {
		return nil
	}
	for _, o := range r.objects {
		o.protected = protectedFields(o.Item)
	}
	for i, dir := range dirs {
		for j, f := range pipelines[i].Mutators {
			if err := r.function(dir, "mutators", j, f); err != nil {
				return err
			}
		}
		for j, f := range pipelines[i].Validators {
			if err := r.function(dir, "validators", j, f); err != nil {
				return err
			}
		}
	}
	return r.duplicates()
}

// byLevelAnnotation on the Kptfile of the root is kpt's way to render packages before their
// subpackages.
const byLevelAnnotation = "kpt.dev/bfs-rendering"

// orderedPackages returns the directories of the packages in the order in which they are rendered:
// subpackages first or, with kpt's annotation, level by level.
func (r *renderer) orderedPackages() ([]string, error) {
	text, is := r.files[kpt.KptfileName]
	if !is {
		return r.files.Packages(), nil
	}
	root, err := kpt.ParseKptfile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	if root.Annotations()[byLevelAnnotation] == "true" {
		return r.files.PackagesByLevel(), nil
	}
	return r.files.Packages(), nil
}

// function runs one function of a package's pipeline.
func (r *renderer) function(dir, list string, index int, f kpt.Function) error {
	where := fmt.Sprintf("package %q: pipeline.%s[%d]", path.Join("/", dir)[1:], list, index)
	if dir == "" {
		where = fmt.Sprintf("pipeline.%s[%d]", list, index)
	}
	if f.Name != "" {
		where += fmt.Sprintf(" (%s)", f.Name)
	}
	image, err := imageOf(f)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	config, own, err := r.config(dir, f)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", where, image, err)
	}
	var selected []int
	in := functions.Input{Config: config}
	for i, o := range r.objects {
		if !within(dir, o.pkg) || slices.Contains(own, o) || !selects(f, o.Item) {
			continue
		}
		selected = append(selected, i)
		item := o.Item
		if list == "validators" { // their changes are dropped
			item.Node = twin(item.Node)
		}
		in.Items = append(in.Items, item)
	}
	out, err := r.evaluate(image, in)
	result := &porchv1alpha1.Result{Image: image, Stderr: out.Stderr, Results: out.Results}
	if err == nil && out.Failed() {
		err = errors.New(firstError(out.Results))
	}
	_, unknown := errors.AsType[*functions.UnknownImageError](err)
	if err != nil {
		result.ExitCode = 1
		if result.Stderr == "" && !unknown { // it has not run
			result.Stderr = err.Error()
		}
	}
	r.results.Items = append(r.results.Items, result)
	switch {
	case unknown: // it has the image
		return fmt.Errorf("%s: %w", where, err)
	case err != nil:
		return fmt.Errorf("%s: %s: %w", where, image, err)
	}
	if list == "mutators" {
		if err := r.replace(dir, selected, out.Items); err != nil {
			return fmt.Errorf("%s: %s: %w", where, image, err)
		}
		for _, o := range r.objects {
			result.Results = append(result.Results, o.restore()...)
		}
	}
	return nil
}

func imageOf(f kpt.Function) (string, error) {
	switch {
	case f.Exec != "":
		return "", errors.New("exec is not supported; use image")
	case f.Image == "":
		return "", errors.New("image is required")
	case f.Tag == "":
		return f.Image, nil
	case strings.ContainsAny(f.Tag, "<>=~^|*, "):
		return functions.Choose(f.Image, f.Tag)
	}
	name, _, _ := kpt.SplitImage(f.Image)
	return name + ":" + f.Tag, nil
}

// firstError returns the first error in the results of a function. All errors are in the results.
func firstError(results []porchv1alpha1.ResultItem) string {
	var messages []string
	for _, result := range results {
		if result.Severity != functions.Error {
			continue
		}
		message := result.Message
		if result.Field != nil {
			message = result.Field.Path + ": " + message
		}
		if ref := result.ResourceRef; ref != nil {
			message = ref.Kind + " " + path.Join(ref.Namespace, ref.Name) + ": " + message
		}
		if result.File != nil {
			message = result.File.Path + ": " + message
		}
		messages = append(messages, message)
	}
	return text.List(messages, 1)
}

// config returns the functionConfig of a function, and the objects in its file, which the function
// does not receive.
func (r *renderer) config(dir string, f kpt.Function) (*yaml.RNode, []*object, error) {
	switch {
	case f.ConfigPath != "" && len(f.ConfigMap) > 0:
		return nil, nil, errors.New("configPath and configMap are mutually exclusive")
	case f.ConfigPath != "":
		return r.configPath(dir, f.ConfigPath)
	case len(f.ConfigMap) > 0:
		return configMap(f.ConfigMap), nil, nil
	}
	return nil, nil, nil
}

func (r *renderer) configPath(dir, configPath string) (*yaml.RNode, []*object, error) {
	clean := path.Clean(configPath)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return nil, nil, fmt.Errorf("configPath %q must be a file in the package", configPath)
	}
	file := path.Join(dir, clean)
	if of := r.files.PackageOf(file); of != dir {
		return nil, nil, fmt.Errorf("configPath %q is in the subpackage %q: it must be a file in the package", configPath, of)
	}
	var own []*object
	for _, o := range r.objects {
		if o.Path == file {
			own = append(own, o)
		}
	}
	switch {
	case len(own) == 1:
		return own[0].Node.Copy(), own, nil
	case len(own) > 1:
		return nil, nil, fmt.Errorf("configPath %q must have one object, has %d", configPath, len(own))
	}
	if _, ok := r.files[file]; !ok {
		return nil, nil, fmt.Errorf("configPath %q is not in the package", configPath)
	}
	return nil, nil, fmt.Errorf("configPath %q must have one object, has none", configPath)
}

func configMap(data map[string]string) *yaml.RNode {
	node := yaml.MustParse("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: function-input\ndata: {}\n")
	node.SetDataMap(data)
	return node
}

// within reports whether a package is dir, or below it.
func within(dir, pkg string) bool {
	return dir == "" || pkg == dir || strings.HasPrefix(pkg, dir+"/")
}

func selects(f kpt.Function, item functions.Item) bool {
	matches := func(s kpt.Selector) bool { return functions.Matches(s, item) }
	return (len(f.Selectors) == 0 || slices.ContainsFunc(f.Selectors, matches)) && !slices.ContainsFunc(f.Exclude, matches)
}

// replace replaces the input of a function by its output.
func (r *renderer) replace(dir string, selected []int, items []functions.Item) error {
	type place struct {
		path  string
		index int
	}
	before := map[place]*object{}
	for _, i := range selected {
		before[place{r.objects[i].Path, r.objects[i].Index}] = r.objects[i]
		r.objects[i] = nil
	}
	output := make([]*object, 0, len(items))
	found := map[*object]bool{}
	for _, item := range items {
		if o := before[place{item.Path, item.Index}]; o != nil && !found[o] {
			found[o] = true
			o.Node = item.Node
			output = append(output, o)
			continue
		}
		o, err := r.generated(dir, item)
		if err != nil {
			return err
		}
		output = append(output, o)
	}
	for p, o := range before {
		if path.Base(p.path) == kpt.KptfileName && !found[o] {
			return fmt.Errorf("the function deleted %s, which a package must have", p.path)
		}
	}
	r.objects = slices.DeleteFunc(r.objects, func(o *object) bool { return o == nil })
	r.objects = append(r.objects, output...)
	r.order()
	return nil
}

// generated returns an object that a function created, with a file in the package of the function.
// The file is named as kpt does, unless the object has a path.
func (r *renderer) generated(dir string, item functions.Item) (*object, error) {
	kind, name := item.Kind(), item.Name()
	if kind == "" || item.APIVersion() == "" || name == "" {
		return nil, errors.New("the function created an object without apiVersion, kind or metadata.name")
	}
	file := path.Join(dir, item.Path)
	if item.Path == "" {
		file = path.Join(dir, item.Namespace(), strings.ToLower(kind)+"_"+name+".yaml")
	} else if within(dir, path.Dir(item.Path)) && dir != "" {
		file = path.Clean(item.Path) // paths of items are relative to the root
	}
	if dir != "" && !within(dir, path.Dir(file)) {
		return nil, fmt.Errorf("object %s %s cannot be written to %s, which is outside of the package %s of the function", kind, name, file, dir)
	}
	if wrong := (kpt.Files{file: ""}).Check(); len(wrong) > 0 {
		return nil, fmt.Errorf("object %s %s: %s", kind, name, wrong[0])
	}
	if path.Base(file) == kpt.KptfileName || !kpt.IsKRM(file) {
		return nil, fmt.Errorf("object %s %s cannot be written to %s", kind, name, file)
	}
	if _, taken := r.files[file]; taken && r.sources[file] == nil {
		return nil, fmt.Errorf("object %s %s cannot be written to %s, which is not a file of objects", kind, name, file)
	}
	item.Path, item.Index = file, r.next[file]
	r.next[file]++
	return &object{Item: item, pkg: r.files.PackageOf(file)}, nil
}
