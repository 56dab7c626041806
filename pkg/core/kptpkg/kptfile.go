package kptpkg

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Kptfile is the Kptfile of a package. It is edited in place, and keeps comments, order, and what it does not know.
type Kptfile struct {
	node *yaml.RNode
	// decoded is what the node says; nil if that is to be read.
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
	k := &Kptfile{node: yaml.MustParse("apiVersion: " + KptfileAPIVersion + "\nkind: " + KptfileKind + "\n")}
	k.must(k.node.PipeE(yaml.LookupCreate(yaml.ScalarNode, "metadata", "name"), yaml.FieldSetter{StringValue: name}))
	k.must(k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, "metadata", "annotations"),
		yaml.SetField("config.kubernetes.io/local-config", yaml.NewStringRNode("true"))))
	if description != "" {
		k.must(k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, "info"), yaml.SetField("description", yaml.NewStringRNode(description))))
	}
	return k
}

// must is for edits of a tree that we have just made, or have checked: they cannot fail.
func (k *Kptfile) must(err error) {
	if err != nil {
		panic("kptpkg: " + err.Error())
	}
}

// ParseKptfile reads a Kptfile. An error says what is wrong with it.
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
	if hasAlias(k.node.YNode()) {
		return nil, errors.New("has an alias, which edits of one place would change in others, too")
	}
	if version, kind := k.text("apiVersion"), k.text("kind"); kind != KptfileKind || version != KptfileAPIVersion {
		return nil, fmt.Errorf("apiVersion and kind are %q and %q, want %s and %s", version, kind, KptfileAPIVersion, KptfileKind)
	}
	var probe kptfile
	if err := k.node.YNode().Decode(&probe); err != nil {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: "))
	}
	k.decoded = &probe
	return k, nil
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasAlias)
}

// kptfile is what is read of a Kptfile as a whole.
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

// Pipeline is what a package is rendered with.
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

// Selector selects objects that a Function is given; all that it says must hold.
type Selector struct {
	APIVersion  string            `yaml:"apiVersion,omitempty"`
	Kind        string            `yaml:"kind,omitempty"`
	Name        string            `yaml:"name,omitempty"`
	Namespace   string            `yaml:"namespace,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// ReadinessGate names a Condition that must be True before a revision is proposed or approved.
type ReadinessGate struct {
	ConditionType string `yaml:"conditionType"`
}

// Condition says how a package does.
type Condition struct {
	Type    string `yaml:"type"`
	Status  string `yaml:"status"`
	Reason  string `yaml:"reason,omitempty"`
	Message string `yaml:"message,omitempty"`
}

// String writes the Kptfile.
func (k *Kptfile) String() string {
	text, err := k.node.String()
	k.must(err)
	return text
}

// Name is metadata.name.
func (k *Kptfile) Name() string { return k.read().Metadata.Name }

// Labels and Annotations are those of metadata. They are copies.
func (k *Kptfile) Labels() map[string]string { return maps.Clone(k.read().Metadata.Labels) }

// Annotations are those of metadata. They are copies.
func (k *Kptfile) Annotations() map[string]string { return maps.Clone(k.read().Metadata.Annotations) }

// Pipeline is what the package is rendered with.
func (k *Kptfile) Pipeline() Pipeline {
	var f kptfile // it is deep, and belongs to the caller
	k.must(k.node.YNode().Decode(&f))
	return f.Pipeline
}

// ReadinessGates are those of info.
func (k *Kptfile) ReadinessGates() []ReadinessGate { return slices.Clone(k.read().Info.ReadinessGates) }

// Conditions are those of status.
func (k *Kptfile) Conditions() []Condition { return slices.Clone(k.read().Status.Conditions) }

func (k *Kptfile) read() *kptfile {
	if k.decoded == nil {
		k.decoded = &kptfile{}
		k.must(k.node.YNode().Decode(k.decoded))
	}
	return k.decoded
}

// Changed tells whether something was set to other than it was.
func (k *Kptfile) Changed() bool { return k.changed }

// touched is told of every edit.
func (k *Kptfile) touched() { k.decoded, k.changed = nil, true }

func (k *Kptfile) text(field string) string {
	value, err := k.node.GetString(field)
	if err != nil {
		return ""
	}
	return value
}

// SetName sets metadata.name.
func (k *Kptfile) SetName(name string) error {
	k.touched()
	return k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, "metadata"), yaml.SetField("name", yaml.NewStringRNode(name)))
}

// SetReadinessGates sets those of info; none removes the field. Equal ones are left as they are written.
func (k *Kptfile) SetReadinessGates(gates []ReadinessGate) error {
	return k.setList(len(gates) == 0, gates, "info", "readinessGates")
}

// SetConditions sets those of status; none removes the field.
func (k *Kptfile) SetConditions(conditions []Condition) error {
	return k.setList(len(conditions) == 0, conditions, "status", "conditions")
}

// SetPipeline sets the functions of one of the two lists, "mutators" or "validators"; none removes it.
func (k *Kptfile) SetPipeline(list string, functions []Function) error {
	return k.setList(len(functions) == 0, functions, "pipeline", list)
}

// setList replaces a list; an empty one, and then an empty parent, is removed. What says the same stays as it is written.
func (k *Kptfile) setList(empty bool, list any, parent, field string) error {
	if empty {
		node, err := k.node.Pipe(yaml.Lookup(parent))
		if err != nil || node == nil || node.Field(field) == nil && !node.IsNilOrEmpty() {
			return err
		}
		k.touched()
		if _, err := node.Pipe(yaml.Clear(field)); err != nil {
			return err
		}
		if node.IsNilOrEmpty() {
			_, err = k.node.Pipe(yaml.Clear(parent))
		}
		return err
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return err
	}
	value, err := yaml.Parse(string(text))
	if err != nil {
		return err
	}
	before, err := k.node.Pipe(yaml.Lookup(parent, field))
	if err != nil {
		return err
	}
	if before != nil && same(before, value) {
		return nil
	}
	k.touched()
	if node := k.node.Field(parent); node != nil && node.Value.IsTaggedNull() {
		if _, err := k.node.Pipe(yaml.Clear(parent)); err != nil { // "status:", with nothing behind it
			return err
		}
	}
	return k.node.PipeE(yaml.LookupCreate(yaml.MappingNode, parent), yaml.SetField(field, value))
}

// same tells whether two nodes mean the same, however they are written.
func same(a, b *yaml.RNode) bool {
	x, errX := a.MarshalJSON()
	y, errY := b.MarshalJSON()
	return errX == nil && errY == nil && string(x) == string(y)
}
