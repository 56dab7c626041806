package kpt

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Kptfile is the Kptfile of a package. It is edited in place, and retains comments, order and
// unknown fields.
type Kptfile struct {
	node *yaml.RNode
	// decoded is the decoded node; nil if it has to be decoded again.
	decoded *kptfile
	changed bool
}

// APIVersion and Kind of a Kptfile.
const (
	KptfileAPIVersion = "kpt.dev/v1"
	KptfileKind       = "Kptfile"
)

// NewKptfile returns the Kptfile of a new package.
func NewKptfile(name, description string) *Kptfile {
	k := &Kptfile{node: yaml.MustParse("apiVersion: " + KptfileAPIVersion + "\nkind: " + KptfileKind +
		"\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n")}
	k.must(k.SetName(name))
	k.must(k.SetInfo(Info{Description: description}))
	return k
}

// must panics on errors of edits that cannot fail, because the tree is new or was checked.
func (k *Kptfile) must(err error) {
	if err != nil {
		panic("kpt: " + err.Error())
	}
}

// ParseKptfile parses a Kptfile.
func ParseKptfile(content string) (*Kptfile, error) {
	documents, err := Documents(content)
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("has %d documents, want one", len(documents))
	}
	k := &Kptfile{node: documents[0]}
	if k.node.YNode().Kind != yaml.MappingNode {
		return nil, errors.New("is not a mapping")
	}
	if HasAlias(k.node.YNode()) {
		return nil, errors.New("has an alias: an edit of one field would also change others")
	}
	if version, kind := k.node.GetApiVersion(), k.node.GetKind(); kind != KptfileKind || version != KptfileAPIVersion {
		return nil, fmt.Errorf("apiVersion and kind are %q and %q, want %s and %s", version, kind, KptfileAPIVersion, KptfileKind)
	}
	var probe kptfile
	if err := k.node.YNode().Decode(&probe); err != nil {
		return nil, DecodeError(err)
	}
	k.decoded = &probe
	return k, nil
}

// HasAlias reports whether a tree has an alias.
func HasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, HasAlias)
}

// kptfile holds the fields of a Kptfile that are decoded.
type kptfile struct {
	Metadata struct {
		Name        string            `yaml:"name"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	} `yaml:"metadata"`
	Info struct {
		ReadinessGates []ReadinessGate `yaml:"readinessGates"`
	} `yaml:"info"`
	UpstreamLock *Upstream `yaml:"upstreamLock"`
	Pipeline     Pipeline  `yaml:"pipeline"`
	Status       struct {
		Conditions []Condition `yaml:"conditions"`
	} `yaml:"status"`
}

// Pipeline holds the functions that render a package.
type Pipeline struct {
	Mutators   []Function `yaml:"mutators,omitempty"`
	Validators []Function `yaml:"validators,omitempty"`
}

// Function is one step of a Pipeline.
type Function struct {
	Image      string            `yaml:"image,omitempty"`
	Tag        string            `yaml:"tag,omitempty"`
	Exec       string            `yaml:"exec,omitempty"`
	ConfigPath string            `yaml:"configPath,omitempty"`
	ConfigMap  map[string]string `yaml:"configMap,omitempty"`
	Name       string            `yaml:"name,omitempty"`
	Selectors  []Selector        `yaml:"selectors,omitempty"`
	Exclude    []Selector        `yaml:"exclude,omitempty"`
}

// Selector selects objects for a Function. An object must match every field that is set.
type Selector struct {
	APIVersion  string            `yaml:"apiVersion,omitempty"`
	Kind        string            `yaml:"kind,omitempty"`
	Name        string            `yaml:"name,omitempty"`
	Namespace   string            `yaml:"namespace,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// ReadinessGate names a Condition that must be True before a revision can be proposed or approved.
type ReadinessGate struct {
	ConditionType string `yaml:"conditionType"`
}

// Condition is an observation of a package.
type Condition struct {
	Type    string `yaml:"type"`
	Status  string `yaml:"status"`
	Reason  string `yaml:"reason,omitempty"`
	Message string `yaml:"message,omitempty"`
}

// String encodes the Kptfile.
func (k *Kptfile) String() string {
	text, err := k.node.String()
	k.must(err)
	return text
}

// Name returns metadata.name.
func (k *Kptfile) Name() string { return k.read().Metadata.Name }

// Labels returns a copy of metadata.labels.
func (k *Kptfile) Labels() map[string]string { return maps.Clone(k.read().Metadata.Labels) }

// Annotations returns a copy of metadata.annotations.
func (k *Kptfile) Annotations() map[string]string { return maps.Clone(k.read().Metadata.Annotations) }

// Pipeline returns a copy of the pipeline.
func (k *Kptfile) Pipeline() Pipeline {
	var f kptfile // a deep copy
	k.must(k.node.YNode().Decode(&f))
	return f.Pipeline
}

// CheckPipeline returns an error if the pipeline has unknown fields, which could change its result.
func (k *Kptfile) CheckPipeline() error {
	pipeline := k.node.Field("pipeline")
	if pipeline == nil || pipeline.Value.IsNilOrEmpty() {
		return nil
	}
	if err := DecodeStrictly(pipeline.Value.YNode(), &Pipeline{}); err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	return nil
}

// ReadinessGates returns a copy of info.readinessGates.
func (k *Kptfile) ReadinessGates() []ReadinessGate { return slices.Clone(k.read().Info.ReadinessGates) }

// Conditions returns a copy of status.conditions.
func (k *Kptfile) Conditions() []Condition { return slices.Clone(k.read().Status.Conditions) }

func (k *Kptfile) read() *kptfile {
	if k.decoded == nil {
		k.decoded = &kptfile{}
		k.must(k.node.YNode().Decode(k.decoded))
	}
	return k.decoded
}

// Changed reports whether any value was changed.
func (k *Kptfile) Changed() bool { return k.changed }

// markChanged must be called before every edit.
func (k *Kptfile) markChanged() { k.decoded, k.changed = nil, true }

// SetName sets metadata.name.
func (k *Kptfile) SetName(name string) error {
	k.markChanged()
	return k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, "metadata"), yaml.SetField("name", yaml.NewStringRNode(name)))
}

// SetReadinessGates sets info.readinessGates; an empty list removes the field. An equal list is not
// rewritten.
func (k *Kptfile) SetReadinessGates(gates []ReadinessGate) error {
	return k.setList(len(gates) == 0, gates, "info", "readinessGates")
}

// SetConditions sets status.conditions; an empty list removes the field.
func (k *Kptfile) SetConditions(conditions []Condition) error {
	return k.setList(len(conditions) == 0, conditions, "status", "conditions")
}

// setList replaces a list. An empty list is removed, and so is a parent that is empty then. An
// equal list is not rewritten.
func (k *Kptfile) setList(empty bool, list any, parent, field string) error {
	if !empty {
		return k.set(list, parent, field)
	}
	node, err := k.node.Pipe(yaml.Lookup(parent))
	if err != nil || node == nil || node.Field(field) == nil && !node.IsNilOrEmpty() {
		return err
	}
	k.markChanged()
	if _, err := node.Pipe(yaml.Clear(field)); err != nil {
		return err
	}
	if node.IsNilOrEmpty() {
		_, err = k.node.Pipe(yaml.Clear(parent))
	}
	return err
}

// set sets a field of a mapping, or of the root if parent is "". An equal value is not rewritten.
func (k *Kptfile) set(value any, parent, field string) error {
	node, err := toNode(value)
	if err != nil {
		return err
	}
	before, err := k.node.Pipe(yaml.Lookup(parent, field)) // an empty name is left out
	if err != nil || before != nil && same(before, node) {
		return err
	}
	return k.setNode(node, parent, field)
}

func (k *Kptfile) setNode(node *yaml.RNode, parent, field string) error {
	k.markChanged()
	if mapping := k.node.Field(parent); parent != "" && mapping != nil && mapping.Value.IsTaggedNull() {
		if _, err := k.node.Pipe(yaml.Clear(parent)); err != nil { // for example "status:" without a value
			return err
		}
	}
	return k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, parent), yaml.SetField(field, node))
}

func toNode(value any) (*yaml.RNode, error) {
	text, err := yaml.Marshal(value)
	if err != nil {
		return nil, err
	}
	return yaml.Parse(string(text))
}

// same reports whether two nodes have the same value, in any notation.
func same(a, b *yaml.RNode) bool {
	x, errX := a.MarshalJSON()
	y, errY := b.MarshalJSON()
	return errX == nil && errY == nil && string(x) == string(y)
}

// ReplaceFunctions removes the functions for whose names ours returns true from one of the two
// lists, "mutators" or "validators", and inserts others in front. An empty list is removed.
// Functions that do not change retain their comments and unknown fields.
func (k *Kptfile) ReplaceFunctions(list string, ours func(name string) bool, front []Function) error {
	before, err := k.node.Pipe(yaml.Lookup("pipeline", list))
	if err != nil {
		return err
	}
	var elements, others []*yaml.Node
	if before != nil && before.YNode().Kind == yaml.SequenceNode {
		elements = before.Content()
	}
	var old []*yaml.RNode
	for _, element := range elements {
		node := yaml.NewRNode(element)
		if name := node.Field("name"); name != nil && ours(yaml.GetValue(name.Value)) {
			old = append(old, node)
		} else {
			others = append(others, element)
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
	after = append(after, others...)
	if slices.Equal(after, elements) {
		return nil
	}
	k.markChanged()
	switch {
	case len(after) == 0:
		return k.setList(true, nil, "pipeline", list)
	case before != nil && before.YNode().Kind == yaml.SequenceNode:
		before.YNode().Content = after
		return nil
	}
	return k.setNode(yaml.NewRNode(&yaml.Node{Kind: yaml.SequenceNode, Content: after}), "pipeline", list)
}

// nodeOf returns the YAML of a function, or an error if it does not decode to the same function:
// not every map key is a valid YAML key.
func nodeOf(f Function) (*yaml.RNode, error) {
	node, err := toNode(f)
	if err != nil {
		return nil, err
	}
	var again Function
	if err := node.YNode().Decode(&again); err != nil {
		return nil, fmt.Errorf("function %q cannot be written as YAML: %w", f.Name, err)
	}
	return node, nil
}
