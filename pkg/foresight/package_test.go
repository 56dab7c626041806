package foresight

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// TestGatesOfRevision: explain shows the gates that the server checks, and no others.
func TestGatesOfRevision(t *testing.T) {
	r := &porchv1alpha1.PackageRevision{}
	r.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "config.injection.ConfigMap.site"}, {ConditionType: "Reviewed"}}
	if diff := cmp.Diff([]string{"gate Reviewed (no such condition)"}, revisionOf(r).Gates); diff != "" {
		t.Errorf("a blueprint (-want +got):\n%s", diff)
	}
	r.Status.Deployment = true
	if diff := cmp.Diff([]string{"gate Reviewed (no such condition)", "gate config.injection.ConfigMap.site (no such condition)"}, revisionOf(r).Gates); diff != "" {
		t.Errorf("a package for a cluster (-want +got):\n%s", diff)
	}
}
