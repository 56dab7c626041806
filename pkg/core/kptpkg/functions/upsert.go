package functions

import (
	"errors"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// upsertResource puts the functionConfig itself among the objects: in place of the one with its group, kind, name and namespace, or at
// the end.
func upsertResource(c *call) error {
	if c.config == nil {
		return errors.New("upsert-resource needs a functionConfig: the object that is put among the others")
	}
	wanted := Item{Node: c.config.Copy()}
	if wanted.root() == nil || wanted.root().Kind != yaml.MappingNode {
		return errors.New("functionConfig: is no object")
	}
	if wanted.APIVersion() == "" || wanted.Kind() == "" || wanted.Name() == "" {
		return errors.New("functionConfig: an object needs apiVersion, kind and metadata.name")
	}
	if wanted.isKptfile() {
		return errors.New("functionConfig: a Kptfile cannot be upserted")
	}
	path := takePath(&wanted)
	replaced := false
	for i, item := range c.items {
		if item.Group() != wanted.Group() || !item.matches("", "", wanted.Kind(), wanted.Name(), "") || item.Namespace() != wanted.Namespace() ||
			path != "" && item.Path != path {
			continue
		}
		c.items[i].Node = wanted.Node.Copy()
		c.of(c.items[i], Info, "", "replaced")
		replaced = true
	}
	if !replaced {
		wanted.Path = path
		c.items = append(c.items, wanted)
		c.of(wanted, Info, "", "added")
	}
	return nil
}

// takePath removes the annotations that say where an object is written, and returns the path that they say.
func takePath(item *Item) string {
	metadata := get(item.root(), "metadata")
	annotations := get(metadata, "annotations")
	path := text(get(annotations, PathAnnotation))
	if path == "" {
		path = text(get(annotations, LegacyPathAnnotation))
	}
	removed := false
	for _, key := range []string{PathAnnotation, IndexAnnotation, LegacyPathAnnotation, LegacyIndexAnnotation} {
		removed = remove(annotations, key) || removed
	}
	if removed && len(annotations.Content) == 0 {
		remove(metadata, "annotations")
	}
	return strings.TrimPrefix(path, "./")
}
