package charts_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	// valuesBlock is an example in YAML, or the file that a command of an example writes.
	valuesBlock = regexp.MustCompile("(?s)(?:```yaml\n|<<END\n)(.*?)(?:```|\nEND)")
	// addresses are values of apiServer in a table.
	addresses = regexp.MustCompile("(?m)^\\|[^|]*\\| (`[^|]*(?:service|ingress): [^|]*`) \\|$")
	quoted    = regexp.MustCompile("`([^`]*)`")
)

// TestValuesInDocs: the chart accepts the values that the documents tell administrators to use.
func TestValuesInDocs(t *testing.T) {
	const its = "ITSes: [{name: its1, type: hosted}]\n"
	var all []string
	for _, doc := range []string{"install.md", "operations.md"} {
		data, err := os.ReadFile("../docs/" + doc)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), "$HUB", "192.0.2.7")
		for _, match := range valuesBlock.FindAllStringSubmatch(text, -1) {
			values := match[1]
			switch {
			case strings.Contains(values, "ITSes:\n"):
			case strings.Contains(values, "WDSes:\n"):
				values += its
			default:
				continue // other YAML
			}
			all = append(all, values)
		}
		for _, match := range addresses.FindAllStringSubmatch(text, -1) {
			values := "ITSes:\n- name: its1\n  type: hosted\n  apiServer:\n"
			for _, value := range quoted.FindAllStringSubmatch(match[1], -1) {
				values += "    " + strings.ReplaceAll(value[1], "ADDRESS", "192.0.2.7") + "\n"
			}
			all = append(all, values)
		}
	}
	if len(all) < 6 {
		t.Errorf("the documents have %d examples of values", len(all))
	}
	for _, values := range all {
		if _, err := render(t, "starling", values); err != nil {
			t.Errorf("%v in:\n%s", err, values)
		}
	}
}
