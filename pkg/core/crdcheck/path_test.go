package crdcheck

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// namesOf is the inverse of path.String. "[*]" is returned for each.
func namesOf(t *testing.T, at string) []string {
	t.Helper()
	var names []string
	for at != "" {
		switch {
		case strings.HasPrefix(at, eachElement):
			names, at = append(names, eachElement), at[len(eachElement):]
		case at[0] == '[':
			quoted, err := strconv.QuotedPrefix(at[1:])
			if err != nil {
				t.Fatalf("%q: %v", at, err)
			}
			name, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("%q: %v", at, err)
			}
			names, at = append(names, name), at[len(quoted)+2:]
		default:
			at = strings.TrimPrefix(at, ".")
			end := strings.IndexAny(at, ".[")
			if end < 0 {
				end = len(at)
			}
			names, at = append(names, at[:end]), at[end:]
		}
	}
	return names
}

// FuzzPath: a path names exactly its fields, whatever their names are, and siblings stay apart.
func FuzzPath(f *testing.F) {
	f.Add("spec", "size", "color")
	f.Add("a.b", `["`, "[*]")
	f.Add("", "\x00", "ä]")
	f.Add("*", "[0]", ".")
	f.Fuzz(func(t *testing.T, parent, one, other string) {
		var root *path
		above := root.field(parent).each()
		first, second := above.field(one), above.field(other)
		for name, at := range map[string]*path{one: first, other: second} {
			if diff := cmp.Diff([]string{parent, eachElement, name}, namesOf(t, at.String())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", at, diff)
			}
		}
		if (first.String() == second.String()) != (one == other) {
			t.Errorf("%q and %q are %s and %s", one, other, first, second)
		}
	})
}

// FuzzLocate: a key of a map is one element, whatever characters it has, and any path ends.
func FuzzLocate(f *testing.F) {
	f.Add("example.com/name", "a[0].b", "spec.list[0].x")
	f.Add("a", "[a]", "[")
	f.Add("a", "b", "..[x].[9].[99999999999]")
	inner := apiextensionsv1.JSONSchemaProps{AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{
		Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"},
	}}
	schema := &apiextensionsv1.JSONSchemaProps{AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &inner}}
	f.Fuzz(func(t *testing.T, outer, key, anything string) {
		locate(schema, map[string]any{outer: map[string]any{key: "x"}}, anything)
		locate(nil, nil, anything)
		if outer == "" || key == "" || outer[0] == '.' || key[0] == '.' {
			t.Skip() // the API server's path does not show where such a key begins
		}
		object := map[string]any{outer: map[string]any{key: "x"}}
		if got := locate(schema, object, outer+"."+key).String(); got != "[*][*]" {
			t.Errorf("%q.%q is %s", outer, key, got)
		}
	})
}

func TestLocate(t *testing.T) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema := &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"a":   {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"b": text}}}},
		"a.b": text,
		"m":   {AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &text}},
	}}
	object := map[string]any{"a": []any{map[string]any{"b": "x"}, map[string]any{}}, "a.b": "x", "m": map[string]any{"x.y/z": "x"}}
	got := map[string]string{}
	for _, at := range []string{"", "a[0].b", "a[1].b", "a[7].b", "a.b", "m.x.y/z", "m[x.y/z]", "unknown.q.r"} {
		got[at] = locate(schema, object, at).String()
	}
	want := map[string]string{
		"": "", "a[0].b": "a[*].b", "a[1].b": "a[*].b", "a[7].b": `a["[7]"].b`, "a.b": `["a.b"]`,
		"m.x.y/z": "m[*]", "m[x.y/z]": "m[*]", "unknown.q.r": "unknown.q.r",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
