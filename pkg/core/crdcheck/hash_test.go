package crdcheck_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

func TestHash(t *testing.T) {
	base := newCRD(t, "v1", spec("a: {type: object, required: [x, k], default: {x: 1, k: 2}, properties: {x: {type: integer}, k: {type: integer}}}"))
	base.Spec.Names.ShortNames = []string{"a", "b"}
	base.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "n", Name: "s"}},
		},
	}
	nested := func(crd *crdType) *schemaType {
		s := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["a"]
		return &s
	}
	set := func(crd *crdType, s *schemaType) {
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["a"] = *s
	}
	for name, tc := range map[string]struct {
		change func(*crdType)
		same   bool
	}{
		"Nothing":  {func(*crdType) {}, true},
		"Metadata": {func(crd *crdType) { crd.Labels, crd.UID, crd.Generation = map[string]string{"a": "b"}, "1", 2 }, true},
		"Status":   {func(crd *crdType) { crd.Status.StoredVersions = []string{"v1"} }, true},
		"CABundle": {func(crd *crdType) { crd.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte("x") }, true},
		"Defaults": {func(crd *crdType) {
			crd.Spec.Names.Singular, crd.Spec.Names.ListKind = "widget", "WidgetList"
			crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = new(int32(443))
		}, true},
		"OrderOfSets": {func(crd *crdType) {
			crd.Spec.Names.ShortNames = []string{"b", "a"}
			s := nested(crd)
			s.Required = []string{"k", "x"}
			set(crd, s)
		}, true},
		"FormOfJSON": {func(crd *crdType) {
			s := nested(crd)
			s.Default = &apiextensionsv1.JSON{Raw: []byte(`{ "x": 1.0, "k": 2 }`)}
			set(crd, s)
		}, true},
		"Description": {func(crd *crdType) {
			s := nested(crd)
			s.Description = "new"
			set(crd, s)
		}, false},
		"Default": {func(crd *crdType) {
			s := nested(crd)
			s.Default = &apiextensionsv1.JSON{Raw: []byte(`{"x":1,"k":3}`)}
			set(crd, s)
		}, false},
		"Malformed": {func(crd *crdType) {
			s := nested(crd)
			s.Default = &apiextensionsv1.JSON{Raw: []byte(`{`)}
			set(crd, s)
		}, false},
		"Name":   {func(crd *crdType) { crd.Name = "x" }, false},
		"Served": {func(crd *crdType) { crd.Spec.Versions[0].Served = false }, false},
		"Path":   {func(crd *crdType) { crd.Spec.Conversion.Webhook.ClientConfig.Service.Path = new("/x") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := base.DeepCopy()
			tc.change(changed)
			kept := changed.DeepCopy()
			if same := crdcheck.Hash(base) == crdcheck.Hash(changed); same != tc.same {
				t.Errorf("same: %v", same)
			}
			if diff := cmp.Diff(kept, changed); diff != "" {
				t.Errorf("the CRD was changed (-want +got):\n%s", diff)
			}
			if tc.same {
				if changes := crdcheck.Compare(base, changed); changes != nil {
					t.Errorf("changes: %v", changes)
				}
			}
		})
	}
}

// large returns a CRD with about as many fields as a managed resource of a cloud has.
func large(t testing.TB, n int) *crdType {
	t.Helper()
	fields := ""
	for i := range 100 {
		fields += fmt.Sprintf("f%d: {type: array, description: 'Which of these is used, and how it is found when there is more than one of them.', "+
			"items: {type: object, required: [a], properties: {a: {type: string, maxLength: %d}, b: {type: string, enum: [x, z], default: x}}}},", i, n+10)
	}
	crd := newCRD(t, "v1beta1", spec(fields), "v1", spec(fields))
	crd.Name = fmt.Sprintf("c%d.example.com", n)
	return crd
}

// BenchmarkHash is the cost of one installation with 900 CRDs, none of which changes.
func BenchmarkHash(b *testing.B) {
	var crds []*crdType
	for i := range 900 {
		crds = append(crds, large(b, i))
	}
	hashes := map[string]string{}
	for _, crd := range crds {
		hashes[crd.Name] = crdcheck.Hash(crd)
	}
	for b.Loop() {
		for _, crd := range crds {
			if crdcheck.Hash(crd) != hashes[crd.Name] {
				b.Fatal("the hash is not stable")
			}
		}
	}
}

// BenchmarkCompare is the cost of one CRD in which one field of a hundred changes.
func BenchmarkCompare(b *testing.B) {
	before, after := large(b, 1), large(b, 2)
	for b.Loop() {
		if len(crdcheck.Compare(before, after)) == 0 {
			b.Fatal("no changes")
		}
	}
}

// BenchmarkTransition adds what the API server checks.
func BenchmarkTransition(b *testing.B) {
	before, after := installed(large(b, 2), "v1"), large(b, 1)
	after.Name = before.Name
	for b.Loop() {
		if transition := crdcheck.NewTransition(b.Context(), before, after); len(transition.Changes) == 0 {
			b.Fatal("no changes")
		}
	}
}

// BenchmarkObject is the cost of one object that violates nothing.
func BenchmarkObject(b *testing.B) {
	before, after := installed(large(b, 2), "v1"), large(b, 1)
	checker := crdcheck.NewTransition(b.Context(), before, after).Checker()
	content := object(b, "v1", "w", "{spec: {f1: [{a: x}, {a: y, b: z}], f2: [{a: x}]}}")
	for b.Loop() {
		if err := checker.Object(b.Context(), content); err != nil {
			b.Fatal(err)
		}
	}
}
