package v1beta1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// kinds are all kinds that Crossplane has too.
var kinds = map[string]any{
	"v1/Provider": pkgv1.Provider{}, "v1/ProviderRevision": pkgv1.ProviderRevision{},
	"v1/Configuration": pkgv1.Configuration{}, "v1/ConfigurationRevision": pkgv1.ConfigurationRevision{},
	"v1/Function": pkgv1.Function{}, "v1/FunctionRevision": pkgv1.FunctionRevision{},
	"v1beta1/Function": pkgv1beta1.Function{}, "v1beta1/FunctionRevision": pkgv1beta1.FunctionRevision{},
	"v1beta1/Lock": pkgv1beta1.Lock{}, "v1beta1/ImageConfig": pkgv1beta1.ImageConfig{},
}

// opaque is a field whose fields the API server keeps and nobody reads.
const opaque = "spec.verification.cosign"

// crossplane returns the fields of Crossplane's types, by kind. hack/crossplane-fields.sh writes
// the file.
func crossplane(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.ReadFile("testdata/crossplane-v2.3.4.txt")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string][]string{}
	for line := range strings.Lines(string(file)) {
		kind, field, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(field, opaque+".") {
			fields[kind] = append(fields[kind], field)
		}
	}
	return fields
}

// TestFieldsOfCrossplane: each kind has the fields that it has in Crossplane, with the same types
// in JSON, and no others.
func TestFieldsOfCrossplane(t *testing.T) {
	t.Parallel()
	ours := map[string][]string{}
	for kind, object := range kinds {
		var fields []string
		addFields(&fields, "", reflect.TypeOf(object))
		fields = slices.DeleteFunc(fields, func(field string) bool { return strings.HasPrefix(field, "metadata.") })
		slices.Sort(fields)
		ours[kind] = slices.Compact(fields)
	}
	if diff := cmp.Diff(crossplane(t), ours); diff != "" {
		t.Errorf("(-Crossplane's +ours):\n%s", diff)
	}
}

// addFields adds the fields of a type with their paths and types in JSON.
func addFields(fields *[]string, path string, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := t.Kind().String()
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		kind = "time"
	case t.Kind() == reflect.Struct:
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			addFields(fields, strings.Trim(path+"."+name, "."), field.Type)
		}
		kind = "object"
	case t.Kind() == reflect.Slice:
		addFields(fields, path+"[]", t.Elem())
		kind = "list"
	case t.Kind() == reflect.Map:
		addFields(fields, path+"{}", t.Elem())
	}
	if path != "" {
		*fields = append(*fields, path+" "+kind)
	}
}

// TestObjectsOfCrossplane: an object with all fields that Crossplane has can be read strictly, and
// is the same when it is written again.
func TestObjectsOfCrossplane(t *testing.T) {
	t.Parallel()
	for kind, fields := range crossplane(t) {
		sent := map[string]any{}
		for _, field := range fields {
			path, kind, _ := strings.Cut(field, " ")
			if value := valueOf(path, kind); value != nil {
				set(sent, strings.Split(path, "."), value)
			}
		}
		object := reflect.New(reflect.TypeOf(kinds[kind])).Interface()
		decoder := json.NewDecoder(bytes.NewReader(encode(t, sent)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(object); err != nil {
			t.Errorf("%s: %v: %s", kind, err, encode(t, sent))
			continue
		}
		var written map[string]any
		if err := json.Unmarshal(encode(t, object), &written); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, written); diff != "" {
			t.Errorf("%s (-sent +written):\n%s", kind, diff)
		}
	}
}

// valueOf returns a value for a field, nil for one that only has others.
func valueOf(path, kind string) any {
	switch {
	case path == "metadata":
		return map[string]any{"name": "a", "annotations": map[string]any{"a": "b"}}
	case path == opaque:
		return map[string]any{}
	}
	return map[string]any{"string": "value of " + path, "bool": true, "int64": float64(len(path)), "time": "2025-09-22T22:55:00Z"}[kind]
}

// set sets a field. Lists and maps have one item.
func set(object map[string]any, path []string, value any) {
	name, rest := path[0], path[1:]
	name, isMap := strings.CutSuffix(name, "{}")
	name, isList := strings.CutSuffix(name, "[]")
	if len(rest) > 0 || isMap {
		child := map[string]any{}
		switch old := object[name].(type) {
		case map[string]any:
			child = old
		case []any:
			child, _ = old[0].(map[string]any)
		}
		if isMap {
			rest = []string{"key"}
		}
		set(child, rest, value)
		value = child
	}
	if isList {
		value = []any{value}
	}
	object[name] = value
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
