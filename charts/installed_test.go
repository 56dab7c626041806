package charts_test

import (
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/test/golden"
)

// installedValues are values of the charts that are installed in spaces.
var installedValues = map[string]struct{ chart, values string }{
	"its":                   {chart: "its"},
	"wds":                   {chart: "wds"},
	"wds-without-the-check": {chart: "wds", values: "policyRights: false"},
}

// TestInstalled checks which objects the charts have. What is in them is in config/.
func TestInstalled(t *testing.T) {
	for name, c := range installedValues {
		t.Run(name, func(t *testing.T) {
			lintChart(t, c.chart, system, c.values)
			text, err := renderIn(t, c.chart, system, c.values)
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
			golden.Compare(t, "installed-"+name, strings.Join(lines, "\n")+"\n")
		})
	}
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
