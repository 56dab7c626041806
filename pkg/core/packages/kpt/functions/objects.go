package functions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Matches reports whether a selector selects an object.
func Matches(s kpt.Selector, item Item) bool {
	return (s.APIVersion == "" || s.APIVersion == item.APIVersion()) && item.matches("", "", s.Kind, s.Name, s.Namespace) &&
		holds(kpt.Get(item.root(), "metadata", "labels"), s.Labels) && holds(kpt.Get(item.root(), "metadata", "annotations"), s.Annotations)
}

func holds(n *yaml.Node, pairs map[string]string) bool {
	for key, value := range pairs {
		if found := kpt.Get(n, key); found == nil || kpt.TextOf(found) != value {
			return false
		}
	}
	return true
}

// deleteResources deletes the selected objects, except the Kptfile.
func deleteResources(c *call) error {
	var config struct {
		Selectors []kpt.Selector `yaml:"selectors"`
		Exclude   []kpt.Selector `yaml:"exclude"`
	}
	err := c.read("DeleteResources", &config, func(data map[string]string) {
		config.Selectors = []kpt.Selector{{APIVersion: data["apiVersion"], Kind: data["kind"], Name: data["name"], Namespace: data["namespace"]}}
	}, "apiVersion", "kind", "name", "namespace")
	if err != nil {
		return err
	}
	empty := func(s kpt.Selector) bool {
		return s.APIVersion == "" && s.Kind == "" && s.Name == "" && s.Namespace == "" && len(s.Labels) == 0 && len(s.Annotations) == 0
	}
	if len(config.Selectors) == 0 || slices.ContainsFunc(slices.Concat(config.Selectors, config.Exclude), empty) {
		return errors.New("functionConfig: a selector must have at least one field; an empty one would select all objects")
	}
	c.deleteWhere(func(item Item) bool {
		matches := func(s kpt.Selector) bool { return Matches(s, item) }
		return slices.ContainsFunc(config.Selectors, matches) && !slices.ContainsFunc(config.Exclude, matches)
	})
	return nil
}

// removeLocalConfig deletes the objects that are never applied to a cluster.
func removeLocalConfig(c *call) error {
	if c.config != nil {
		data, err := c.data()
		if err == nil && len(data) > 0 {
			err = errors.New("data must be empty")
		}
		if err != nil {
			return fmt.Errorf("remove-local-config-resources has no functionConfig: %w", err)
		}
	}
	c.deleteWhere(Item.Local)
	return nil
}

func (c *call) deleteWhere(selected func(Item) bool) {
	c.items = slices.DeleteFunc(c.items, func(item Item) bool {
		if item.isKptfile() || !selected(item) {
			return false
		}
		c.of(item, Info, "", "deleted")
		return true
	})
}

func deleteAnnotations(c *call) error {
	data, err := c.data("annotationKeys")
	if err != nil {
		return err
	}
	keys := splitList(data["annotationKeys"])
	if len(keys) == 0 {
		return errors.New("functionConfig: data.annotationKeys is required: keys separated by commas")
	}
	for _, item := range c.items {
		metadata := kpt.Get(item.root(), "metadata")
		annotations := kpt.Get(metadata, "annotations")
		for _, key := range keys {
			if kpt.Remove(annotations, key) {
				c.of(item, Info, "metadata.annotations", "deleted annotation %s", key)
				if len(annotations.Content) == 0 {
					kpt.Remove(metadata, "annotations")
				}
			}
		}
	}
	return nil
}

// splitList splits a list at its commas.
func splitList(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// targetPathAnnotation names the file of an object that upsert-resource adds, or the only file in
// which it replaces the object.
const targetPathAnnotation = "config.kubernetes.io/target-path"

// upsertResource adds the functionConfig itself to the objects, or the items if it is a List. Each
// replaces the object with its group, kind, name and namespace.
func upsertResource(c *call) error {
	if c.config == nil {
		return errors.New("upsert-resource needs a functionConfig: the object to add")
	}
	desired := Item{Node: c.config.Copy()}
	if desired.root() == nil || desired.root().Kind != yaml.MappingNode {
		return errors.New("functionConfig: is not an object")
	}
	if desired.Kind() != "List" {
		return c.upsert(desired)
	}
	for i, item := range elements(kpt.Get(desired.root(), "items")) {
		if kpt.Content(item) == nil || kpt.Content(item).Kind != yaml.MappingNode {
			return fmt.Errorf("functionConfig: items[%d] is not an object", i)
		}
		if err := c.upsert(Item{Node: yaml.NewRNode(item)}); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

func (c *call) upsert(desired Item) error {
	if desired.APIVersion() == "" || desired.Kind() == "" || desired.Name() == "" {
		return errors.New("functionConfig: apiVersion, kind and metadata.name are required")
	}
	if desired.isKptfile() {
		return errors.New("functionConfig: a Kptfile cannot be upserted")
	}
	target := strings.TrimPrefix(kpt.TextOf(kpt.Get(desired.root(), "metadata", "annotations", targetPathAnnotation)), "./")
	removePath(&desired)
	replaced := false
	for i, item := range c.items {
		if item.Group() != desired.Group() || !item.matches("", "", desired.Kind(), desired.Name(), "") || item.Namespace() != desired.Namespace() ||
			target != "" && item.Path != target {
			continue
		}
		c.items[i].Node = desired.Node.Copy()
		c.of(c.items[i], Info, "", "replaced")
		replaced = true
	}
	if !replaced {
		desired.Path = target
		c.items = append(c.items, desired)
		c.of(desired, Info, "", "added")
	}
	return nil
}

// removePath removes the annotations with the position of an object, and returns their path.
func removePath(item *Item) string {
	metadata := kpt.Get(item.root(), "metadata")
	annotations := kpt.Get(metadata, "annotations")
	path := cmp.Or(kpt.TextOf(kpt.Get(annotations, PathAnnotation)), kpt.TextOf(kpt.Get(annotations, LegacyPathAnnotation)))
	removed := false
	for _, key := range []string{PathAnnotation, IndexAnnotation, LegacyPathAnnotation, LegacyIndexAnnotation, targetPathAnnotation} {
		removed = kpt.Remove(annotations, key) || removed
	}
	if removed && len(annotations.Content) == 0 {
		kpt.Remove(metadata, "annotations")
	}
	return strings.TrimPrefix(path, "./")
}
