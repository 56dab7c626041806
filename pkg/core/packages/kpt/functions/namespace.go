package functions

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/schema"
)

// packageContext is the name of the ConfigMap that holds the name of the package.
const packageContext = "kptfile.kpt.dev"

func setNamespace(c *call) error {
	namespace, matcher, additional, err := c.namespaceConfig()
	if err != nil {
		return err
	}
	s := &namespaceSetter{call: c, namespace: namespace, matcher: matcher, moved: map[string]bool{}, before: map[string]int{}}
	if err := s.learn(); err != nil {
		return err
	}
	for _, item := range c.items {
		if item.isKptfile() || s.leaves(item) {
			continue
		}
		if err := s.object(item); err != nil {
			return err
		}
		s.references(item)
		if err := eachText(item, additional, func(n *yaml.Node, _ string) { s.set(n) }); err != nil {
			return err
		}
	}
	s.report()
	return nil
}

// The last versions of set-namespace leave local configuration alone, and have a matcher. One of
// them also changes one former namespace only, and adds none.
const (
	strictNamespace = "v0.3"
	latestNamespace = "v0.4"
)

func (c *call) isModernNamespace() bool {
	return c.minor == strictNamespace || c.minor == latestNamespace
}

// namespaceConfig decodes the functionConfig. Old versions support additional fields; the latest
// one supports the package context, and a matcher: the only namespace that is changed, "" for all.
func (c *call) namespaceConfig() (namespace, matcher string, additional []fieldSpec, err error) {
	var config struct {
		Namespace  string      `yaml:"namespace"`
		Matcher    string      `yaml:"namespaceMatcher"`
		Additional []fieldSpec `yaml:"additionalNamespaceFields"`
	}
	latest := c.isModernNamespace()
	key, supported := "namespace", []string{"namespace"}
	if latest {
		supported = append(supported, "namespaceMatcher")
	}
	inContext := latest && c.configKind() == "ConfigMap" && kpt.TextOf(kpt.Get(c.config.YNode(), "metadata", "name")) == packageContext
	if inContext {
		key, supported = "name", nil // other keys are ignored
	}
	err = c.read("SetNamespace", &config, func(data map[string]string) {
		config.Namespace, config.Matcher = data[key], data["namespaceMatcher"]
	}, supported...)
	switch {
	case err != nil:
		return "", "", nil, err
	case latest && config.Additional != nil:
		return "", "", nil, errors.New(`functionConfig: field "additionalNamespaceFields" is not supported`)
	case !latest && config.Matcher != "":
		return "", "", nil, errors.New(`functionConfig: field "namespaceMatcher" is supported by v0.3 and v0.4 only`)
	case inContext && config.Namespace == "":
		return "", "", nil, fmt.Errorf("functionConfig: data.name is required in ConfigMap %s", packageContext)
	}
	additional, err = withAdditional(nil, config.Additional)
	if err == nil && config.Namespace == "" {
		err = errors.New("functionConfig: namespace is required")
	}
	return config.Namespace, config.Matcher, additional, err
}

type namespaceSetter struct {
	*call
	namespace string
	matcher   string
	custom    schema.Custom
	// moved are the objects that had a namespace, in the format of depends-on annotations.
	moved map[string]bool
	// accounts are the names of the ServiceAccounts.
	accounts []string
	// before is the number of changed values, by old value.
	before map[string]int
	// found, if not nil, gets the values that would be changed, and none is.
	found map[string]bool
}

// learn indexes the objects before they are changed.
func (s *namespaceSetter) learn() error {
	var namespaces []string
	for _, item := range s.items {
		if err := s.custom.Add(item.Node); err != nil {
			return fmt.Errorf("%s: %w", item, err)
		}
		if item.APIVersion() == "v1" && item.Kind() == "Namespace" && !s.leaves(item) && !slices.Contains(namespaces, item.Name()) {
			namespaces = append(namespaces, item.Name())
		}
		if item.APIVersion() == "v1" && item.Kind() == "ServiceAccount" {
			s.accounts = append(s.accounts, item.Name())
		}
	}
	if s.minor == strictNamespace {
		if err := s.former(namespaces); err != nil {
			return err
		}
	} else if len(namespaces) > 1 && s.matcher == "" {
		return fmt.Errorf("the package has Namespaces %s, which would all be renamed to %s; select the objects of one", strings.Join(namespaces, ", "), s.namespace)
	}
	for _, item := range s.items {
		if namespace := item.Namespace(); namespace != "" && s.namespaced(item) && !s.leaves(item) && s.matches(namespace) {
			s.moved[dependency(item.Group(), namespace, item.Kind(), item.Name())] = true
		}
	}
	return nil
}

// former finds the one namespace that v0.3 changes: that of the function's configuration, of the
// only Namespace, or of all objects.
func (s *namespaceSetter) former(namespaces []string) error {
	switch {
	case s.matcher != "" && len(namespaces) > 0:
		return fmt.Errorf("functionConfig: namespaceMatcher cannot be used for a package with a Namespace, which is %s", namespaces[0])
	case s.matcher != "":
		return nil
	case len(namespaces) > 1:
		return fmt.Errorf("the package has Namespaces %s: v0.3 changes one", strings.Join(namespaces, ", "))
	case len(namespaces) == 1:
		s.matcher = namespaces[0]
		return nil
	}
	s.found = map[string]bool{}
	for _, item := range s.items {
		if item.isKptfile() || s.leaves(item) {
			continue
		}
		if err := s.object(item); err != nil {
			return err
		}
		s.references(item)
	}
	found := slices.Sorted(maps.Keys(s.found))
	s.found = nil
	if len(found) > 1 {
		return fmt.Errorf("the objects are in namespaces %s: v0.3 changes one; name it in namespaceMatcher", strings.Join(found, ", "))
	}
	if len(found) == 1 {
		s.matcher = found[0]
	}
	return nil
}

// namespaced reports whether an object is namespaced. Custom kinds without a definition in the
// package are, because most are.
func (s *namespaceSetter) namespaced(item Item) bool {
	if namespaced, known := schema.Namespaced(item.APIVersion(), item.Kind()); known {
		return namespaced
	}
	if namespaced, known := s.custom.Namespaced[item.Group()+"/"+item.Kind()]; known {
		return namespaced
	}
	// An object that is never applied needs no namespace, but may have one.
	return !item.Local() || item.Namespace() != ""
}

// leaves reports whether an object stays as it is: the last versions leave what is never applied.
func (s *namespaceSetter) leaves(item Item) bool { return s.isModernNamespace() && item.Local() }

// matches reports whether a namespace is to be changed. An object without one is in "default".
func (s *namespaceSetter) matches(namespace string) bool {
	return s.matcher == "" || s.matcher == cmp.Or(namespace, "default")
}

func (s *namespaceSetter) object(item Item) error {
	switch {
	case item.APIVersion() == "v1" && item.Kind() == "Namespace":
		s.set(kpt.Get(item.root(), "metadata", "name"))
	case s.minor == strictNamespace && item.Namespace() == "": // it stays without one
	case s.namespaced(item) && (item.Namespace() != "" || !item.Local()) && s.matches(item.Namespace()):
		metadata := ensureMapping(item.root(), "metadata")
		if metadata == nil {
			return fmt.Errorf("%s: metadata is not a mapping", item)
		}
		if n := kpt.Get(metadata, "namespace"); n != nil && n.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s: metadata.namespace is not a scalar", item)
		} else if n == nil {
			kpt.Set(metadata, "namespace", stringNode(s.namespace))
			s.before[""]++
		} else {
			s.set(n)
		}
	}
	return nil
}

// references changes the fields outside of metadata that have the namespace.
func (s *namespaceSetter) references(item Item) {
	root := item.root()
	switch kind := item.Kind(); {
	case item.Group() == "rbac.authorization.k8s.io" && (kind == "RoleBinding" || kind == "ClusterRoleBinding"):
		for _, subject := range elements(kpt.Get(root, "subjects")) {
			if kpt.TextOf(kpt.Get(subject, "kind")) == "ServiceAccount" && s.follows(kpt.TextOf(kpt.Get(subject, "name"))) {
				s.setIfPresent(kpt.Get(subject, "namespace"))
			}
		}
	case item.Group() == "apiextensions.k8s.io" && kind == "CustomResourceDefinition":
		s.setIfPresent(kpt.Get(root, "spec", "conversion", "webhook", "clientConfig", "service", "namespace"))
	case item.Group() == "apiregistration.k8s.io" && kind == "APIService":
		s.setIfPresent(kpt.Get(root, "spec", "service", "namespace"))
	}
	changeDependencies(item, func(group, namespace, kind, name string) (string, string) {
		if namespace != "" && s.moved[dependency(group, namespace, kind, name)] && namespace != s.namespace {
			s.before[namespace]++
			return s.namespace, name
		}
		return namespace, name
	})
}

// follows reports whether the namespace of a bound ServiceAccount changes. In v0.2, that of a
// ServiceAccount of another package does not.
func (s *namespaceSetter) follows(account string) bool {
	return s.minor != "v0.2" || account == "default" || slices.Contains(s.accounts, account)
}

func (s *namespaceSetter) setIfPresent(n *yaml.Node) {
	if kpt.TextOf(n) != "" {
		s.set(n)
	}
}

func (s *namespaceSetter) set(n *yaml.Node) {
	switch {
	case n == nil || n.Kind != yaml.ScalarNode || !s.matches(kpt.TextOf(n)):
		return
	case s.found != nil:
		s.found[kpt.TextOf(n)] = true
		return
	case kpt.TextOf(n) == s.namespace:
		return
	}
	s.before[kpt.TextOf(n)]++
	setString(n, s.namespace)
}

func (s *namespaceSetter) report() {
	if len(s.before) == 0 {
		s.info("all namespaces are already %q. no value changed", s.namespace)
		return
	}
	var names []string
	total := 0
	for _, name := range slices.Sorted(maps.Keys(s.before)) {
		names = append(names, strconv.Quote(name))
		total += s.before[name]
	}
	s.info("namespace %s updated to %q, %d value(s) changed", strings.Join(names, ", "), s.namespace, total)
}

// dependency returns an object in the format of depends-on annotations.
func dependency(group, namespace, kind, name string) string {
	if namespace == "" {
		return group + "/" + kind + "/" + name
	}
	return group + "/namespaces/" + namespace + "/" + kind + "/" + name
}

// changeDependencies changes namespaces and names in the depends-on annotation of an object.
// Invalid entries stay unchanged.
func changeDependencies(item Item, change func(group, namespace, kind, name string) (newNamespace, newName string)) {
	n := kpt.Get(item.root(), "metadata", "annotations", dependsOnAnnotation)
	if kpt.TextOf(n) == "" {
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
