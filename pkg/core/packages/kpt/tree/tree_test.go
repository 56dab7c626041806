package tree

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

func TestDraw(t *testing.T) {
	revision := &porchv1alpha1.PackageRevision{}
	revision.Spec.PackageName = "shop/web"
	revision.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "PackagePipelinePassed"}, {ConditionType: "Reviewed"}, {ConditionType: "Tested"}}
	revision.Status.Conditions = []porchv1alpha1.Condition{
		{Type: "PackagePipelinePassed", Status: "True", Reason: "PipelinePassed", Message: "package pipeline completed successfully"},
		{Type: "Reviewed", Status: "False", Reason: "Waiting", Message: "for Ann\n  or Bob\n"},
	}
	tests := map[string]struct {
		files kpt.Files
		want  string
	}{
		"nothing": {nil, `title
├── gate PackagePipelinePassed: True
├── gate Reviewed: False (Waiting: for Ann or Bob)
└── gate Tested: no such condition
`},
		"subpackages": {
			kpt.Files{
				"Kptfile": `apiVersion: kpt.dev/v1
kind: Kptfile
metadata: {name: web}
info: {readinessGates: [{conditionType: Other}]}
pipeline:
  mutators:
  - {image: ghcr.io/kptdev/krm-functions-catalog/set-namespace, tag: v0.4, configMap: {namespace: shop}}
  - {image: set-labels:v1, name: team, configPath: labels.yaml}
  validators: [{image: starlark}]
`,
				"README.md":        "hello",
				"web.yaml":         "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
				"list.yaml":        "apiVersion: v1\nkind: List\nitems: []\n",
				"values.yaml":      "a: 1\n",
				"bad.yaml":         "a: [\n",
				"db/Kptfile":       "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: db}\ninfo: {readinessGates: [{conditionType: Own}]}\nstatus: {conditions: [{type: Own, status: Unknown}]}\n",
				"db/sub/db.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: db}\n",
				"db/inner/Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: other}\n",
				"x/y/Kptfile":      "kind: Kptfile\n",
			},
			`title
├── gate PackagePipelinePassed: True
├── gate Reviewed: False (Waiting: for Ann or Bob)
├── gate Tested: no such condition
├── mutator ghcr.io/kptdev/krm-functions-catalog/set-namespace:v0.4 (namespace)
├── mutator set-labels:v1 team (labels.yaml)
├── validator starlark
├── [README.md]
├── [bad.yaml] cannot be read as YAML
├── [list.yaml] List
├── [values.yaml]
├── [web.yaml] Deployment.apps shop/web
├── [web.yaml] Service web
├── package db
│   ├── gate Own: Unknown
│   ├── [sub/db.yaml] ConfigMap db
│   └── package other (db/inner)
└── package y (x/y)
    └── [Kptfile] cannot be read: apiVersion and kind are "" and "Kptfile", want kpt.dev/v1 and Kptfile
`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			New(test.files, revision).Draw(&out, "title")
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
