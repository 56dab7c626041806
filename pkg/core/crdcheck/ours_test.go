package crdcheck_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

// TestOurCRDs: the API server accepts the CRDs of this repository, new and again, and a copy that
// went through an API server's encoding is the same.
func TestOurCRDs(t *testing.T) {
	files, err := filepath.Glob("../../../config/crd/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	var deliveries []crdcheck.Delivery
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd, again := &crdType{}, &crdType{}
		if err := yaml.Unmarshal(content, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		encoded, err := yaml.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(encoded, again); err != nil {
			t.Fatal(err)
		}
		if crdcheck.Hash(crd) != crdcheck.Hash(again) {
			t.Errorf("%s: the hash of a copy differs", crd.Name)
		}
		again.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "changed"
		for _, before := range []*crdType{nil, installed(again, again.Spec.Versions[0].Name)} {
			transition := crdcheck.NewTransition(t.Context(), before, crd)
			if len(transition.Refusals) > 0 || len(transition.Changes) > 0 || transition.NeedsObjects() {
				t.Errorf("%s: %v, %v", crd.Name, texts(transition.Refusals), transition.Changes)
			}
		}
		deliveries = append(deliveries, crdcheck.Delivery{Package: crdcheck.Package{Source: "r.io/starling"}, CRD: crd})
	}
	if findings := crdcheck.Conflicts(deliveries, nil, nil); len(findings) > 0 {
		t.Errorf("conflicts: %v", texts(findings))
	}
}
