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

func TestStarling(t *testing.T) {
	for name, values := range matrix(t, "starling") {
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
		"no type":        {"ITSes: [{name: its1}]", "type"},
		"type":           {"ITSes: [{name: its1, type: virtual}]", "/ITSes/0/type"},
		"no name":        {"ITSes: [{type: hosted}]", "name"},
		"name":           {"ITSes: [{name: ITS, type: hosted}]", "ITS"},
		"twice":          {its + "WDSes: [{name: its1, type: hosted}]", `two spaces have the name "its1"`},
		"no ITS":         {"WDSes: [{name: wds1, type: hosted}]", `WDS "wds1" has no ITS`},
		"unknown ITS":    {its + "WDSes: [{name: wds1, type: hosted, ITSName: its2}]", `ITS "its2" is not in the list`},
		"no kubeconfig":  {"ITSes: [{name: its1, type: external}]", "kubeconfigSecret"},
		"unknown value":  {"ITSes: [{name: its1, type: hosted, apiserver: {}}]", "apiserver"},
		"nested value":   {"ITSes: [{name: its1, type: hosted, apiServer: {replica: 2}}]", "replica"},
		"of all spaces":  {"space: {etcd: {replicas: 2}}", "/etcd/replicas"},
		"top":            {"itses: []", "itses"},
		"WDS on hosted":  {"ITSes: [{name: its1, type: hosted, kubeconfigSecret: a}]", `space "its1": kubeconfigSecret is for type external`},
		"plane":          {"ITSes: [{name: its1, type: hosted, controlPlane: a}]", `space "its1": controlPlane is for type kubeflex`},
		"package server": {its + "WDSes: [{name: wds1, type: hosted, packageServer: 'a:1'}]", `WDS "wds1": packageServer is set by the chart`},
		"which plane":    {"ITSes: [{name: its1, type: kubeflex}]", `space "its1": there is no ControlPlane with label kflex.kubestellar.io/cptype=its`},

		"function's digest":  {"functions: [{name: f, image: 'a/f:v1', digest: latest, command: [/f]}]", "/functions/0/digest"},
		"function's program": {"functions: [{name: f, image: 'a/f:v1', digest: 'sha256:" + strings.Repeat("0", 64) + "'}]", "command"},

		// One space under two names.
		"host twice":   {"ITSes: [{name: its1, type: host}]\nWDSes: [{name: wds1, type: host}]", `spaces "its1" and "wds1" are one, since both are this cluster`},
		"Secret twice": {"ITSes: [{name: a, type: external, kubeconfigSecret: x}, {name: b, type: external, kubeconfigSecret: x}]", `spaces "a" and "b" are one, since both are the cluster of Secret "hub/x"`},
		"plane twice":  {"ITSes: [{name: a, type: kubeflex, controlPlane: x}]\nWDSes: [{name: b, type: kubeflex, controlPlane: x}]", `spaces "a" and "b" are one, since both are ControlPlane "x"`},

		// Values of KubeStellar that mean something else here.
		"vcluster":        {"ITSes: [{name: its1, type: vcluster}]", `type "vcluster" is one of KubeFlex: use hosted`},
		"k8s":             {its + "WDSes: [{name: wds1, type: k8s}]", `type "k8s" is one of KubeFlex: use hosted`},
		"bootstrapSecret": {"ITSes: [{name: its1, type: host, bootstrapSecret: {name: a}}]", `space "its1": bootstrapSecret is for type external`},
		"two Secrets":     {"ITSes: [{name: its1, type: external, kubeconfigSecret: b, bootstrapSecret: {name: a}}]", `mean the same`},
		"clusteradm":      {"ITSes: [{name: its1, type: host, install_clusteradm: true}]", "Run `clusteradm init` in this one"},
		"no clusteradm":   {"ITSes: [{name: its1, type: hosted, install_clusteradm: false}]", `always has Open Cluster Management`},
		"version":         {"KUBESTELLAR_VERSION: 0.30.0", "KUBESTELLAR_VERSION is a value of KubeStellar: use image.tag"},
		"transport":       {"transport_controller: {max_num_wrapped: 1}", "transport_controller is a value of KubeStellar: use transportController.extraArgs"},
		"level of agents": {"verbosity: {status_agent: 2}", "verbosity.status_agent is a value of KubeStellar"},
		"level":           {"verbosity: {transport: high}", "/verbosity/transport"},
		"interval":        {"metrics: {serviceMonitor: {interval: often}}", "/metrics/serviceMonitor/interval"},
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
