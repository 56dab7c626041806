package functions

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/schema"
)

const (
	// maxSteps bounds the steps of a program, which take some seconds. It does not bound memory.
	maxSteps = 50_000_000
	// maxPrinted bounds the output of a program, in bytes.
	maxPrinted = 64 << 10
	// maxValueDepth bounds the depth of values that a program creates.
	maxValueDepth = 200
)

// dialect has the language options in the documentation of the function.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// runStarlark runs the program in the functionConfig, which reads and changes
// ctx.resource_list["items"]. Unchanged parts retain their comments, order and style.
func runStarlark(c *call) error {
	source, err := c.program()
	if err != nil {
		return err
	}
	config, err := toStarlark(c.config.YNode(), 0)
	if err != nil {
		return fmt.Errorf("functionConfig: %w", err)
	}
	items := make([]starlark.Value, 0, len(c.items))
	origin := map[*starlark.Dict]int{}
	for i, item := range c.items {
		value, err := toStarlark(withPath(item), 0)
		if err != nil {
			return fmt.Errorf("%s: %w", item, err)
		}
		items = append(items, value)
		origin[value.(*starlark.Dict)] = i //nolint:forcetypeassert // an object is a mapping
	}
	list := starlark.NewDict(4)
	for _, field := range []struct {
		key   string
		value starlark.Value
	}{
		{"apiVersion", starlark.String("config.kubernetes.io/v1")},
		{"kind", starlark.String("ResourceList")},
		{"functionConfig", config},
		{"items", starlark.NewList(items)},
	} {
		if err := list.SetKey(starlark.String(field.key), field.value); err != nil {
			return err
		}
	}
	if err := c.execute(source, list); err != nil {
		return err
	}
	return c.collect(list, origin)
}

// program returns the source in the functionConfig.
func (c *call) program() (string, error) {
	var config struct {
		Source string    `yaml:"source"`
		Params yaml.Node `yaml:"params"`
	}
	// All keys of a ConfigMap but source are parameters.
	err := c.read("StarlarkRun", &config, func(data map[string]string) { config.Source = data["source"] })
	if err == nil && config.Source == "" {
		err = errors.New("functionConfig: source is required: the Starlark program")
	}
	return config.Source, err
}

// withPath returns a copy of an object with the annotations of its position.
func withPath(item Item) *yaml.Node {
	n := yaml.CopyYNode(item.root())
	if annotations := ensureMapping(n, "metadata", "annotations"); annotations != nil && item.Path != "" {
		index := strconv.Itoa(item.Index)
		for _, pair := range [][2]string{
			{IndexAnnotation, index}, {PathAnnotation, item.Path}, {LegacyIndexAnnotation, index}, {LegacyPathAnnotation, item.Path},
		} {
			kpt.Set(annotations, pair[0], stringNode(pair[1]))
		}
	}
	return n
}

func (c *call) execute(source string, list *starlark.Dict) error {
	thread := &starlark.Thread{
		Name: c.name,
		Print: func(_ *starlark.Thread, message string) {
			if c.stderr.Len() < maxPrinted {
				c.stderr.WriteString(message[:min(len(message), maxPrinted)] + "\n")
			}
		},
		Load: load,
	}
	thread.SetMaxExecutionSteps(maxSteps)
	exceeded := false
	thread.OnMaxSteps = func(thread *starlark.Thread) {
		exceeded = true
		thread.Cancel(fmt.Sprintf("the program took more than %d steps", maxSteps))
	}
	_, err := starlark.ExecFileOptions(dialect, thread, "source", source, starlark.StringDict{"ctx": newContext(list)})
	if exceeded {
		return &RunawayError{fmt.Sprintf("starlark: the program took more than %d steps", maxSteps)}
	}
	if failed, ok := errors.AsType[*starlark.EvalError](err); ok {
		fmt.Fprintln(&c.stderr, failed.Backtrace())
		for _, frame := range slices.Backward(failed.CallStack) {
			if at := frame.Pos; at.Line > 0 && at.Filename() == "source" {
				return fmt.Errorf("starlark: %s (line %d)", failed.Msg, at.Line)
			}
		}
		return fmt.Errorf("starlark: %s", failed.Msg)
	}
	if err != nil {
		return fmt.Errorf("starlark: %w", err)
	}
	return nil
}

// RunawayError is the error if a function was stopped because it took too many steps.
type RunawayError struct{ Reason string }

func (e *RunawayError) Error() string { return e.Reason }

// context is ctx in programs: resource_list, environment, which is empty, and open_api.
type context struct {
	starlark.HasAttrs
	openAPI starlark.Value
}

func newContext(list *starlark.Dict) *context {
	return &context{HasAttrs: starlarkstruct.FromStringDict(starlark.String("ctx"), starlark.StringDict{
		"resource_list": list, "environment": starlark.NewDict(0), "open_api": starlark.None,
	})}
}

// Attr returns an attribute. It reads the schemas, which takes a while, only if they are used.
func (c *context) Attr(name string) (starlark.Value, error) {
	if name != "open_api" {
		return c.HasAttrs.Attr(name)
	}
	if c.openAPI == nil {
		definitions, err := schema.Definitions()
		if err != nil {
			return nil, err
		}
		parsed, err := yaml.Parse(string(definitions))
		if err != nil {
			return nil, err
		}
		if c.openAPI, err = toStarlark(parsed.YNode(), 0); err != nil {
			return nil, err
		}
		c.openAPI.Freeze()
	}
	return c.openAPI, nil
}

// collect replaces the items by those of the program.
func (c *call) collect(list *starlark.Dict, origin map[*starlark.Dict]int) error {
	value, _, err := list.Get(starlark.String("items"))
	if err != nil {
		return err
	}
	items, ok := value.(starlark.Iterable)
	if !ok {
		return fmt.Errorf(`starlark: ctx.resource_list["items"] must be a list, is of type %s`, cmp.Or(value, starlark.Value(starlark.None)).Type())
	}
	byPlace := map[string]int{}
	for i, item := range c.items {
		byPlace[item.Path+":"+strconv.Itoa(item.Index)] = i
	}
	var out []Item
	matched := map[int]bool{}
	iterator := items.Iterate()
	defer iterator.Done()
	var element starlark.Value
	for i := 0; iterator.Next(&element); i++ {
		dict, ok := element.(*starlark.Dict)
		if !ok {
			return fmt.Errorf(`starlark: ctx.resource_list["items"][%d] must be a dict, is of type %s`, i, element.Type())
		}
		n, err := fromStarlark(dict, 0)
		if err != nil {
			return fmt.Errorf(`starlark: ctx.resource_list["items"][%d]: %w`, i, err)
		}
		created := Item{Node: yaml.NewRNode(n)}
		if created.APIVersion() == "" || created.Kind() == "" {
			return fmt.Errorf(`starlark: ctx.resource_list["items"][%d] is not an object: apiVersion and kind are required`, i)
		}
		index := kpt.TextOf(kpt.Get(n, "metadata", "annotations", IndexAnnotation))
		created.Path = removePath(&created)
		from, same := origin[dict]
		if !same || matched[from] {
			from, same = byPlace[created.Path+":"+index]
		}
		if !same || matched[from] {
			out = append(out, created)
			continue
		}
		matched[from] = true
		out = append(out, changed(c.items[from], created))
	}
	c.items = out
	return nil
}

// changed returns an item with the content of another one, which a program made of it. Unchanged
// parts retain their comments, order and style.
func changed(item, made Item) Item {
	n := made.root()
	if made.Path != "" && made.Path != item.Path { // moved
		item.Path, item.Index = made.Path, -1
	}
	hadAnnotations := kpt.Get(item.root(), "metadata", "annotations") != nil
	if annotations := kpt.Get(n, "metadata", "annotations"); !hadAnnotations && annotations != nil && len(annotations.Content) == 0 {
		kpt.Remove(kpt.Get(n, "metadata"), "annotations") // added by withPath
	} else if hadAnnotations && annotations == nil && len(kpt.Get(item.root(), "metadata", "annotations").Content) == 0 {
		kpt.Set(kpt.Get(n, "metadata"), "annotations", yaml.CopyYNode(kpt.Get(item.root(), "metadata", "annotations")))
	}
	patch(item.root(), n)
	return item
}

// load loads a library. Libraries need no files, no network and no clock.
func load(_ *starlark.Thread, name string) (starlark.StringDict, error) {
	if library, ok := libraries[name]; ok {
		return library, nil
	}
	return nil, fmt.Errorf("library %q does not exist; libraries are %s", name, strings.Join(slices.Sorted(maps.Keys(libraries)), ", "))
}
