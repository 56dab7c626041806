package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

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

// TestResourcesOf: a kind counts when the cluster has an object of it, also while a change of it
// cannot be applied.
func TestResourcesOf(t *testing.T) {
	manifest := func(resource string, conditions ...metav1.Condition) workv1.ManifestCondition {
		return workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Resource: resource}, Conditions: conditions}
	}
	is := func(condition string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: condition, Status: status}
	}
	work := &workv1.ManifestWork{}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{
		manifest("new"),
		manifest("applied", is(workv1.ManifestApplied, metav1.ConditionTrue)),
		manifest("changed", is(workv1.ManifestApplied, metav1.ConditionFalse), is(workv1.ManifestAvailable, metav1.ConditionTrue)),
		manifest("refused", is(workv1.ManifestApplied, metav1.ConditionFalse), is(workv1.ManifestAvailable, metav1.ConditionFalse)),
		manifest("unknown", is(workv1.ManifestApplied, metav1.ConditionFalse)),
	}
	want := map[schema.GroupResource]bool{{Resource: "new"}: true, {Resource: "applied"}: true, {Resource: "changed"}: true}
	if diff := cmp.Diff(want, resourcesOf(work)); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
