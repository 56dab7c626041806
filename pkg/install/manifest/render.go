package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Render returns the objects of the templates whose paths match the patterns, each object once. It
// leaves out files for which skip returns true; skip may be nil. A pattern that matches no file is
// an error.
func Render(from fs.FS, patterns []string, values map[string]any, skip func(file string) bool) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	seen := map[string]bool{}
	for _, pattern := range patterns {
		files, err := fs.Glob(from, pattern)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("render manifest %q: not found", pattern)
		}
		for _, file := range files {
			if skip != nil && skip(file) {
				continue
			}
			rendered, err := File(from, file, values)
			if err != nil {
				return nil, err
			}
			for _, obj := range rendered {
				key := path.Join(obj.GetKind(), obj.GetNamespace(), obj.GetName())
				if !seen[key] {
					seen[key] = true
					objs = append(objs, obj)
				}
			}
		}
	}
	return objs, nil
}

// File returns the objects of one template.
func File(from fs.FS, file string, values map[string]any) ([]*unstructured.Unstructured, error) {
	objs, err := renderFile(from, file, values)
	if err != nil {
		return nil, fmt.Errorf("render manifest %q: %w", file, err)
	}
	return objs, nil
}

func renderFile(from fs.FS, file string, values map[string]any) ([]*unstructured.Unstructured, error) {
	text, err := fs.ReadFile(from, file)
	if err != nil {
		return nil, err
	}
	t, err := template.New(file).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return nil, err
	}
	objs, err := Parse(&out)
	for _, obj := range objs {
		tidyMetadata(obj)
	}
	return objs, err
}

// Parse returns the objects of a text in YAML.
func Parse(text io.Reader) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4<<10)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, err
		}
		if len(obj.Object) > 0 {
			objs = append(objs, obj)
		}
	}
}

// tidyMetadata removes from labels and annotations what only OCM's applier supports: empty maps,
// and keys that end in "-", which tell it to remove a key.
func tidyMetadata(obj *unstructured.Unstructured) {
	for _, field := range []string{"labels", "annotations"} {
		values, found, _ := unstructured.NestedMap(obj.Object, "metadata", field)
		if !found {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
			continue
		}
		maps.DeleteFunc(values, func(key string, _ any) bool { return strings.HasSuffix(key, "-") })
		if err := unstructured.SetNestedMap(obj.Object, values, "metadata", field); err != nil {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
		}
	}
}
