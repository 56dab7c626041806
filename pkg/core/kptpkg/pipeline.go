package kptpkg

import (
	"fmt"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// ReplaceFunctions removes the functions that are ours by their names from one of the two lists, "mutators" or "validators", and puts
// others in front; an empty list is removed. Functions that stay keep their comments and all that they say, and so do ours if they say the
// same as before.
func (k *Kptfile) ReplaceFunctions(list string, ours func(name string) bool, front []Function) error {
	before, err := k.node.Pipe(yaml.Lookup("pipeline", list))
	if err != nil {
		return err
	}
	var elements, stay []*yaml.Node
	if before != nil && before.YNode().Kind == yaml.SequenceNode {
		elements = before.Content()
	}
	var old []*yaml.RNode
	for _, element := range elements {
		node := yaml.NewRNode(element)
		if name := node.Field("name"); name != nil && ours(yaml.GetValue(name.Value)) {
			old = append(old, node)
		} else {
			stay = append(stay, element)
		}
	}
	var after []*yaml.Node
	for i := range front {
		node, err := nodeOf(front[i])
		if err != nil {
			return err
		}
		if j := slices.IndexFunc(old, func(o *yaml.RNode) bool { return same(o, node) }); j >= 0 {
			node = old[j]
		}
		after = append(after, node.YNode())
	}
	after = append(after, stay...)
	if slices.Equal(after, elements) {
		return nil
	}
	k.touched()
	switch {
	case len(after) == 0:
		return k.SetPipeline(list, nil)
	case before != nil && before.YNode().Kind == yaml.SequenceNode:
		before.YNode().Content = after
		return nil
	}
	if node := k.node.Field("pipeline"); node != nil && node.Value.IsTaggedNull() {
		if _, err := k.node.Pipe(yaml.Clear("pipeline")); err != nil {
			return err
		}
	}
	sequence := yaml.NewRNode(&yaml.Node{Kind: yaml.SequenceNode, Content: after})
	return k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, "pipeline"), yaml.SetField(list, sequence))
}

// nodeOf returns what is written for a function, or an error if that would mean something else: not every key of a map can be a key.
func nodeOf(f Function) (*yaml.RNode, error) {
	text, err := yaml.Marshal(f)
	if err != nil {
		return nil, err
	}
	node, err := yaml.Parse(string(text))
	if err != nil {
		return nil, err
	}
	var again Function
	if err := node.YNode().Decode(&again); err != nil {
		return nil, fmt.Errorf("function %q cannot be written as YAML: %w", f.Name, err)
	}
	return node, nil
}
