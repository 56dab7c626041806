package merge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
)

// thingSchema has a list with keys, one whose elements are their own keys, and one without keys.
const thingSchema = `{"type": "object", "properties": {"spec": {"type": "object", "properties": {
	"routes": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host", "port"],
		"items": {"type": "object", "properties": {"paths": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}},
	"steps": {"type": "array", "items": {"type": "string"}}}}}}`

func thingCRD(version, openAPIV3Schema string) string {
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: things.example.com\nspec:\n  group: example.com\n" +
		"  names: {kind: Thing, plural: things}\n  versions:\n  - name: " + version + "\n    schema:\n      openAPIV3Schema: " + strings.ReplaceAll(openAPIV3Schema, "\n", " ") + "\n"
}

func thing(routes string, more ...string) string {
	return "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: a\nspec:\n  routes:\n" + routes + strings.Join(more, "")
}

// TestDefaultsOfKeys: an element without a key has the default of the field, which an API server
// sets.
func TestDefaultsOfKeys(t *testing.T) {
	schema := func(string, string) (*openapi.ResourceSchema, error) {
		s := &openapi.ResourceSchema{}
		return s, json.Unmarshal([]byte(`{"type": "object", "properties": {"spec": {"type": "object", "properties": {"routes": {
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host", "port"],
			"items": {"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "integer", "default": 80}}}}}}}}`), &s.Schema)
	}
	one := func(routes ...string) files {
		return files{"a.yaml": thing("  - " + strings.Join(routes, "\n  - ") + "\n")}
	}
	got, err := merge.Merge(merge.ResourceMerge, one("{host: a, v: 1}", "{host: b, v: 1}"), one("{host: a, port: 80, v: 2}", "{host: b, v: 2}", "{host: c, v: 1}"),
		one("{host: a, v: 1, w: 5}", "{host: b, port: 80, v: 1}", "{host: c, port: 80, v: 1}"), schema)
	if err != nil {
		t.Fatal(err)
	}
	want := one("{host: a, port: 80, v: 2, w: 5}", "{host: b, port: 80, v: 2}", "{host: c, port: 80, v: 1}")
	if diff := cmp.Diff(want["a.yaml"], got.Files["a.yaml"]); diff != "" || len(got.Conflicts) > 0 {
		t.Errorf("conflicts %v (-want +got):\n%s", got.Conflicts, diff)
	}
}

// TestSchemasAreAskedForOnce: an answer is a request to an API server.
func TestSchemasAreAskedForOnce(t *testing.T) {
	asked := map[string]int{}
	find := func(apiVersion, kind string) (*openapi.ResourceSchema, error) {
		asked[apiVersion+"/"+kind]++
		return nil, nil //nolint:nilnil // nobody serves it
	}
	things := func(value string) files {
		return files{"a.yaml": thing("  - {host: a, v: " + value + "}\n"), "b.yaml": strings.Replace(thing("  - {host: b, v: "+value+"}\n"), "name: a", "name: b", 1)}
	}
	if _, err := merge.Merge(merge.ResourceMerge, things("1"), things("2"), things("3"), find); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"example.com/v1/Thing": 1}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestCustomLists: the lists of custom kinds are merged by the keys that their definition names, be
// it in the package or elsewhere.
func TestCustomLists(t *testing.T) {
	const (
		a     = "  - host: a\n    port: 80\n    paths: [x]\n"
		a2    = "  - host: a\n    port: 80\n    paths: [x, 'y']\n"
		mineA = "  - host: a\n    port: 80\n    paths: [x]\n    mine: yes\n"
		both  = "  - host: a\n    port: 80\n    paths: [x, 'y']\n    mine: yes\n"
		tls   = "  - host: a\n    port: 443\n"
		b     = "  - host: b\n"
	)
	known := func(text string) merge.Schemas {
		return func(apiVersion, kind string) (*openapi.ResourceSchema, error) {
			if apiVersion != "example.com/v1" || kind != "Thing" {
				return nil, nil //nolint:nilnil // as documented
			}
			s := &openapi.ResourceSchema{}
			return s, json.Unmarshal([]byte(text), &s.Schema)
		}
	}
	unknown := func(string, string) (*openapi.ResourceSchema, error) { return nil, errors.New("the server is away") }
	for name, tc := range map[string]struct {
		crds      [3]string // of original, updated and local
		schemas   merge.Schemas
		merged    bool
		wantError string
	}{
		"NoSchema":                 {},
		"OfOthers":                 {schemas: known(thingSchema), merged: true},
		"OfUpstream":               {crds: [3]string{"", thingCRD("v1", thingSchema), ""}, merged: true},
		"OfLocal":                  {crds: [3]string{"", "", thingCRD("v1", thingSchema)}, merged: true},
		"OfThePackageFirst":        {crds: [3]string{thingCRD("v1", thingSchema), thingCRD("v1", thingSchema), thingCRD("v1", thingSchema)}, schemas: unknown, merged: true},
		"OfAnotherVersion":         {crds: [3]string{"", thingCRD("v2", thingSchema), ""}},
		"Unknown":                  {schemas: unknown, wantError: "read the schema of Thing.example.com a: the server is away"},
		"InvalidDefinition":        {crds: [3]string{"", "", thingCRD("v1", `{"properties": []}`)}},
		"KeysOfAnotherType":        {schemas: known(strings.Replace(thingSchema, `["host", "port"]`, `{"host": 1}`, 1))},
		"StrategyOfAnotherType":    {schemas: known(strings.Replace(thingSchema, `"x-kubernetes-list-type": "map"`, `"x-kubernetes-patch-strategy": ["merge"]`, 1))},
		"DefinitionThatIsNoObject": {crds: [3]string{"", "", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec: []\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := [3]files{{"a.yaml": thing(a + b)}, {"a.yaml": thing(a2 + tls + b)}, {"a.yaml": thing(mineA + b)}}
			for v, crd := range tc.crds {
				if crd != "" {
					in[v]["crd.yaml"] = crd
				}
			}
			got, err := merge.Merge(merge.ResourceMerge, in[0], in[1], in[2], tc.schemas)
			if tc.wantError != "" {
				wrong, is := errors.AsType[*merge.SchemaError](err)
				if !is || wrong.Error() != tc.wantError {
					t.Errorf("%v, want %s", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, conflicts := thing(both+tls+b), 0
			if !tc.merged {
				want, conflicts = thing(a2+tls+b), 1 // the list of upstream
			}
			if diff := cmp.Diff(want, got.Files["a.yaml"]); diff != "" || len(got.Conflicts) != conflicts {
				t.Errorf("conflicts %v (-want +got):\n%s", got.Conflicts, diff)
			}
		})
	}
}
