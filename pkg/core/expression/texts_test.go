package expression_test

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/starlinghq/starling/pkg/core/expression"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors in CEL expressions, which users read in the status of the object with
// the expression.
func TestTexts(t *testing.T) {
	env, err := expression.Environment(cel.Variable("a", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	var texts []golden.Text
	for _, source := range []string{
		"a.", "b", "b + c + d + e + f", "1 + 'x'", "3", // not compiled
		"a.missing", "a.list[7]", "a.name + 1", "int(a.name) > 1 ? 'x' : 'y'", "a.list.map(x, a.list.map(y, x + y)).size() > 0 ? 'x' : 'y'",
	} {
		e, err := expression.Compile([]*cel.Env{env}, source, 50, "a string", types.StringKind)
		if err == nil {
			_, _, err = e.Evaluate(t.Context(), map[string]any{"a": map[string]any{"name": "web", "list": []any{1, 2, 3, 4, 5, 6, 7}}})
		}
		if err == nil {
			t.Fatalf("%s: no error", source)
		}
		texts = append(texts, golden.Text{Heading: source, Text: err.Error()})
	}
	golden.Texts(t, texts...)
}
