package functions_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// TestSecretsAreWithheld: what a function says goes into conditions and statuses, which more people
// may read than files. Of a Secret's values nothing is there, whatever output it.
func TestSecretsAreWithheld(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  annotations:\n" +
		"    kubectl.kubernetes.io/last-applied-configuration: '{\"stringData\":{\"old\":\"hunter0\"}}'\n" +
		"stringData:\n  plain: &value hunter2\n  merged: *value\n  lines: |\n    first-line\n    second-line\n  quotes: 'say \"hunter3\"'\ndata:\n  coded: " +
		base64.StdEncoding.EncodeToString([]byte("hunter1")) + "\n"
	const list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: inner}, stringData: {p: hunter4}}\n"
	const other = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  shown: public\n"
	program := func(source string) string {
		return "apiVersion: fn.kpt.dev/v1alpha1\nkind: StarlarkRun\nsource: |\n  " + strings.ReplaceAll(source, "\n", "\n  ") + "\n"
	}
	for name, tc := range map[string]struct {
		image, config string
		// shown are parts of the messages that are not withheld.
		shown []string
	}{
		"Found":     {"search-replace:v0.2", data(`by-path: "stringData.*"`), []string{`Matched field value "***"`}},
		"Set":       {"search-replace:v0.2", data("by-value-regex: hunter(.*)", "put-value: pass${1}word"), []string{`Mutated field value to "***"`}},
		"Comment":   {"search-replace:v0.2", data("by-value-regex: (hunter.*)", `put-comment: "was ${1}"`), []string{`Added line comment "was ***"`}},
		"Elsewhere": {"search-replace:v0.2", data("by-value: public", "put-value: common"), []string{`Mutated field value to "common"`}},
		"Printed":   {"starlark:v0.5", program(`print(ctx.resource_list["items"])`), []string{"***", "public"}},
		"Failed":    {"starlark:v0.5", program(`fail("it is %s" % ctx.resource_list["items"])`), []string{"it is ", "***", "public"}},
		"Decoded":   {"starlark:v0.5", program("load('encoding/base64.star', 'base64')\nfail(base64.decode(ctx.resource_list['items'][0]['data']['coded']))"), []string{"***"}},
		"Created":   {"starlark:v0.5", program("ctx.resource_list['items'][0]['stringData']['new'] = 'passed'\nprint('passed')"), []string{"***"}},
		"Too short": {"starlark:v0.5", program("ctx.resource_list['items'][0]['stringData']['new'] = 'a'\nprint('a text')"), []string{"a text"}},
		"Validated": {"kubeconform:v0.1", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := functions.Run(tc.image, functions.Input{Items: items(t, "resources.yaml", secret+"---\n"+list+"---\n"+other), Config: config(tc.config)})
			output := fmt.Sprint(out.Stderr, err)
			for _, r := range out.Results {
				output += "\n" + r.Message
			}
			for _, value := range []string{"hunter", "pass2word", "first-line", "second-line", base64.StdEncoding.EncodeToString([]byte("hunter1")), "passed"} {
				if strings.Contains(output, value) {
					t.Errorf("the output contains %q:\n%s", value, output)
				}
			}
			for _, text := range tc.shown {
				if !strings.Contains(output, text) {
					t.Errorf("%q is missing:\n%s", text, output)
				}
			}
		})
	}
}
