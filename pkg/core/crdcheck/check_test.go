package crdcheck_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

// TestObjects: a breaking change is an error only if an object violates it.
func TestObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string   // properties of the spec
		objects       []string // their specs
		accepted      bool
		want          []string
	}{
		"NothingBreaking": {"a: {type: string}", "a: {type: string}, b: {type: string}", []string{"{a: x}"}, false, nil},
		"NoObjects": {
			"a: {type: string}", "", nil, false,
			[]string{"warning: widgets.example.com v1: spec.a is removed"},
		},
		"NotUsed": {
			"a: {type: string}, b: {type: string}", "b: {type: string}",
			[]string{"{b: x}"},
			false,
			[]string{"warning: widgets.example.com v1: spec.a is removed"},
		},
		"LostField": {
			"a: {type: string}", "",
			[]string{"{a: x}", "{}", "{a: y}", "{a: y}", "{a: z}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a is removed (4 objects: default/w0, default/w2, default/w3 … and 1 more)"},
		},
		"Accepted": {
			"a: {type: string}", "",
			[]string{"{a: x}"},
			true,
			[]string{"warning: widgets.example.com v1: spec.a is removed (1 object: default/w0)"},
		},
		"Required": {
			"o: {type: object, properties: {a: {type: string}}}",
			"o: {type: object, required: [a, b], properties: {a: {type: string}, b: {type: string}}}",
			[]string{"{o: {a: x}}", "{}"},
			false,
			[]string{
				"error: widgets.example.com v1: spec.o.b is new and required (1 object: default/w0)",
				"warning: widgets.example.com v1: spec.o.a is required now",
			},
		},
		"RequiredWithDefault": {
			"a: {type: string}, o: {type: object, properties: {a: {type: string}}}",
			"o: {type: object, required: [b], properties: {a: {type: string}, b: {type: string, default: x}}}",
			[]string{"{o: {a: x}}", "{}"},
			false,
			[]string{"warning: widgets.example.com v1: spec.a is removed"},
		},
		"Type": {
			"a: {type: string}", "a: {type: integer}",
			[]string{"{a: secret}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a: type is integer now, string before (1 object: default/w0)"},
		},
		"Format": {
			"a: {type: string}", "a: {type: string, format: date-time}",
			[]string{"{a: secret}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a: must be of type date-time (1 object: default/w0)"},
		},
		"Enum": {
			"a: {type: string}", "a: {type: string, enum: [x, z]}",
			[]string{"{a: secret}", "{a: x}"},
			false,
			[]string{`error: widgets.example.com v1: spec.a allows only "x", "z" now (1 object: default/w0)`},
		},
		"Bound": {
			"a: {type: integer}", "a: {type: integer, maximum: 3}",
			[]string{"{a: 3}", "{a: 4}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a: should be less than or equal to 3 (1 object: default/w1)"},
		},
		"LengthInAList": {
			"a: {type: array, items: {type: string}}", "a: {type: array, items: {type: string, maxLength: 2}}",
			[]string{"{a: [xx, xxx, xxxx]}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a[*]: may not be more than 2 bytes (1 object: default/w0)"},
		},
		"PatternInAMap": {
			"a: {type: object, additionalProperties: {type: string}}", "a: {type: object, additionalProperties: {type: string, pattern: ^a}}",
			[]string{`{a: {"x.y/z": secret, "q[0]": secret, k: abc}}`},
			false,
			[]string{"error: widgets.example.com v1: spec.a[*]: should match '^a' (1 object: default/w0)"},
		},
		"Null": {
			"a: {type: string, nullable: true}", "a: {type: string}",
			[]string{"{a: null}"},
			false,
			[]string{"warning: widgets.example.com v1: spec.a can no longer be null"}, // it is dropped
		},
		"Set": {
			"a: {type: array, items: {type: string}}", "a: {type: array, x-kubernetes-list-type: set, items: {type: string}}",
			[]string{"{a: [x, x]}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a[*]: duplicate value (1 object: default/w0)"},
		},
		"Rule": {
			"a: {type: integer}", "a: {type: integer, x-kubernetes-validations: [{rule: self < 5, message: must be small}]}",
			[]string{"{a: 4}", "{a: 5}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a: must be small (1 object: default/w1)"},
		},
		"TransitionRule": {
			"a: {type: integer}", "a: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf, message: is immutable}]}",
			[]string{"{a: 4}"},
			false,
			[]string{"warning: widgets.example.com v1: spec.a has a new rule: is immutable"},
		},
		"Logic": {
			"a: {type: string}", "a: {type: string, oneOf: [{pattern: a}, {pattern: b}]}",
			[]string{"{a: ab}", "{a: a}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a: must validate one and only one schema (oneOf). Found 2 valid alternatives (1 object: default/w0)"},
		},
		"EmbeddedResource": {
			"a: {type: object, x-kubernetes-preserve-unknown-fields: true}",
			"a: {type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true}",
			[]string{"{a: {kind: K, apiVersion: v1}}", "{a: {kind: K}}"},
			false,
			[]string{
				"error: widgets.example.com v1: spec.a.apiVersion is required (1 object: default/w1)",
				"warning: widgets.example.com v1: spec.a: x-kubernetes-embedded-resource is true now, unset before",
			},
		},
		"UnknownFields": {
			"a: {type: object, x-kubernetes-preserve-unknown-fields: true}", "a: {type: object, properties: {x: {type: string}}}",
			[]string{"{a: {x: k}}", "{a: {z: {z: k}}}"},
			false,
			[]string{
				"error: widgets.example.com v1: spec.a.z is not in the schema and would be lost (1 object: default/w1)",
				"warning: widgets.example.com v1: spec.a no longer keeps unknown fields",
				"warning: widgets.example.com v1: spec.a.x is new",
			},
		},
		// The first object violates both schemas alike, the second only the new one.
		"Ratchet": {
			"a: {type: string, maxLength: 4}, b: {type: string}", "a: {type: string, maxLength: 2}",
			[]string{"{a: xxxxxx}", "{a: xxx}"},
			false,
			[]string{
				"error: widgets.example.com v1: spec.a: may not be more than 2 bytes (1 object: default/w1)",
				"warning: widgets.example.com v1: spec.b is removed",
			},
		},
		"RatchetOfARule": {
			"a: {type: integer, x-kubernetes-validations: [{rule: self < 5, message: small}]}",
			"a: {type: integer, x-kubernetes-validations: [{rule: self < 5, message: small}, {rule: self != 7, message: unlucky}]}",
			[]string{"{a: 7}"},
			false,
			[]string{"error: widgets.example.com v1: spec.a: unlucky (1 object: default/w0)"},
		},
		"RatchetOfAPattern": {
			"a: {type: string, pattern: ^a}, b: {type: string}", "a: {type: string, pattern: ^a}",
			[]string{"{a: b}"},
			false,
			[]string{"warning: widgets.example.com v1: spec.b is removed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := installed(newCRD(t, "v1", spec(tc.before)), "v1"), newCRD(t, "v1", spec(tc.after))
			transition := crdcheck.NewTransition(t.Context(), before, after)
			checker := transition.Checker()
			for i, content := range tc.objects {
				widget := object(t, "v1", fmt.Sprintf("w%d", i), "{spec: "+content+"}")
				copied := object(t, "v1", fmt.Sprintf("w%d", i), "{spec: "+content+"}")
				if err := checker.Object(t.Context(), widget); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(copied, widget); diff != "" {
					t.Errorf("the object was changed (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(tc.want, texts(checker.Findings(tc.accepted))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if needs := transition.NeedsObjects(); needs != (len(tc.want) > 0) {
				t.Errorf("NeedsObjects is %v", needs)
			}
		})
	}
}

// TestStatus: a field of the status is written again by its controller.
func TestStatus(t *testing.T) {
	schema := "{type: object, properties: {status: {type: object, properties: {%s}}}}"
	before, after := newCRD(t, "v1", fmt.Sprintf(schema, "a: {type: string}")), newCRD(t, "v1", fmt.Sprintf(schema, ""))
	for _, crd := range []*crdType{before, after} {
		crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}
	checker := crdcheck.NewTransition(t.Context(), installed(before, "v1"), after).Checker()
	if err := checker.Object(t.Context(), object(t, "v1", "w", "{status: {a: x}}")); err != nil {
		t.Fatal(err)
	}
	want := []string{"warning: widgets.example.com v1: status.a is removed (1 object: default/w)"}
	if diff := cmp.Diff(want, texts(checker.Findings(false))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAPIServer: what the API server would refuse cannot be accepted.
func TestAPIServer(t *testing.T) {
	base := newCRD(t, "v1", spec("a: {type: string}"))
	two := newCRD(t, "v1", spec("a: {type: string}"), "v2", spec("a: {type: string}"))
	edit := func(crd *crdType, change func(*crdType)) *crdType {
		crd = crd.DeepCopy()
		change(crd)
		return crd
	}
	for name, tc := range map[string]struct {
		before, after *crdType
		want          []string
	}{
		"New":             {nil, base, nil},
		"NewWithAStatus":  {nil, installed(base, "v0"), nil},
		"Update":          {installed(base, "v1"), two, nil},
		"UpdateOfAReport": {edit(installed(base, "v1"), func(crd *crdType) { crd.ResourceVersion, crd.UID = "", "" }), two, nil},
		"WrongName": {
			nil, edit(base, func(crd *crdType) { crd.Name = "x.example.com" }),
			[]string{`hard: x.example.com: the API server would refuse metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group`},
		},
		"NotStructural": {
			nil, newCRD(t, "v1", spec("a: {properties: {x: {type: string}}}")),
			[]string{"hard: widgets.example.com: the API server would refuse spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields"},
		},
		"BadRule": {
			nil, newCRD(t, "v1", spec("a: {type: string, x-kubernetes-validations: [{rule: self.x}]}")),
			[]string{"hard: widgets.example.com: the API server would refuse spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-validations[0].rule: Invalid value: compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection | self.x | ....^"},
		},
		"Scope": {
			installed(base, "v1"), edit(base, func(crd *crdType) { crd.Spec.Scope = apiextensionsv1.ClusterScoped }),
			[]string{`hard: widgets.example.com: the API server would refuse spec.scope: Invalid value: "Cluster": field is immutable`},
		},
		"ScopeOfAReport": {
			base, edit(base, func(crd *crdType) { crd.Spec.Scope = apiextensionsv1.ClusterScoped }),
			[]string{`hard: widgets.example.com: the API server would refuse spec.scope: Invalid value: "Cluster": field is immutable`},
		},
		"Kind": {
			installed(base, "v1"), edit(base, func(crd *crdType) { crd.Spec.Names.Kind, crd.Spec.Names.ListKind = "Gadget", "WidgetList" }),
			[]string{
				`hard: widgets.example.com: the API server would refuse spec.names.kind: Invalid value: "Gadget": field is immutable`,
			},
		},
		"StoredVersion": {
			installed(two, "v1", "v2"), newCRD(t, "v2", spec("a: {type: string}")),
			[]string{"hard: widgets.example.com: version v1 is removed, but objects may be stored in it; migrate them and remove it from status.storedVersions first"},
		},
		"VersionNotStored": {
			installed(two, "v2"), newCRD(t, "v2", spec("a: {type: string}")),
			[]string{"warning: widgets.example.com v1: is removed"},
		},
		"VersionNotServed": {
			installed(two, "v2"), edit(two, func(crd *crdType) { crd.Spec.Versions[0].Served = false }),
			[]string{"warning: widgets.example.com v1: is not served any more"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			checker := crdcheck.NewTransition(t.Context(), tc.before, tc.after).Checker()
			for _, accepted := range []bool{false, true} {
				if diff := cmp.Diff(tc.want, texts(checker.Findings(accepted))); diff != "" {
					t.Errorf("accepted %v (-want +got):\n%s", accepted, diff)
				}
			}
		})
	}
}

// TestVersions: without conversion an object is stored as it is and served in all versions.
func TestVersions(t *testing.T) {
	webhook := func(crd *crdType) *crdType {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "n", Name: "s"}},
		}}
		return crd
	}
	for name, tc := range map[string]struct {
		before, after *crdType
		read          []string
		want          []string
	}{
		"NewVersionHasLess": {
			installed(newCRD(t, "v1", spec("a: {type: string}")), "v1"),
			newCRD(t, "v2", spec("b: {type: string}"), "v1", spec("a: {type: string}")),
			[]string{"v1"},
			[]string{"error: widgets.example.com v2: spec.a is removed (compared with the stored version v1) (1 object: default/w)"},
		},
		"SameDifferenceAsBefore": {
			installed(newCRD(t, "v2", spec("b: {type: string}"), "v1", spec("a: {type: string}")), "v1"),
			newCRD(t, "v2", spec("b: {type: string}, c: {type: string}"), "v1", spec("a: {type: string}, c: {type: string}")),
			nil, nil,
		},
		"OtherVersionTightened": {
			installed(newCRD(t, "v2", spec("a: {type: string}"), "v1", spec("a: {type: string}")), "v1"),
			newCRD(t, "v2", spec("a: {type: string, maxLength: 1}"), "v1", spec("a: {type: string}")),
			[]string{"v1"},
			[]string{"error: widgets.example.com v2: spec.a: may not be more than 1 byte (1 object: default/w)"},
		},
		"Webhook": {
			installed(webhook(newCRD(t, "v2", spec("a: {type: string}"), "v1", spec("a: {type: string}"))), "v1"),
			webhook(newCRD(t, "v2", spec("a: {type: string, maxLength: 1}"), "v1", spec("a: {type: string}"))),
			[]string{"v2"},
			[]string{"error: widgets.example.com v2: spec.a: may not be more than 1 byte (1 object: default/w)"},
		},
		"WebhookRemoved": {
			installed(webhook(newCRD(t, "v2", spec("b: {type: string}"), "v1", spec("a: {type: string}"))), "v1"),
			newCRD(t, "v2", spec("b: {type: string}"), "v1", spec("a: {type: string}")),
			[]string{"v1"},
			[]string{
				"error: widgets.example.com v2: spec.a is removed (compared with the stored version v1) (1 object: default/w)",
				"warning: widgets.example.com: spec.conversion.strategy: strategy is None now, Webhook before",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			transition := crdcheck.NewTransition(t.Context(), tc.before, tc.after)
			if diff := cmp.Diff(tc.read, transition.ReadVersions()); diff != "" {
				t.Errorf("versions to read (-want +got):\n%s", diff)
			}
			checker := transition.Checker()
			for _, version := range transition.ReadVersions() {
				if err := checker.Object(t.Context(), object(t, version, "w", "{spec: {a: xx}}")); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, texts(checker.Findings(false))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplied: objects that are applied must be valid in their own version, also for a new CRD.
func TestApplied(t *testing.T) {
	one := newCRD(t, "v1", spec("a: {type: string}"))
	two := installed(newCRD(t, "v0", spec("a: {type: string}"), "v1", spec("a: {type: string}")), "v1")
	for name, tc := range map[string]struct {
		before *crdType
		object map[string]any
		want   []string
	}{
		"Valid":     {nil, object(t, "v1", "w", "{spec: {a: x}}"), nil},
		"BadType":   {nil, object(t, "v1", "w", "{spec: {a: 1}}"), []string{`error: widgets.example.com v1: spec.a: must be of type string (1 object: default/w)`}},
		"Unknown":   {nil, object(t, "v1", "w", "{spec: {b: 1}}"), []string{"error: widgets.example.com v1: spec.b is not in the schema and would be lost (1 object: default/w)"}},
		"NoVersion": {nil, object(t, "v0", "w", "{}"), []string{"error: widgets.example.com v0: is not served any more (1 object: default/w)"}},
		"OldVersion": {two, object(t, "v0", "w", "{}"), []string{
			"error: widgets.example.com v0: is not served any more (1 object: default/w)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			transition := crdcheck.NewTransition(t.Context(), tc.before, one)
			if !transition.NeedsApplied() {
				t.Error("no objects needed")
			}
			checker := transition.Checker()
			checker.Applied = true
			if err := checker.Object(t.Context(), tc.object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, texts(checker.Findings(false))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheck: conflicts come first, objects are read only where they decide, and an error of a read
// ends the check.
func TestCheck(t *testing.T) {
	harmless, breaking := newCRD(t, "v1", spec("a: {type: string}")), newCRD(t, "v1", spec("a: {type: string}"))
	breaking.Name, breaking.Spec.Names.Plural, breaking.Spec.Names.Kind = "gadgets.example.com", "gadgets", "Gadget"
	extended, removed := harmless.DeepCopy(), breaking.DeepCopy()
	extended.Spec.Versions[0].Schema.OpenAPIV3Schema = newSchema(t, spec("a: {type: string}, b: {type: string}"))
	removed.Spec.Versions[0].Schema.OpenAPIV3Schema = newSchema(t, spec(""))
	var read []string
	var failure error
	input := &crdcheck.Input{
		Deliveries: []crdcheck.Delivery{{Package: crdcheck.Package{Source: "r/p", Name: "p"}, CRD: extended}, {Package: crdcheck.Package{Source: "r/p", Name: "p"}, CRD: removed}},
		Existing: []crdcheck.Existing{
			{Name: "widgets.example.com", Group: "example.com", Controller: &crdcheck.Owner{Kind: "ProviderRevision", Name: "p-1", UID: "1"}},
			{Name: "gadgets.example.com", Group: "example.com", Controller: &crdcheck.Owner{Kind: "ProviderRevision", Name: "q-1", UID: "2"}},
		},
		MayTake: func(_ crdcheck.Package, owner crdcheck.Owner) bool { return owner.UID == "1" },
		Updates: []crdcheck.Update{
			{Old: installed(harmless, "v1"), New: extended}, {Old: installed(breaking, "v1"), New: removed}, {Old: installed(breaking, "v1"), New: breaking},
		},
		Objects: func(_ context.Context, crd, version string) iter.Seq2[map[string]any, error] {
			read = append(read, crd+" "+version)
			return func(yield func(map[string]any, error) bool) {
				yield(object(t, "v1", "g", "{spec: {a: x}}"), failure)
			}
		},
		Accepted: crdcheck.Accepted("x.example.com, y.example.com"),
	}
	report, err := crdcheck.Check(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"gadgets.example.com v1"}, read); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	want := []string{
		"error: CRD gadgets.example.com of package p is already controlled by ProviderRevision q-1 (UID 2)",
		"error: gadgets.example.com v1: spec.a is removed (1 object: default/g)",
	}
	if diff := cmp.Diff(want, texts(report.Errors())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if report.Reason() != crdcheck.CRDConflict {
		t.Errorf("reason %s", report.Reason())
	}
	input.Accepted = crdcheck.Accepted("x.example.com,gadgets.example.com")
	if report, err = crdcheck.Check(t.Context(), input); err != nil || len(report.Errors()) != 1 || len(report.Warnings()) != 1 {
		t.Errorf("accepted: %v, %v", texts(report.Findings), err)
	}
	failure = errors.New("timeout")
	if _, err = crdcheck.Check(t.Context(), input); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}

func TestMessage(t *testing.T) {
	var findings []crdcheck.Finding
	for i := range 12 {
		findings = append(findings, crdcheck.Finding{Reason: crdcheck.SchemaIncompatible, CRD: fmt.Sprintf("c%d", i), What: strings.Repeat("x", 1000)})
	}
	message := crdcheck.Message(findings)
	if !strings.HasSuffix(message, "… and 2 more") || len(message) > 10*420 || strings.Count(message, "; ") != 9 {
		t.Errorf("%d bytes: %s", len(message), message)
	}
}

// TestMessageExpressions: the words of a rule do not have values of objects.
func TestMessageExpressions(t *testing.T) {
	const fields = `a: {type: integer}, list: {type: array, items: {type: object, properties: {b: {type: string%s}}}}`
	before := installed(newCRD(t, "v1", spec(fmt.Sprintf(fields, ""))), "v1")
	rule := `, x-kubernetes-validations: [{rule: "self == ''", messageExpression: "'the secret is ' + self"}]`
	after := newCRD(t, "v1", spec(fmt.Sprintf(fields, rule)))
	checker := crdcheck.NewTransition(t.Context(), before, after).Checker()
	if err := checker.Object(t.Context(), object(t, "v1", "w", "{spec: {list: [{b: hunter2}]}}")); err != nil {
		t.Fatal(err)
	}
	message := crdcheck.Message(checker.Findings(false))
	if !strings.Contains(message, "failed rule: self == ''") || strings.Contains(message, "hunter2") {
		t.Errorf("message %q", message)
	}
}

// TestManyBreaches: an endless number of different breaches does not use memory without limit.
func TestManyBreaches(t *testing.T) {
	before := installed(newCRD(t, "v1", "{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}"), "v1")
	after := newCRD(t, "v1", spec("a: {type: integer}"))
	checker := crdcheck.NewTransition(t.Context(), before, after).Checker()
	for i := range 300 {
		if err := checker.Object(t.Context(), object(t, "v1", "w", fmt.Sprintf("{spec: {f%d: 1}}", i))); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	findings := checker.Findings(false)
	breaches := 0
	for _, finding := range findings {
		count += finding.Objects.Count
		if finding.Objects.Count > 0 {
			breaches++
		}
	}
	if breaches != 101 || count != 300 {
		t.Errorf("%d findings about %d objects", breaches, count)
	}
}
