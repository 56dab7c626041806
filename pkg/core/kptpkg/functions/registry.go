package functions

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Input is what a function is given. It owns it: objects are changed in place.
type Input struct {
	// Items are the objects, in order.
	Items []Item
	// Config is the functionConfig; nil if there is none.
	Config *yaml.RNode
}

// Output is what a function gives back.
type Output struct {
	Items   []Item
	Results []Result
	// Stderr is what the function printed.
	Stderr string
}

// Failed tells whether a result is an error: then the function has failed.
func (o Output) Failed() bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool { return r.Severity == Error })
}

// function is one of ours.
type function struct {
	run func(*call) error
	// minors are the versions, "v0.4" for "v0.4.0" and all other patches of it, whose documentation it follows; the last is the latest.
	minors []string
}

// native are all functions by the names of their images.
var native = map[string]function{
	"apply-replacements":            {applyReplacements, []string{"v0.1"}},
	"apply-setters":                 {applySetters, []string{"v0.1", "v0.2", "v0.3"}},
	"delete-annotations":            {deleteAnnotations, []string{"v0.1"}},
	"delete-resources":              {deleteResources, []string{"v0.1"}},
	"ensure-name-substring":         {ensureNameSubstring, []string{"v0.1", "v0.2"}},
	"kubeconform":                   {validateSchemas, []string{"v0.1"}},
	"kubeval":                       {validateSchemas, []string{"v0.1", "v0.2", "v0.3"}},
	"remove-local-config-resources": {removeLocalConfig, []string{"v0.1"}},
	"search-replace":                {searchReplace, []string{"v0.1", "v0.2"}},
	"set-annotations":               {setAnnotations, []string{"v0.1"}},
	"set-image":                     {setImage, []string{"v0.1", "v0.2"}},
	"set-labels":                    {setLabels, []string{"v0.1", "v0.2"}},
	"set-namespace":                 {setNamespace, []string{"v0.1", "v0.2", "v0.4"}}, // what v0.3 does changed within it
	"starlark":                      {runStarlark, []string{"v0.3", "v0.4", "v0.5"}},
	"upsert-resource":               {upsertResource, []string{"v0.1", "v0.2"}},
}

// Known lists the images that Run takes, sorted, with their versions.
func Known() []string {
	var known []string
	for _, name := range slices.Sorted(maps.Keys(native)) {
		known = append(known, name+":"+strings.Join(native[name].minors, ","))
	}
	return known
}

// UnknownImageError says that an image is none of ours, and lists those that are.
type UnknownImageError struct{ Image, Reason string }

func (e *UnknownImageError) Error() string {
	return fmt.Sprintf("image %q %s; known are (any patch version, latest, unstable): %s", e.Image, e.Reason, strings.Join(Known(), "; "))
}

var patchTag = regexp.MustCompile(`^v?(\d+)\.(\d+)(\.\d+)?$`)

// Resolve returns the name of the function that an image stands for. The registry does not matter.
func Resolve(image string) (string, error) {
	name, _, err := resolve(image)
	return name, err
}

// resolve returns the name of a function and its version, without the patch.
func resolve(image string) (name, minor string, err error) {
	repository, digest, pinned := strings.Cut(image, "@")
	base := path.Base(repository)
	name, tag, tagged := strings.Cut(base, ":")
	f, ok := native[name]
	switch {
	case !ok || repository == "" || strings.HasSuffix(repository, "/"):
		return "", "", &UnknownImageError{image, "is no function that is known"}
	case pinned && !tagged:
		return "", "", &UnknownImageError{image, fmt.Sprintf("is given by digest %s, which says nothing of its version: give a tag", digest)}
	case !tagged || tag == "latest" || tag == "unstable":
		return name, f.minors[len(f.minors)-1], nil
	}
	if m := patchTag.FindStringSubmatch(tag); len(m) > 2 {
		if minor := "v" + m[1] + "." + m[2]; slices.Contains(f.minors, minor) {
			return name, minor, nil
		}
	}
	return "", "", &UnknownImageError{image, fmt.Sprintf("has tag %q, which is not known", tag)}
}

// Run runs the function that an image stands for. Results may say more than the error, and may be errors without one.
func Run(image string, in Input) (Output, error) {
	name, minor, err := resolve(image)
	if err != nil {
		return Output{}, err
	}
	for i, item := range in.Items {
		if item.Node == nil || item.Node.YNode() == nil || item.Node.YNode().Kind != yaml.MappingNode {
			return Output{}, fmt.Errorf("item %d is no object", i)
		}
	}
	c := &call{name: name, minor: minor, items: in.Items, config: in.Config}
	var before secrets
	before.of(in.Items)
	err = c.withhold(&before, c.run())
	if c.dropped > 0 {
		c.results = append(c.results, Result{Message: fmt.Sprintf("… and %d more results", c.dropped), Severity: Info})
	}
	return Output{Items: c.items, Results: c.results, Stderr: c.stderr.String()}, err
}

// call is one run of a function.
type call struct {
	name    string
	minor   string
	items   []Item
	config  *yaml.RNode
	results []Result
	// dropped counts the results that are left out.
	dropped int
	stderr  strings.Builder
}

// maxResults bounds what a function says: all of it goes to whoever changed the package.
const maxResults = 1000

// add adds a result; of those beyond the limit the first error, without which the function would not have failed.
func (c *call) add(r Result) {
	failed := func(r Result) bool { return r.Severity == Error }
	if len(c.results) >= maxResults && (!failed(r) || slices.ContainsFunc(c.results, failed)) {
		c.dropped++
		return
	}
	c.results = append(c.results, r)
}

// errObject stands for a panic of YAML's library on an object that is not what it looks like.
var errObject = errors.New("an object could not be handled")

func (c *call) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errObject, r)
		}
	}()
	return native[c.name].run(c)
}

// info adds a result that says what was done.
func (c *call) info(format string, args ...any) {
	c.add(Result{Message: fmt.Sprintf(format, args...), Severity: Info})
}

// of adds a result about a field of an item.
func (c *call) of(item Item, severity Severity, field, format string, args ...any) {
	r := Result{Message: fmt.Sprintf(format, args...), Severity: severity, ResourceRef: item.ref()}
	if field != "" {
		r.Field = &Field{Path: field}
	}
	if item.Path != "" {
		r.File = &File{Path: item.Path, Index: item.Index}
	}
	c.add(r)
}
