package functions

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg/schema"
)

const (
	// maxSteps bounds what a program computes: some seconds. It does not bound memory.
	maxSteps = 50_000_000
	// maxPrinted bounds what a program prints.
	maxPrinted = 64 << 10
	// maxValueDepth bounds how deep values nest that a program makes.
	maxValueDepth = 200
)

// dialect is what the function's documentation says of the language.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// runStarlark runs the program in the functionConfig. It sees and changes ctx.resource_list["items"]. Comments, order and style of
// what it does not change stay.
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

// program is the source in the functionConfig.
func (c *call) program() (string, error) {
	var source *yaml.Node
	if c.configKind() == "StarlarkRun" {
		var config struct {
			Source string    `yaml:"source"`
			Params yaml.Node `yaml:"params"`
		}
		if err := c.decode("StarlarkRun", &config); err != nil {
			return "", err
		}
		source = get(c.config.YNode(), "source")
	} else {
		if c.configKind() != "ConfigMap" {
			_, err := c.configRoot("ConfigMap", "StarlarkRun")
			return "", err
		}
		if _, err := c.pairs(); err != nil { // all keys but source are parameters
			return "", err
		}
		source = get(c.config.YNode(), "data", "source")
	}
	if text(source) == "" {
		return "", errors.New("functionConfig: source is required: the Starlark program")
	}
	return source.Value, nil
}

// withPath is an object with the annotations that say where it is written.
func withPath(item Item) *yaml.Node {
	n := yaml.CopyYNode(item.root())
	if annotations := ensureMapping(n, "metadata", "annotations"); annotations != nil && item.Path != "" {
		index := strconv.Itoa(item.Index)
		for _, pair := range [][2]string{
			{IndexAnnotation, index}, {PathAnnotation, item.Path}, {LegacyIndexAnnotation, index}, {LegacyPathAnnotation, item.Path},
		} {
			put(annotations, pair[0], stringNode(pair[1]))
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
	runaway := false
	thread.OnMaxSteps = func(thread *starlark.Thread) {
		runaway = true
		thread.Cancel(fmt.Sprintf("it took more than %d steps", maxSteps))
	}
	_, err := starlark.ExecFileOptions(dialect, thread, "source", source, starlark.StringDict{"ctx": &program{list: list}})
	if runaway {
		return &RunawayError{fmt.Sprintf("starlark: it took more than %d steps", maxSteps)}
	}
	if failed, ok := errors.AsType[*starlark.EvalError](err); ok {
		fmt.Fprintln(&c.stderr, failed.Backtrace())
		where := ""
		if depth := len(failed.CallStack); depth > 0 {
			for i := depth - 1; i >= 0; i-- {
				if at := failed.CallStack[i].Pos; at.Line > 0 && at.Filename() == "source" {
					where = fmt.Sprintf(" (line %d)", at.Line)
					break
				}
			}
		}
		return fmt.Errorf("starlark: %s%s", failed.Msg, where)
	}
	if err != nil {
		return fmt.Errorf("starlark: %w", err)
	}
	return nil
}

// RunawayError says that a function was stopped, since it would have gone on for ever or nearly so.
type RunawayError struct{ Reason string }

func (e *RunawayError) Error() string { return e.Reason }

// program is what programs know as ctx.
type program struct {
	list *starlark.Dict
	open starlark.Value
}

// Attr returns ctx.resource_list, ctx.environment, which is empty, and ctx.open_api.
func (p *program) Attr(name string) (starlark.Value, error) {
	switch name {
	case "resource_list":
		return p.list, nil
	case "environment":
		return starlark.NewDict(0), nil
	case "open_api":
		if p.open == nil {
			text, err := schema.Definitions()
			if err != nil {
				return nil, err
			}
			parsed, err := yaml.Parse(string(text))
			if err != nil {
				return nil, err
			}
			if p.open, err = toStarlark(parsed.YNode(), 0); err != nil {
				return nil, err
			}
			p.open.Freeze()
		}
		return p.open, nil
	}
	return nil, nil
}

// AttrNames lists what ctx has.
func (p *program) AttrNames() []string { return []string{"environment", "open_api", "resource_list"} }

// String is how ctx prints.
func (p *program) String() string { return "ctx" }

// Type is ctx's.
func (p *program) Type() string { return "ctx" }

// Freeze does nothing: the list stays open to changes.
func (p *program) Freeze() {}

// Truth says that there is a ctx.
func (p *program) Truth() starlark.Bool { return true }

// Hash fails: ctx is no key.
func (p *program) Hash() (uint32, error) { return 0, errors.New("unhashable type: ctx") }

// collect takes the items as the program left them.
func (c *call) collect(list *starlark.Dict, origin map[*starlark.Dict]int) error {
	value, _, err := list.Get(starlark.String("items"))
	if err != nil {
		return err
	}
	items, ok := value.(starlark.Iterable)
	if !ok {
		return fmt.Errorf(`starlark: ctx.resource_list["items"] is of type %s, want list`, typeName(value))
	}
	byPlace := map[string]int{}
	for i, item := range c.items {
		byPlace[item.Path+":"+strconv.Itoa(item.Index)] = i
	}
	var out []Item
	taken := map[int]bool{}
	iterator := items.Iterate()
	defer iterator.Done()
	var element starlark.Value
	for i := 0; iterator.Next(&element); i++ {
		dict, ok := element.(*starlark.Dict)
		if !ok {
			return fmt.Errorf(`starlark: ctx.resource_list["items"][%d] is of type %s, want dict`, i, element.Type())
		}
		n, err := fromStarlark(dict, 0)
		if err != nil {
			return fmt.Errorf(`starlark: ctx.resource_list["items"][%d]: %w`, i, err)
		}
		made := Item{Node: yaml.NewRNode(n)}
		if made.APIVersion() == "" || made.Kind() == "" {
			return fmt.Errorf(`starlark: ctx.resource_list["items"][%d] is no object: apiVersion and kind are required`, i)
		}
		index := text(get(n, "metadata", "annotations", IndexAnnotation))
		made.Path = takePath(&made)
		from, same := origin[dict]
		if !same || taken[from] {
			from, same = byPlace[made.Path+":"+index]
		}
		if !same || taken[from] {
			out = append(out, made)
			continue
		}
		taken[from] = true
		item := c.items[from]
		if made.Path != "" && made.Path != item.Path { // moved
			item.Path, item.Index = made.Path, -1
		}
		hadAnnotations := get(item.root(), "metadata", "annotations") != nil
		if annotations := get(n, "metadata", "annotations"); !hadAnnotations && annotations != nil && len(annotations.Content) == 0 {
			remove(get(n, "metadata"), "annotations") // we made it
		} else if hadAnnotations && annotations == nil && len(get(item.root(), "metadata", "annotations").Content) == 0 {
			put(get(n, "metadata"), "annotations", yaml.CopyYNode(get(item.root(), "metadata", "annotations")))
		}
		patch(item.root(), n)
		out = append(out, item)
	}
	c.items = out
	return nil
}

func typeName(value starlark.Value) string {
	if value == nil {
		return "nothing"
	}
	return value.Type()
}

// load gives programs the libraries that need neither files nor network nor time.
func load(_ *starlark.Thread, name string) (starlark.StringDict, error) {
	if library, ok := libraries[name]; ok {
		return library, nil
	}
	return nil, fmt.Errorf("%q cannot be loaded; what can be is %s", name, strings.Join(libraryNames(), ", "))
}
