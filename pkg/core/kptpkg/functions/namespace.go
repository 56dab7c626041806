package functions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg/schema"
)

// packageContext is the name of the ConfigMap that says the package's name.
const packageContext = "kptfile.kpt.dev"

// namespaceConfig is what a functionConfig says.
type namespaceConfig struct {
	namespace string
	// additional are fields beside those that the function knows.
	additional []fieldSpec
}

func setNamespace(c *call) error {
	config, err := c.namespaceOfConfig()
	if err != nil {
		return err
	}
	s := &namespaceSetter{call: c, namespace: config.namespace, moved: map[string]bool{}, before: map[string]int{}}
	if err := s.learn(); err != nil {
		return err
	}
	for _, item := range c.items {
		if item.isKptfile() {
			continue
		}
		if err := s.object(item); err != nil {
			return err
		}
		s.references(item)
		if err := eachText(item, config.additional, func(n *yaml.Node, _ string) { s.set(n) }); err != nil {
			return err
		}
	}
	s.report()
	return nil
}

// namespaceOfConfig reads the functionConfig. The first versions take more fields, the last one also the package's own context.
func (c *call) namespaceOfConfig() (namespaceConfig, error) {
	config, err := c.readNamespace()
	if err == nil && config.namespace == "" {
		err = errors.New("functionConfig: namespace is required")
	}
	return config, err
}

func (c *call) readNamespace() (namespaceConfig, error) {
	const latest = "v0.4"
	switch kind := c.configKind(); {
	case kind == "SetNamespace" && c.minor != latest:
		var own struct {
			Namespace  string      `yaml:"namespace"`
			Additional []fieldSpec `yaml:"additionalNamespaceFields"`
		}
		if err := c.decode(kind, &own); err != nil {
			return namespaceConfig{}, err
		}
		fields, err := withAdditional(nil, own.Additional)
		return namespaceConfig{own.Namespace, fields}, err
	case kind == "SetNamespace":
		var own struct {
			Namespace string `yaml:"namespace"`
		}
		err := c.decode(kind, &own)
		return namespaceConfig{namespace: own.Namespace}, err
	case kind != "ConfigMap":
		_, err := c.configRoot("ConfigMap", "SetNamespace")
		return namespaceConfig{}, err
	case c.minor == latest && text(get(c.config.YNode(), "metadata", "name")) == packageContext:
		pairs, err := c.pairs()
		if err != nil {
			return namespaceConfig{}, err
		}
		for _, p := range pairs { // other keys are for other readers
			if p.key == "name" && p.value != "" {
				return namespaceConfig{namespace: p.value}, nil
			}
		}
		return namespaceConfig{}, fmt.Errorf("functionConfig: data.name is required in ConfigMap %s", packageContext)
	default:
		values, err := c.values("namespace")
		return namespaceConfig{namespace: values["namespace"]}, err
	}
}

type namespaceSetter struct {
	*call
	namespace string
	custom    schema.Custom
	// moved are the objects with a namespace before, as depends-on annotations name them.
	moved map[string]bool
	// accounts are the names of the ServiceAccounts.
	accounts []string
	// before counts the values that were changed by what they were.
	before map[string]int
}

// learn reads what the objects say of each other, before they are changed.
func (s *namespaceSetter) learn() error {
	var namespaces []string
	for _, item := range s.items {
		if err := s.custom.Add(item.Node); err != nil {
			return fmt.Errorf("%s: %w", item, err)
		}
		if item.APIVersion() == "v1" && item.Kind() == "Namespace" && !slices.Contains(namespaces, item.Name()) {
			namespaces = append(namespaces, item.Name())
		}
		if item.APIVersion() == "v1" && item.Kind() == "ServiceAccount" {
			s.accounts = append(s.accounts, item.Name())
		}
	}
	if len(namespaces) > 1 {
		return fmt.Errorf("there are Namespaces %s, which would all become %s; select objects of one", strings.Join(namespaces, ", "), s.namespace)
	}
	for _, item := range s.items {
		if namespace := item.Namespace(); namespace != "" && s.namespaced(item) {
			s.moved[dependency(item.Group(), namespace, item.Kind(), item.Name())] = true
		}
	}
	return nil
}

// namespaced tells whether an object lives in a namespace. A custom kind whose definition is not at hand does: most do.
func (s *namespaceSetter) namespaced(item Item) bool {
	if namespaced, known := schema.Namespaced(item.APIVersion(), item.Kind()); known {
		return namespaced
	}
	if namespaced, known := s.custom.Namespaced[item.Group()+"/"+item.Kind()]; known {
		return namespaced
	}
	// What is never applied needs no namespace, but may have one.
	return !item.Local() || item.Namespace() != ""
}

func (s *namespaceSetter) object(item Item) error {
	switch {
	case item.APIVersion() == "v1" && item.Kind() == "Namespace":
		s.set(get(item.root(), "metadata", "name"))
	case s.namespaced(item) && (item.Namespace() != "" || !item.Local()):
		metadata := ensureMapping(item.root(), "metadata")
		if metadata == nil {
			return fmt.Errorf("%s: metadata is no mapping", item)
		}
		if n := get(metadata, "namespace"); n != nil && n.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s: metadata.namespace is no text", item)
		} else if n == nil {
			put(metadata, "namespace", stringNode(s.namespace))
			s.before[""]++
		} else {
			s.set(n)
		}
	}
	return nil
}

// references changes the fields beside metadata that name the namespace.
func (s *namespaceSetter) references(item Item) {
	root := item.root()
	switch kind := item.Kind(); {
	case item.Group() == "rbac.authorization.k8s.io" && (kind == "RoleBinding" || kind == "ClusterRoleBinding"):
		if subjects := get(root, "subjects"); subjects != nil && subjects.Kind == yaml.SequenceNode {
			for _, subject := range subjects.Content {
				if text(get(subject, "kind")) == "ServiceAccount" && s.follows(text(get(subject, "name"))) {
					s.setIfThere(get(subject, "namespace"))
				}
			}
		}
	case item.Group() == "apiextensions.k8s.io" && kind == "CustomResourceDefinition":
		s.setIfThere(get(root, "spec", "conversion", "webhook", "clientConfig", "service", "namespace"))
	case item.Group() == "apiregistration.k8s.io" && kind == "APIService":
		s.setIfThere(get(root, "spec", "service", "namespace"))
	}
	changeDependencies(item, func(group, namespace, kind, name string) (string, string) {
		if namespace != "" && s.moved[dependency(group, namespace, kind, name)] && namespace != s.namespace {
			s.before[namespace]++
			return s.namespace, name
		}
		return namespace, name
	})
}

// follows tells whether a ServiceAccount that is bound moves with the objects. In v0.2 those of others stay.
func (s *namespaceSetter) follows(account string) bool {
	return s.minor != "v0.2" || account == "default" || slices.Contains(s.accounts, account)
}

func (s *namespaceSetter) setIfThere(n *yaml.Node) {
	if text(n) != "" {
		s.set(n)
	}
}

func (s *namespaceSetter) set(n *yaml.Node) {
	if n == nil || n.Kind != yaml.ScalarNode || text(n) == s.namespace {
		return
	}
	s.before[text(n)]++
	setString(n, s.namespace)
}

func (s *namespaceSetter) report() {
	if len(s.before) == 0 {
		s.info("all namespaces are already %q. no value changed", s.namespace)
		return
	}
	var names []string
	total := 0
	for name, count := range s.before {
		names = append(names, fmt.Sprintf("%q", name))
		total += count
	}
	slices.Sort(names)
	s.info("namespace %s updated to %q, %d value(s) changed", strings.Join(names, ", "), s.namespace, total)
}

// dependency is how a depends-on annotation names an object.
func dependency(group, namespace, kind, name string) string {
	if namespace == "" {
		return group + "/" + kind + "/" + name
	}
	return group + "/namespaces/" + namespace + "/" + kind + "/" + name
}

// changeDependencies changes namespaces and names in the depends-on annotation of an object. What is not understood stays.
func changeDependencies(item Item, change func(group, namespace, kind, name string) (newNamespace, newName string)) {
	n := get(item.root(), "metadata", "annotations", dependsOnAnnotation)
	if text(n) == "" {
		return
	}
	entries := strings.Split(n.Value, ",")
	for i, entry := range entries {
		trimmed := strings.TrimSpace(entry)
		parts := strings.Split(trimmed, "/")
		var changed string
		switch {
		case len(parts) == 5 && parts[1] == "namespaces":
			namespace, name := change(parts[0], parts[2], parts[3], parts[4])
			changed = dependency(parts[0], namespace, parts[3], name)
		case len(parts) == 3:
			_, name := change(parts[0], "", parts[1], parts[2])
			changed = dependency(parts[0], "", parts[1], name)
		default:
			continue
		}
		entries[i] = strings.Replace(entry, trimmed, changed, 1)
	}
	if joined := strings.Join(entries, ","); joined != n.Value {
		setString(n, joined)
	}
}
