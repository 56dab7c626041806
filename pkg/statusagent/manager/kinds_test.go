package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// TestGrantedKinds: an agent may read the kinds that were delivered, and never subresources,
// Secrets or what it does not report, whatever a cluster writes into the status of its works.
func TestGrantedKinds(t *testing.T) {
	excluded, err := corestatus.ParseExcluded(corestatus.DefaultExcludeKinds())
	if err != nil {
		t.Fatal(err)
	}
	standard, err := standardKinds()
	if err != nil {
		t.Fatal(err)
	}
	g := &granter{excluded: excluded, standard: standard}
	resources := map[schema.GroupResource]bool{}
	for _, gr := range []schema.GroupResource{
		{Group: "b.example.com", Resource: "things"},
		{Group: "a.example.com", Resource: "widgets"},
		{Group: "a.example.com", Resource: "gadgets"},
		{Resource: "services"},
		{Group: "apps", Resource: "deployments"},
		{Resource: "configmaps"},
		{Resource: "secrets"},
		{Resource: "endpoints"},
		{Resource: "nodes/proxy"},
		{Resource: "pods/exec"},
		{Resource: "*"},
		{Group: "*", Resource: "x"},
		{Group: "x", Resource: "*/*"},
		{},
	} {
		resources[gr] = true
	}
	read := []string{"get", "list", "watch"}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: read},
		{APIGroups: []string{"a.example.com"}, Resources: []string{"gadgets", "widgets"}, Verbs: read},
		{APIGroups: []string{"b.example.com"}, Resources: []string{"things"}, Verbs: read},
	}
	if diff := cmp.Diff(want, g.rules(resources)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	g.excluded = corestatus.Excluded{}
	if got := g.rules(map[schema.GroupResource]bool{{Resource: "secrets"}: true}); len(got) > 0 {
		t.Errorf("Secrets are granted: %v", got)
	}
}
