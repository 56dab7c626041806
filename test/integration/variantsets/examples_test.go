package variantsets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/inventory"
)

var teams = schema.GroupVersionResource{Group: "krm-platform.bigco.com", Version: "v1", Resource: "teams"}

const teamCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: teams.krm-platform.bigco.com}
spec:
  group: krm-platform.bigco.com
  names: {plural: teams, singular: team, kind: Team, listKind: TeamList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func (e *environment) serveTeams(t *testing.T) {
	t.Helper()
	e.apply(t, teamCRD)
	if err := clusters.WaitForResources(t.Context(), &clusters.Space{Name: "wds1", Config: e.config}, teams); err != nil {
		t.Fatal(err)
	}
}

// world makes what the examples are about.
func (e *environment) world(t *testing.T) {
	t.Helper()
	e.serveTeams(t)
	for name, labels := range map[string]string{
		"cluster-01": "region: useast1, env: prod, org: hr", "cluster-02": "region: uswest1, env: prod, org: finance",
		"cluster-03": "region: useast2, env: prod, org: hr", "cluster-04": "region: uswest1, env: prod, org: hr",
		"team-a": "", "team-b": "", "example-repo": "", "platform-catalog": "",
	} {
		annotations := ""
		if name == "cluster-03" {
			annotations = "note: slow"
		}
		e.create(t, repositories, name, fmt.Sprintf("{metadata: {labels: {%s}, annotations: {%s}}, spec: {}}", labels, annotations))
	}
	for name, labels := range map[string]string{"team-b": "org: hr, role: dev", "team-c": "org: hr", "team-a": "org: hr, role: dev"} {
		e.create(t, teams, name, fmt.Sprintf("{metadata: {labels: {%s}}}", labels))
	}
	e.upstream(t, "example-repo", "foo", 1, "kpt.dev/latest-revision: 'true', tag.starling.io/stable: ''")
	e.upstream(t, "platform-catalog", "base-ns", 1, "")
}

// clusters makes ManagedClusters that are there until the test ends.
func (e *environment) clusters(t *testing.T, labels map[string]string) {
	t.Helper()
	for name, of := range labels {
		e.create(t, inventory.ManagedClusters, name, fmt.Sprintf("{metadata: {labels: {%s}}, spec: {hubAcceptsClient: true}}", of))
		t.Cleanup(func() { e.delete(t, inventory.ManagedClusters, name) })
	}
}

// TestExamples: those of the design of package variants, as an API server keeps what comes of them.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../pkg/core/variant/testdata/TestExamples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			e.world(t)
			e.clusters(t, map[string]string{
				"edge1": "env: prod, number: '01', region: north", "edge2": "env: test", "edge3": "env: prod, number: '03', region: south, ns: edge",
			})
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			running := e.run(t, options{})
			e.create(t, sets, "example", string(text))
			e.condition(t, "example", "Ready", "Reconciled")
			written := running.quiet(t)
			if want := int64(len(e.variants(t))); written < want+1 || written > want+2 {
				t.Errorf("%d writes for %d PackageVariants and a status", written, want)
			}
			golden(t, name, e.described(t, "example"))
			running.stop()

			// A restart writes nothing.
			if n := e.run(t, options{}).quiet(t); n > 0 {
				t.Errorf("%d writes after a restart", n)
			}
		})
	}
}
