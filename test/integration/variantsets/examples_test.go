package variantsets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/test/golden"
)

var teams = schema.GroupVersionResource{Group: "krm-platform.bigco.com", Version: "v1", Resource: "teams"}

const teamCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: teams.%[1]s}
spec:
  group: %[1]s
  names: {plural: teams, singular: team, kind: Team, listKind: TeamList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// installTeams applies the CustomResourceDefinition of Teams of a group.
func (e *environment) installTeams(t *testing.T, group string) {
	t.Helper()
	e.Apply(t, fmt.Sprintf(teamCRD, group))
}

// createExampleObjects creates the objects that the examples are about.
func (e *environment) createExampleObjects(t *testing.T) {
	t.Helper()
	e.installTeams(t, teams.Group)
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
		e.create(t, clusters.ManagedClusters, name, fmt.Sprintf("{metadata: {labels: {%s}}, spec: {hubAcceptsClient: true}}", of))
		t.Cleanup(func() { e.delete(t, clusters.ManagedClusters, name) })
	}
}

// TestExamples: the examples of the design of package variants, with the result as the API server
// stores it.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../pkg/core/packages/variant/testdata/TestExamples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	newEnvironment(t).clusters(t, map[string]string{
		"edge1": "env: prod, number: '01', region: north", "edge2": "env: test", "edge3": "env: prod, number: '03', region: south, ns: edge",
	})
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvironment(t)
			e.createExampleObjects(t)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			running := e.run(t, options{})
			e.create(t, sets, "example", string(text))
			e.waitForCondition(t, "example", "Ready", "Reconciling")
			written := running.quiet(t)
			if want := int64(len(e.variants(t))); written < want+1 || written > want+2 {
				t.Errorf("%d writes for %d PackageVariants and a status", written, want)
			}
			golden.Compare(t, name, e.describe(t, "example"))
			running.stop()

			// A restart writes nothing.
			if n := e.run(t, options{}).quiet(t); n > 0 {
				t.Errorf("%d writes after a restart", n)
			}
		})
	}
}
