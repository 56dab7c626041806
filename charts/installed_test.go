package charts_test

import (
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/test/golden"
)

// TestInstalled checks which objects the charts have. What is in them is in config/.
func TestInstalled(t *testing.T) {
	for _, chart := range []string{"wds", "its"} {
		for name, values := range matrix(t, chart) {
			t.Run(chart+"-"+name, func(t *testing.T) { testInstalled(t, chart, name, values) })
		}
	}
}

func testInstalled(t *testing.T, chart, name, values string) {
	t.Helper()
	lintChart(t, chart, system, values)
	text, err := renderIn(t, chart, system, values)
	if err != nil {
		t.Fatal(err)
	}
	objs, err := manifest.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, obj := range objs {
		line := strings.TrimPrefix(obj.GetNamespace()+"/", "/") + obj.GetName()
		if obj.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			line += ", which stays when the release is uninstalled"
		}
		lines = append(lines, obj.GetKind()+" "+line)
	}
	golden.Compare(t, chart+"-"+name, strings.Join(lines, "\n")+"\n")
}

func TestInstalledRefuses(t *testing.T) {
	for name, c := range map[string]struct{ chart, namespace, values, want string }{
		"namespace":     {"wds", namespace, "", "install this chart in namespace starling-system"},
		"of an ITS too": {"its", namespace, "", "install this chart in namespace starling-system"},
		"type":          {"wds", system, "policyRights: 'no'", "/policyRights"},
		"unknown":       {"wds", system, "policyrights: false", "policyrights"},
		"no values":     {"its", system, "policyRights: false", "policyRights"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderIn(t, c.chart, c.namespace, c.values)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
