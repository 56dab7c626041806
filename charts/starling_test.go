package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/test/golden"
)

// starlingValues are values of the chart "starling".
var starlingValues = map[string]string{
	"nothing": "",
	"hosted": `
ITSes: [{name: its1, type: hosted, apiServer: {url: "https://its1.example.com", hosts: [its1.example.com]}}]
WDSes: [{name: wds1, type: hosted}]
`,
	"mixed": `
image: {registry: registry.example.com/starling, tag: v1.2.3, pullSecrets: [pull]}
ITSes:
- {name: its1, type: hosted, etcd: {replicas: 3}}
- {name: its2, type: external, kubeconfigSecret: its2-admin, kubeconfigKey: config}
WDSes:
- {name: wds1, type: host, ITSName: its2}
- {name: wds2, type: external, kubeconfigSecret: wds2, ITSes: [its1, its2], packageServer: "packages.example.com:443"}
space: {apiServer: {replicas: 2}}
transportController: {replicas: 1, extraArgs: [--v=4]}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}, interval: 1m}}
nodeSelector: {role: hub}
podLabels: {team: platform, app.kubernetes.io/name: mine}
podAnnotations: {sidecar.istio.io/inject: "false"}
`,
}

func TestStarling(t *testing.T) {
	for name, values := range starlingValues {
		t.Run(name, func(t *testing.T) {
			lintChart(t, "starling", namespace, values)
			text, err := render(t, "starling", values)
			if err != nil {
				t.Fatal(err)
			}
			restricted(t, decode(t, text))
			golden.Compare(t, "starling-"+name, text)
		})
	}
}

// TestStarlingRefuses: wrong values are errors that name the value, before anything is installed.
func TestStarlingRefuses(t *testing.T) {
	const its = "ITSes: [{name: its1, type: hosted}]\n"
	for name, c := range map[string]struct{ values, want string }{
		"no type":       {"ITSes: [{name: its1}]", "type"},
		"type":          {"ITSes: [{name: its1, type: vcluster}]", "/ITSes/0/type"},
		"no name":       {"ITSes: [{type: hosted}]", "name"},
		"name":          {"ITSes: [{name: ITS, type: hosted}]", "ITS"},
		"twice":         {its + "WDSes: [{name: its1, type: hosted}]", `two spaces have the name "its1"`},
		"no ITS":        {"WDSes: [{name: wds1, type: hosted}]", `WDS "wds1" has no ITS`},
		"unknown ITS":   {its + "WDSes: [{name: wds1, type: hosted, ITSName: its2}]", `ITS "its2" is not in the list`},
		"no kubeconfig": {"ITSes: [{name: its1, type: external}]", "kubeconfigSecret"},
		"unknown value": {"ITSes: [{name: its1, type: hosted, apiserver: {}}]", "apiserver"},
		"nested value":  {"ITSes: [{name: its1, type: hosted, apiServer: {replica: 2}}]", "replica"},
		"of all spaces": {"space: {etcd: {replicas: 2}}", "/etcd/replicas"},
		"top":           {"itses: []", "itses"},
		"interval":      {"metrics: {serviceMonitor: {interval: often}}", "/metrics/serviceMonitor/interval"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(t, "starling", c.values)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestMonitoring: the objects for Prometheus and Grafana hold the files of config/monitoring.
func TestMonitoring(t *testing.T) {
	text, err := render(t, "starling", "metrics: {rules: {enabled: true}, dashboard: {enabled: true}}")
	if err != nil {
		t.Fatal(err)
	}
	objs, err := manifest.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, obj := range objs {
		switch obj.GetKind() {
		case "PrometheusRule":
			found["alerts.yaml"] = obj.Object["spec"]
		case "ConfigMap":
			data, _, err := unstructured.NestedString(obj.Object, "data", "starling.json")
			if err != nil {
				t.Fatal(err)
			}
			found["dashboard.json"] = parseValues(t, data)
		}
	}
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		want, err := os.ReadFile(filepath.Join("../config/monitoring", name))
		if err != nil {
			t.Fatal(err)
		}
		// Numbers are compared as text: parsers differ in their types.
		if diff := cmp.Diff(asJSON(t, parseValues(t, string(want))), asJSON(t, found[name])); diff != "" {
			t.Errorf("%s (-file +chart):\n%s", name, diff)
		}
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
