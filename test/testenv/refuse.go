package testenv

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RefuseChanges has the API server refuse what changes the content of a CustomResourceDefinition,
// and accept dry runs of it, until the returned function is called. So what is valid cannot be
// carried out.
func (s *Space) RefuseChanges(t testing.TB, crd string) (accept func()) {
	t.Helper()
	const probe = "probes.example.org"
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	s.Apply(t, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: no-changes}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [apiextensions.k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [customresourcedefinitions], resourceNames: [%s, %s]}]},
		validations: [{expression: "has(request.dryRun) && request.dryRun || oldObject != null && object.spec == oldObject.spec", message: no changes now}]}}`, crd, probe))
	s.Apply(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: no-changes}, spec: {
		policyName: no-changes, validationActions: [Deny]}}`)
	try := func() error {
		_, err := s.Client.Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": probe},
			"spec": map[string]any{
				"group": "example.org", "scope": "Cluster", "names": map[string]any{"kind": "Probe", "plural": "probes"},
				"versions": []any{map[string]any{"name": "v1", "served": false, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
			},
		}}, metav1.CreateOptions{})
		if err == nil {
			s.Remove(t, definitions, "", probe)
		}
		return err
	}
	Eventually(t, Patience, func() (bool, string) {
		return apierrors.IsInvalid(try()), "the admission policy is not active" // the probe of before may still exist
	})
	return func() {
		t.Helper()
		for _, resource := range []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies"} {
			s.Remove(t, schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}, "", "no-changes")
		}
		Eventually(t, Patience, func() (bool, string) {
			err := try()
			return err == nil, fmt.Sprint(err)
		})
	}
}
