package customize_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors that users read in status.errors, after the cluster and the object.
func TestTexts(t *testing.T) {
	many := make([]string, 7)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":"{{.x}}"`, i)
	}
	var texts []golden.Text
	for _, content := range []string{
		`"data":{"a":"{{.zone}}"}`,
		`"data":{"a":"{{.site"}`,
		`"data":{"a":"{{range 1000000000}}{{end}}"}`,
		`"data":{"a":"{{range .}}{{range $}}{{range $}}{{range $}}{{end}}{{end}}{{end}}{{end}}"}`,
		`"data":{"a":"{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}"}`,
		`"data":{"a":"{{template \"x\"}}"}`,
		`"data":{"a":"{{$ := 1}}"}`,
		`"data":{"a":"` + strings.Repeat(`{{printf \"%50000d\" 1}}`, 22) + `"}`,
		`"kind":"{{.site}}"`,
		`"data":{` + strings.Join(many, ",") + `}`,
	} {
		template, err := customize.Compile(object(t, settings, content))
		if err == nil {
			_, err = template.Expand(edge)
		}
		if err == nil {
			t.Fatalf("%s: no error", content)
		}
		if len(content) > 120 {
			content = content[:117] + "..."
		}
		texts = append(texts, golden.Text{Heading: content, Text: err.Error()})
	}
	secret, err := customize.Compile(object(t, password, `"stringData":{"a":"{{hunter2}}"}`))
	if err == nil {
		t.Fatalf("a Secret: %v", secret)
	}
	golden.Texts(t, append(texts, golden.Text{Heading: "an invalid template in a Secret", Text: err.Error()})...)
}
