package functions

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Container is what a function in a container answers.
type Container struct {
	// Stdout is a ResourceList in YAML, as the function specification of kustomize has it.
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr,omitempty"`
	ExitCode int    `json:"exitCode,omitempty"`
}

// RunContainer runs a function that is not built in: run gets a ResourceList in YAML as the input
// of the program. What the function leaves unchanged retains its comments, order and style.
func RunContainer(image string, in Input, run func(list string) (Container, error)) (Output, error) {
	c := &call{name: image, items: in.Items, config: in.Config}
	list, err := c.resourceList()
	if err != nil {
		return Output{}, err
	}
	answer, err := run(list)
	if err != nil {
		return Output{}, err
	}
	var before secrets
	before.of(in.Items)
	c.stderr.WriteString(answer.Stderr[:min(len(answer.Stderr), maxPrinted)])
	items, err := c.output(answer.Stdout)
	if answer.ExitCode != 0 {
		err = fmt.Errorf("exit code %d", answer.ExitCode) // the results may say why
	}
	if err == nil {
		c.items = items
	}
	err = c.withhold(&before, err)
	return Output{Items: c.items, Results: c.results, Stderr: c.stderr.String()}, err
}

// resourceList returns the input of the program.
func (c *call) resourceList() (string, error) {
	items := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range c.items {
		items.Content = append(items.Content, withPath(item))
	}
	list := &yaml.Node{Kind: yaml.MappingNode}
	kpt.Set(list, "apiVersion", stringNode("config.kubernetes.io/v1"))
	kpt.Set(list, "kind", stringNode("ResourceList"))
	if c.config != nil {
		kpt.Set(list, "functionConfig", yaml.CopyYNode(c.config.YNode()))
	}
	kpt.Set(list, "items", items)
	return yaml.NewRNode(list).String()
}

// output reads the results and the objects of a ResourceList.
func (c *call) output(text string) ([]Item, error) {
	list, err := yaml.Parse(text)
	if err != nil {
		return nil, errors.New("the output is not valid YAML") // the error would quote it
	}
	if list.GetKind() != "ResourceList" {
		return nil, errors.New("the output is not a ResourceList")
	}
	var results []porchv1alpha1.ResultItem
	if field := list.Field("results"); field != nil {
		raw, err := field.Value.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(raw, &results)
		}
		if err != nil {
			return nil, errors.New("the results in the output are invalid")
		}
		for _, r := range results {
			c.add(r)
		}
	}
	byPlace := map[string]int{}
	for i, item := range c.items {
		byPlace[item.Path+":"+strconv.Itoa(item.Index)] = i
	}
	var out []Item
	matched := map[int]bool{}
	for i, n := range elements(kpt.Get(list.YNode(), "items")) {
		made := Item{Node: yaml.NewRNode(n), Index: -1}
		if made.APIVersion() == "" || made.Kind() == "" {
			return nil, fmt.Errorf("items[%d] of the output is not an object: apiVersion and kind are required", i)
		}
		index := kpt.TextOf(kpt.Get(n, "metadata", "annotations", IndexAnnotation))
		made.Path = removePath(&made)
		from, same := byPlace[made.Path+":"+index]
		if !same || matched[from] {
			out = append(out, made)
			continue
		}
		matched[from] = true
		out = append(out, changed(c.items[from], made))
	}
	return out, nil
}
