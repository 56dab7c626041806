package functions

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Input is the input of a function, which owns it: objects are changed in place.
type Input struct {
	// Items are the objects, in order.
	Items []Item
	// Config is the functionConfig; nil if there is none.
	Config *yaml.RNode
}

// Output is the output of a function.
type Output struct {
	Items   []Item
	Results []porchv1alpha1.ResultItem
	// Stderr is the text that the function printed.
	Stderr string
}

// Failed reports whether the function failed: whether any result is an error.
func (o Output) Failed() bool {
	return slices.ContainsFunc(o.Results, func(r porchv1alpha1.ResultItem) bool { return r.Severity == Error })
}

// function is the implementation of a function.
type function struct {
	run func(*call) error
	// minors are the supported versions, in order: "v0.4" is "v0.4.0" and all its other patches,
	// unless since names the first that is supported.
	minors []string
	since  map[string]uint64
}

// native are all functions, by image name.
var native = map[string]function{
	"apply-replacements":            {run: applyReplacements, minors: []string{"v0.1"}},
	"apply-setters":                 {run: applySetters, minors: []string{"v0.1", "v0.2", "v0.3"}},
	"delete-annotations":            {run: deleteAnnotations, minors: []string{"v0.1"}},
	"delete-resources":              {run: deleteResources, minors: []string{"v0.1"}},
	"ensure-name-substring":         {run: ensureNameSubstring, minors: []string{"v0.1", "v0.2"}},
	"kubeconform":                   {run: validateSchemas, minors: []string{"v0.1"}},
	"kubeval":                       {run: validateSchemas, minors: []string{"v0.1", "v0.2", "v0.3"}},
	"remove-local-config-resources": {run: removeLocalConfig, minors: []string{"v0.1"}},
	"search-replace":                {run: searchReplace, minors: []string{"v0.1", "v0.2"}},
	"set-annotations":               {run: setAnnotations, minors: []string{"v0.1"}},
	"set-image":                     {run: setImage, minors: []string{"v0.1", "v0.2"}},
	"set-labels":                    {run: setLabels, minors: []string{"v0.1", "v0.2"}},
	"set-namespace":                 {run: setNamespace, minors: []string{"v0.1", "v0.2", "v0.3", "v0.4"}, since: map[string]uint64{"v0.3": 3}}, // v0.3.2 is another one
	"starlark":                      {run: runStarlark, minors: []string{"v0.3", "v0.4", "v0.5"}},
	"upsert-resource":               {run: upsertResource, minors: []string{"v0.1", "v0.2"}},
}

// UnknownImageError is the error for an image that is not supported.
type UnknownImageError struct{ Image, Reason string }

func (e *UnknownImageError) Error() string { return fmt.Sprintf("image %q %s", e.Image, e.Reason) }

// notBuiltIn is the reason for a name that is not known.
const notBuiltIn = "is not a built-in function, and no function host of this server has it: see docs/functions.md"

var patchTag = regexp.MustCompile(`^v?(\d+)\.(\d+)(\.(\d+))?$`)

// resolve returns the name of the function of an image and its version, without the patch. It
// ignores the registry.
func resolve(image string) (name, minor string, err error) {
	repository, digest, pinned := strings.Cut(image, "@")
	base := path.Base(repository)
	name, tag, tagged := strings.Cut(base, ":")
	f, ok := native[name]
	switch {
	case !ok || repository == "" || strings.HasSuffix(repository, "/"):
		return "", "", &UnknownImageError{image, notBuiltIn}
	case pinned && !tagged:
		return "", "", &UnknownImageError{image, fmt.Sprintf("has digest %s but no tag, which is needed to find its version", digest)}
	case !tagged || tag == "latest" || tag == "unstable":
		return name, f.minors[len(f.minors)-1], nil
	}
	if m := patchTag.FindStringSubmatch(tag); m != nil {
		minor := "v" + m[1] + "." + m[2]
		patch, err := strconv.ParseUint(m[4], 10, 64)
		if latest := m[4] == ""; slices.Contains(f.minors, minor) && (latest || err == nil && patch >= f.since[minor]) {
			return name, minor, nil
		}
	}
	return "", "", &UnknownImageError{image, fmt.Sprintf("has the unsupported tag %q; built in are %s", tag, f.versions())}
}

// versions lists the supported versions for users.
func (f function) versions() string {
	all := slices.Clone(f.minors)
	for i, minor := range all {
		if since := f.since[minor]; since > 0 {
			all[i] = fmt.Sprintf("%s (from patch %d)", minor, since)
		}
	}
	return strings.Join(all, ", ")
}

// maxPatch is the highest patch of a version that is tried for a constraint.
const maxPatch = 99

// Choose returns the image of the highest supported version of a function that satisfies a
// constraint of the format of github.com/Masterminds/semver, as kpt's field "tag" has it. Any tag
// of the image is ignored.
func Choose(image, constraint string) (string, error) {
	name, _, _ := kpt.SplitImage(image)
	f, ok := native[path.Base(name)]
	if !ok {
		return "", &UnknownImageError{image, notBuiltIn}
	}
	fits, err := semver.NewConstraint(constraint)
	if err != nil {
		return "", fmt.Errorf("tag %q is neither a version nor a constraint: %w", constraint, err)
	}
	for _, minor := range slices.Backward(f.minors) {
		v, err := semver.NewVersion(minor)
		if err != nil {
			return "", err
		}
		for patch := f.since[minor]; patch <= maxPatch; patch++ {
			if fits.Check(semver.New(v.Major(), v.Minor(), patch, "", "")) {
				return name + ":" + minor, nil
			}
		}
	}
	return "", &UnknownImageError{name, fmt.Sprintf("has no version that fits tag %q; built in are %s", constraint, f.versions())}
}

// Run runs the function of an image. The results may have more details than the error, and may have
// errors if it is nil.
func Run(image string, in Input) (Output, error) {
	name, minor, err := resolve(image)
	if err != nil {
		return Output{}, err
	}
	for i, item := range in.Items {
		if item.Node == nil || item.Node.YNode() == nil || item.Node.YNode().Kind != yaml.MappingNode {
			return Output{}, fmt.Errorf("item %d is not an object", i)
		}
	}
	c := &call{name: name, minor: minor, items: in.Items, config: in.Config}
	var before secrets
	before.of(in.Items)
	err = c.withhold(&before, c.run())
	if c.dropped > 0 {
		c.results = append(c.results, porchv1alpha1.ResultItem{Message: text.More(c.dropped) + text.Plural(c.dropped, " result", " results"), Severity: Info})
	}
	return Output{Items: c.items, Results: c.results, Stderr: c.stderr.String()}, err
}

// call is one run of a function.
type call struct {
	name    string
	minor   string
	items   []Item
	config  *yaml.RNode
	results []porchv1alpha1.ResultItem
	// dropped is the number of results that are left out.
	dropped int
	stderr  strings.Builder
}

// maxResults bounds the results of a function, all of which are in the response to the user.
const maxResults = 1000

// add adds a result. Beyond the limit it adds only the first error, without which the function
// would not fail.
func (c *call) add(r porchv1alpha1.ResultItem) {
	failed := func(r porchv1alpha1.ResultItem) bool { return r.Severity == Error }
	if len(c.results) >= maxResults && (!failed(r) || slices.ContainsFunc(c.results, failed)) {
		c.dropped++
		return
	}
	c.results = append(c.results, r)
}

// errObject is the error for a panic of the YAML library on an invalid object.
var errObject = errors.New("cannot process an object")

func (c *call) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errObject, r)
		}
	}()
	return native[c.name].run(c)
}

// info adds a result of severity Info.
func (c *call) info(format string, args ...any) {
	c.add(porchv1alpha1.ResultItem{Message: fmt.Sprintf(format, args...), Severity: Info})
}

// of adds a result about a field of an item.
func (c *call) of(item Item, severity, field, format string, args ...any) {
	ref := &porchv1alpha1.ResourceIdentifier{Name: item.Name(), Namespace: item.Namespace()}
	ref.APIVersion, ref.Kind = item.APIVersion(), item.Kind()
	r := porchv1alpha1.ResultItem{Message: fmt.Sprintf(format, args...), Severity: severity, ResourceRef: ref}
	if field != "" {
		r.Field = &porchv1alpha1.Field{Path: field}
	}
	if item.Path != "" {
		r.File = &porchv1alpha1.File{Path: item.Path, Index: item.Index}
	}
	c.add(r)
}
