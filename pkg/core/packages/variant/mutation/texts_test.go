package mutation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/variant/mutation"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors of mutations, and the conditions that they set in a Kptfile.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	for _, tc := range []struct {
		heading, spec string
		files         kpt.Files
	}{
		{"no package context", "packageContext: {data: {a: b}}", nil},
		{"another ConfigMap", "packageContext: {data: {a: b}}", kpt.Files{"package-context.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"}},
		{"a package context without data", "packageContext: {data: {a: b}}", kpt.Files{"package-context.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kptfile.kpt.dev}\n"}},
		{"invalid injection points", "{}", kpt.Files{"a.yaml": point("Endpoints", "x", "maybe"), "b.yaml": point("Endpoints", "x", "required")}},
		{"an object that cannot be read", "injectors: [{name: dark}]", kpt.Files{"a.yaml": point("Endpoints", "x", "required")}},
		{"an object that is injected", "injectors: [{name: east}]", kpt.Files{"a.yaml": point("Endpoints", "x", "required")}},
		{"no injector matches", "injectors: [{name: nobody}]", kpt.Files{"a.yaml": point("Endpoints", "x", "required")}},
		{"no injectors", "{}", kpt.Files{"a.yaml": point("Endpoints", "x", "optional")}},
		{"a kind that is not served", "injectors: [{name: east}]", kpt.Files{"a.yaml": strings.Replace(point("Thing", "x", "required"), "infra.", "gone.", 1)}},
		{"a kind that is refused", "injectors: [{name: east}]", kpt.Files{"a.yaml": strings.Replace(point("Thing", "x", "optional"), "infra.", "refused.", 1)}},
		{"an object without spec", "injectors: [{name: bare}]", kpt.Files{"a.yaml": point("Endpoints", "x", "required")}},
	} {
		r, err := mutation.Apply(input(t, "my-pv", tc.spec, tc.files))
		text := golden.Text{Heading: tc.heading}
		if err != nil {
			text.Text = "error: " + err.Error()
		} else {
			k, err := kpt.ParseKptfile(r.Files["Kptfile"])
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, c := range k.Conditions() {
				lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
			}
			text.Text = strings.Join(lines, "\n")
		}
		texts = append(texts, text)
	}
	golden.Texts(t, texts...)
}
