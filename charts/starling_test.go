package charts_test

import (
	"strings"
	"testing"

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
