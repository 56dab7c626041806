package render

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
)

// Evaluate runs the function that an image stands for. It may change what it is given.
type Evaluate func(image string, in functions.Input) (functions.Output, error)

// Result is what a rendering made.
type Result struct {
	// Files are the files of the package: those that were given if a function failed.
	Files kptpkg.Files
	// Results say how each function did that was run, in order.
	Results ResultList
}

// ResultList says how the functions of a rendering did, in the form that kpt gives it.
type ResultList struct {
	ExitCode int              `json:"exitCode"`
	Items    []FunctionResult `json:"items,omitempty"`
}

// FunctionResult says how one function did.
type FunctionResult struct {
	Image    string             `json:"image,omitempty"`
	Stderr   string             `json:"stderr,omitempty"`
	ExitCode int                `json:"exitCode"`
	Results  []functions.Result `json:"results,omitempty"`
}

// PackageError says that the package itself cannot be rendered, whatever its functions do: no function was run.
type PackageError struct{ Err error }

func (e *PackageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the package.
func (e *PackageError) Unwrap() error { return e.Err }

// Render runs all pipelines. The error names package and function; then nothing is changed. An error that is a PackageError is about
// the files that were given.
func Render(files kptpkg.Files, evaluate Evaluate) (Result, error) {
	return (*Memory)(nil).Render(files, evaluate)
}

// Render is the function of that name, with what is remembered.
func (m *Memory) Render(files kptpkg.Files, evaluate Evaluate) (Result, error) {
	r := &renderer{files: files, evaluate: evaluate, memory: m}
	if err := r.run(); err != nil {
		r.results.ExitCode = 1
		return Result{Files: files, Results: r.results}, err
	}
	out, err := r.write()
	if err != nil {
		r.results.ExitCode = 1
		return Result{Files: files, Results: r.results}, err
	}
	return Result{Files: out, Results: r.results}, nil
}

type renderer struct {
	files    kptpkg.Files
	evaluate Evaluate
	memory   *Memory
	results  ResultList

	sources map[string]*source
	// objects are all objects as they are now, in the order of their files.
	objects []*object
	// next is the place of the next object that is made in a file.
	next map[string]int
}

// object is an object of the package. pkg is the package that it belongs to.
type object struct {
	functions.Item
	pkg string
	// origin is the document that it was read from; nil if a function made it.
	origin *document
}

func (r *renderer) run() error {
	dirs := r.files.Packages()
	pipelines := make([]kptpkg.Pipeline, len(dirs))
	none := true
	for i, dir := range dirs {
		pipeline, err := readPipeline(r.files[path.Join(dir, kptpkg.KptfileName)])
		if err != nil {
			return &PackageError{fmt.Errorf("%s: %w", path.Join(dir, kptpkg.KptfileName), err)}
		}
		pipelines[i] = pipeline
		none = none && len(pipeline.Mutators) == 0 && len(pipeline.Validators) == 0
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

// notSupported is how the YAML library says that it does not know a field. Its lines are those of an excerpt.
var notSupported = regexp.MustCompile(`(?:yaml: unmarshal errors: )?line \d+: field (\S+) not found in type \S+`)

// readPipeline reads the pipeline of a Kptfile. A field of it that is not known is an error: it would change what the pipeline does.
func readPipeline(content string) (kptpkg.Pipeline, error) {
	kptfile, err := kptpkg.ParseKptfile(content)
	if err != nil {
		return kptpkg.Pipeline{}, err
	}
	root, err := yaml.Parse(content)
	if err != nil {
		return kptpkg.Pipeline{}, err
	}
	node, err := root.Pipe(yaml.Lookup("pipeline"))
	if err != nil || node.IsNilOrEmpty() {
		return kptpkg.Pipeline{}, err
	}
	text, err := node.String()
	if err != nil {
		return kptpkg.Pipeline{}, err
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	var strict kptpkg.Pipeline
	if err := decoder.Decode(&strict); err != nil {
		return kptpkg.Pipeline{}, fmt.Errorf("pipeline: %s", notSupported.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), "field $1 is not supported"))
	}
	return kptfile.Pipeline(), nil
}

// function runs one function of a package's pipeline.
func (r *renderer) function(dir, list string, index int, f kptpkg.Function) error {
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
		if list == "validators" { // what one changes is not kept
			item.Node = twin(item.Node)
		}
		in.Items = append(in.Items, item)
	}
	out, err := r.evaluate(image, in)
	result := FunctionResult{Image: image, Stderr: out.Stderr, Results: out.Results}
	if err == nil && out.Failed() {
		err = errors.New(firstError(out.Results))
	}
	if err != nil {
		result.ExitCode = 1
		if result.Stderr == "" {
			result.Stderr = err.Error()
		}
	}
	r.results.Items = append(r.results.Items, result)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", where, image, err)
	}
	if list == "mutators" {
		if err := r.replace(dir, selected, out.Items); err != nil {
			return fmt.Errorf("%s: %s: %w", where, image, err)
		}
	}
	return nil
}

func imageOf(f kptpkg.Function) (string, error) {
	switch {
	case f.Exec != "":
		return "", errors.New("exec is not supported: programs are not run here; use an image")
	case f.Image == "":
		return "", errors.New("image is required")
	case f.Tag == "":
		return f.Image, nil
	case strings.ContainsAny(f.Tag, "<>=~^|*, "):
		return "", fmt.Errorf("tag %q: constraints are not supported; give an exact tag", f.Tag)
	}
	image, _, _ := strings.Cut(f.Image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image + ":" + f.Tag, nil
}

// firstError is what a function's results say first; the rest is in the results.
func firstError(results []functions.Result) string {
	var texts []string
	for _, result := range results {
		if result.Severity != functions.Error {
			continue
		}
		text := result.Message
		if result.Field != nil {
			text = result.Field.Path + " " + text
		}
		if ref := result.ResourceRef; ref != nil {
			text = ref.Kind + " " + path.Join(ref.Namespace, ref.Name) + ": " + text
		}
		if result.File != nil {
			text = result.File.Path + ": " + text
		}
		texts = append(texts, text)
	}
	if more := len(texts) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", texts[0], more)
	}
	return texts[0]
}

// config returns the functionConfig of a function, and the objects that are in its file: the function is not given those.
func (r *renderer) config(dir string, f kptpkg.Function) (*yaml.RNode, []*object, error) {
	switch {
	case f.ConfigPath != "" && len(f.ConfigMap) > 0:
		return nil, nil, errors.New("configPath and configMap exclude each other")
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
		return nil, nil, fmt.Errorf("configPath %q must be below the package", configPath)
	}
	file := path.Join(dir, clean)
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
		return nil, nil, fmt.Errorf("configPath %q has %d objects, want one", configPath, len(own))
	}
	if _, ok := r.files[file]; !ok {
		return nil, nil, fmt.Errorf("configPath %q is not in the package", configPath)
	}
	return nil, nil, fmt.Errorf("configPath %q has no object", configPath)
}

func configMap(data map[string]string) *yaml.RNode {
	node := yaml.MustParse("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: function-input\ndata: {}\n")
	node.SetDataMap(data)
	return node
}

// within tells whether a package is another, or below it.
func within(dir, pkg string) bool {
	return dir == "" || pkg == dir || strings.HasPrefix(pkg, dir+"/")
}

func selects(f kptpkg.Function, item functions.Item) bool {
	matches := func(s kptpkg.Selector) bool { return functions.Selector(s).Matches(item) }
	return (len(f.Selectors) == 0 || slices.ContainsFunc(f.Selectors, matches)) && !slices.ContainsFunc(f.Exclude, matches)
}

// replace puts what a function made in place of what it was given.
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
	made := make([]*object, 0, len(items))
	kept := map[*object]bool{}
	for _, item := range items {
		if o := before[place{item.Path, item.Index}]; o != nil && !kept[o] {
			kept[o] = true
			o.Node = item.Node
			made = append(made, o)
			continue
		}
		o, err := r.generated(dir, item)
		if err != nil {
			return err
		}
		made = append(made, o)
	}
	for p, o := range before {
		if path.Base(p.path) == kptpkg.KptfileName && !kept[o] {
			return fmt.Errorf("%s was deleted; it makes the package", p.path)
		}
	}
	r.objects = slices.DeleteFunc(r.objects, func(o *object) bool { return o == nil })
	r.objects = append(r.objects, made...)
	r.order()
	return nil
}

// generated is an object that a function made, with a file in the function's package: as kpt names it, unless it says its own.
func (r *renderer) generated(dir string, item functions.Item) (*object, error) {
	kind, name := item.Kind(), item.Name()
	if kind == "" || item.APIVersion() == "" || name == "" {
		return nil, errors.New("an object that was made has no apiVersion, kind or metadata.name")
	}
	file := path.Join(dir, item.Path)
	if item.Path == "" {
		file = path.Join(dir, item.Namespace(), strings.ToLower(kind)+"_"+name+".yaml")
	} else if within(dir, path.Dir(item.Path)) && dir != "" {
		file = path.Clean(item.Path) // items' paths are those below the root
	}
	if wrong := (kptpkg.Files{file: ""}).Check(); len(wrong) > 0 {
		return nil, fmt.Errorf("object %s %s: %s", kind, name, wrong[0])
	}
	if path.Base(file) == kptpkg.KptfileName || !kptpkg.IsKRM(file) {
		return nil, fmt.Errorf("object %s %s cannot be written to %s", kind, name, file)
	}
	if _, taken := r.files[file]; taken && r.sources[file] == nil {
		return nil, fmt.Errorf("object %s %s cannot be written to %s, which has no objects", kind, name, file)
	}
	item.Path, item.Index = file, r.next[file]
	r.next[file]++
	return &object{Item: item, pkg: r.files.PackageOf(file)}, nil
}
