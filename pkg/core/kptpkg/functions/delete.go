package functions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Selector selects objects; all that it says must hold.
type Selector struct {
	APIVersion  string            `yaml:"apiVersion"`
	Kind        string            `yaml:"kind"`
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Matches tells whether a selector selects an object.
func (s Selector) Matches(item Item) bool {
	return (s.APIVersion == "" || s.APIVersion == item.APIVersion()) && item.matches("", "", s.Kind, s.Name, s.Namespace) &&
		holds(get(item.root(), "metadata", "labels"), s.Labels) && holds(get(item.root(), "metadata", "annotations"), s.Annotations)
}

func (s Selector) empty() bool {
	return s.APIVersion == "" && s.Kind == "" && s.Name == "" && s.Namespace == "" && len(s.Labels) == 0 && len(s.Annotations) == 0
}

func holds(n *yaml.Node, pairs map[string]string) bool {
	for key, value := range pairs {
		if found := get(n, key); found == nil || text(found) != value {
			return false
		}
	}
	return true
}

// deleteResources deletes the objects that are selected. The Kptfile stays.
func deleteResources(c *call) error {
	var config struct {
		Selectors []Selector `yaml:"selectors"`
		Exclude   []Selector `yaml:"exclude"`
	}
	if c.configKind() == "DeleteResources" {
		if err := c.decode("DeleteResources", &config); err != nil {
			return err
		}
	} else {
		if c.configKind() != "ConfigMap" {
			_, err := c.configRoot("ConfigMap", "DeleteResources")
			return err
		}
		values, err := c.values("apiVersion", "kind", "name", "namespace")
		if err != nil {
			return err
		}
		config.Selectors = []Selector{{APIVersion: values["apiVersion"], Kind: values["kind"], Name: values["name"], Namespace: values["namespace"]}}
	}
	if len(config.Selectors) == 0 || slices.ContainsFunc(slices.Concat(config.Selectors, config.Exclude), Selector.empty) {
		return errors.New("functionConfig: a selector must say something; one that is empty would select all objects")
	}
	c.deleteWhere(func(item Item) bool {
		matches := func(s Selector) bool { return s.Matches(item) }
		return slices.ContainsFunc(config.Selectors, matches) && !slices.ContainsFunc(config.Exclude, matches)
	})
	return nil
}

// removeLocalConfig deletes the objects that are never applied.
func removeLocalConfig(c *call) error {
	if c.config != nil {
		if _, err := c.values(); err != nil {
			return fmt.Errorf("remove-local-config-resources takes no functionConfig: %w", err)
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
	values, err := c.values("annotationKeys")
	if err != nil {
		return err
	}
	var keys []string
	for key := range strings.SplitSeq(values["annotationKeys"], ",") {
		if key = strings.TrimSpace(key); key != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return errors.New("functionConfig: data.annotationKeys is required: keys with commas between them")
	}
	for _, item := range c.items {
		metadata := get(item.root(), "metadata")
		annotations := get(metadata, "annotations")
		for _, key := range keys {
			if remove(annotations, key) {
				c.of(item, Info, "metadata.annotations", "deleted annotation %s", key)
				if len(annotations.Content) == 0 {
					remove(metadata, "annotations")
				}
			}
		}
	}
	return nil
}
