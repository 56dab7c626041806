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

func setNamespace(c *call) error {
	namespace, err := c.namespaceOfConfig()
	if err != nil {
		return err
	}
	s := &namespaceSetter{call: c, namespace: namespace, moved: map[string]bool{}, before: map[string]int{}}
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
	}
	s.report()
	return nil
}

func (c *call) namespaceOfConfig() (string, error) {
	var config struct {
		Namespace string `yaml:"namespace"`
	}
	switch {
	case c.configKind() == "SetNamespace":
		if err := c.decode("SetNamespace", &config); err != nil {
			return "", err
		}
	case c.configKind() == "ConfigMap" && text(get(c.config.YNode(), "metadata", "name")) == packageContext:
		pairs, err := c.pairs()
		if err != nil {
			return "", err
		}
		for _, p := range pairs { // other keys are for other readers
			if p.key == "name" {
				config.Namespace = p.value
			}
		}
		if config.Namespace == "" {
			return "", fmt.Errorf("functionConfig: data.name is required in ConfigMap %s", packageContext)
		}
	default:
		if c.configKind() != "ConfigMap" {
			_, err := c.configRoot("ConfigMap", "SetNamespace")
			return "", err
		}
		values, err := c.values("namespace")
		if err != nil {
			return "", err
		}
		config.Namespace = values["namespace"]
	}
	if config.Namespace == "" {
		return "", errors.New("functionConfig: namespace is required")
	}
	return config.Namespace, nil
}

type namespaceSetter struct {
	*call
	namespace string
	custom    schema.Custom
	// moved are the objects with a namespace before, as depends-on annotations name them.
	moved map[string]bool
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
				if text(get(subject, "kind")) == "ServiceAccount" {
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
