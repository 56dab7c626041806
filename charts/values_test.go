package charts_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schema is a JSON schema, as far as these tests look at it.
type schema struct {
	Ref                  string             `json:"$ref"`
	Definitions          map[string]*schema `json:"definitions"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties any                `json:"additionalProperties"`
	Items                *schema            `json:"items"`
}

func readSchema(t *testing.T, chart string) *schema {
	t.Helper()
	out := &schema{}
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// at returns the part of s that a reference such as #/definitions/space/properties/etcd names.
func (s *schema) at(t *testing.T, ref string) *schema {
	t.Helper()
	out := s
	for parts := strings.Split(strings.TrimPrefix(ref, "#/"), "/"); len(parts) > 1; parts = parts[2:] {
		switch parts[0] {
		case "definitions":
			out = out.Definitions[parts[1]]
		case "properties":
			out = out.Properties[parts[1]]
		}
		if out == nil {
			t.Fatalf("the schema has no %s", ref)
		}
	}
	return out
}

func readValues(t *testing.T, chart string) (text string, values map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data), parseValues(t, string(data))
}

// TestValuesAndSchemas: each value is in the schema and each property of the schema is a value, so
// that values.yaml documents all of them, and a mistyped one is an error.
func TestValuesAndSchemas(t *testing.T) {
	for _, chart := range []string{"space", "starling", "wds", "its"} {
		t.Run(chart, func(t *testing.T) {
			root := readSchema(t, chart)
			_, values := readValues(t, chart)
			compareValues(t, root, root, values, chart)
		})
	}
}

func compareValues(t *testing.T, root, s *schema, values map[string]any, path string) {
	t.Helper()
	for s.Ref != "" {
		s = root.at(t, s.Ref)
	}
	if s.Properties == nil {
		return // any, such as annotations
	}
	if allows, ok := s.AdditionalProperties.(bool); !ok || allows {
		t.Errorf("%s: the schema allows every value, so that a mistyped one has no effect", path)
	}
	for name := range values {
		if s.Properties[name] == nil {
			t.Errorf("%s.%s is not in the schema", path, name)
		}
	}
	for name, property := range s.Properties {
		value, ok := values[name]
		if !ok {
			// Helm adds "global" itself.
			if name != "global" {
				t.Errorf("%s.%s is not in values.yaml", path, name)
			}
			continue
		}
		if nested, ok := value.(map[string]any); ok {
			compareValues(t, root, property, nested, path+"."+name)
		}
	}
}

// TestValuesOfSpaces: an entry of ITSes and WDSes may have the values of the chart "space" that can
// differ between the spaces of a release, with the same schema, and values.yaml names the others.
func TestValuesOfSpaces(t *testing.T) {
	space, starling := readSchema(t, "space"), readSchema(t, "starling")
	for _, ofAll := range []string{"global", "name", "kind", "image", "networkPolicies", "metrics"} {
		delete(space.Properties, ofAll)
	}
	if diff := cmp.Diff(space.Properties, starling.Definitions["space"].Properties); diff != "" {
		t.Errorf("definition \"space\" (-chart space, +chart starling):\n%s", diff)
	}
	text, _ := readValues(t, "starling")
	for _, list := range []string{"ITS", "WDS"} {
		entry := starling.Definitions[list].Properties
		for _, name := range slices.Sorted(maps.Keys(space.Properties)) {
			if p := entry[name]; p == nil || p.Ref != "#/definitions/space/properties/"+name {
				t.Errorf("%s: %s is not that of the chart \"space\"", list, name)
			}
			delete(entry, name)
		}
		for _, name := range slices.Sorted(maps.Keys(entry)) {
			if !strings.Contains(text, "#   "+name+" ") {
				t.Errorf("values.yaml does not say what %s of an entry in %ses is", name, list)
			}
		}
	}
}
