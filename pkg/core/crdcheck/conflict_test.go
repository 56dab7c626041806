package crdcheck_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

func named(t testing.TB, plural, kind string, shortNames ...string) *crdType {
	t.Helper()
	crd := newCRD(t, "v1", spec("a: {type: string}"))
	crd.Name = plural + ".example.com"
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ShortNames: shortNames}
	return crd
}

func TestConflicts(t *testing.T) {
	a, b := crdcheck.Package{Source: "r.io/a", Name: "a"}, crdcheck.Package{Source: "r.io/b", Name: "b"}
	widgets := named(t, "widgets", "Widget")
	other := widgets.DeepCopy()
	other.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "other"
	otherGroup := named(t, "gadgets", "Widget", "w")
	otherGroup.Name, otherGroup.Spec.Group = "gadgets.example.org", "example.org"
	existing := func(crd *crdType, controller *crdcheck.Owner) crdcheck.Existing {
		return crdcheck.Existing{Name: crd.Name, Group: crd.Spec.Group, Names: crd.Spec.Names, Controller: controller}
	}
	for name, tc := range map[string]struct {
		deliveries []crdcheck.Delivery
		existing   []crdcheck.Existing
		want       []string
	}{
		"None":            {[]crdcheck.Delivery{{Package: a, CRD: widgets}}, nil, nil},
		"TwiceInAPackage": {[]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: a, CRD: widgets.DeepCopy()}}, nil, nil},
		"DifferentInAPackage": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: a, CRD: other}},
			nil,
			[]string{"error: package a has two different CRDs named widgets.example.com"},
		},
		"DifferentPackages": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: b, CRD: other}},
			nil,
			[]string{"error: Multiple packages install incompatible versions of CRD widgets.example.com"},
		},
		"EqualInTwoPackages": {
			[]crdcheck.Delivery{{Package: b, CRD: widgets}, {Package: a, CRD: widgets.DeepCopy()}},
			nil,
			[]string{"error: packages a and b would all control CRD widgets.example.com; only one package can"},
		},
		"OwnRevision": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}},
			[]crdcheck.Existing{existing(widgets, &crdcheck.Owner{Kind: "ProviderRevision", Name: "a-1", UID: "mine"})},
			nil,
		},
		"ForeignOwner": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}},
			[]crdcheck.Existing{existing(widgets, &crdcheck.Owner{Kind: "ProviderRevision", Name: "z-1", UID: "z"})},
			[]string{"error: CRD widgets.example.com of package a is already controlled by ProviderRevision z-1 (UID z)"},
		},
		"NoOwner": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}},
			[]crdcheck.Existing{existing(widgets, nil)},
			[]string{"warning: CRD widgets.example.com exists and has no controller; package a adopts it"},
		},
		"ShortNameIsAPlural": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: b, CRD: named(t, "gadgets", "Gadget", "widgets", "g")}},
			nil,
			[]string{"error: CRD widgets.example.com of package a and CRD gadgets.example.com of package b have the same names in one group: widgets"},
		},
		"KindIsAListKind": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: a, CRD: named(t, "lists", "WidgetList")}},
			nil,
			[]string{"error: CRD widgets.example.com of package a and CRD lists.example.com of package a have the same names in one group: WidgetList"},
		},
		"SingularIsAKindOnly": { // resources and kinds are different names
			[]crdcheck.Delivery{{Package: a, CRD: named(t, "aa", "Aa", "Bb")}, {Package: a, CRD: named(t, "bb", "Bb")}}, nil, nil,
		},
		"OtherGroup": {[]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: b, CRD: otherGroup}}, nil, nil},
		"ExistingName": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}},
			[]crdcheck.Existing{existing(named(t, "gadgets", "Widget"), nil)},
			[]string{"error: CRD widgets.example.com of package a and CRD gadgets.example.com have the same names in one group: Widget"},
		},
		"ClashedBefore": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets, Unchanged: true}, {Package: b, CRD: named(t, "gadgets", "Widget"), Unchanged: true}},
			nil,
			[]string{"warning: CRD widgets.example.com of package a and CRD gadgets.example.com of package b have the same names in one group: Widget, WidgetList, widget"},
		},
		// The names that the CRD has now are replaced by those of the proposal.
		"Renamed": {
			[]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: b, CRD: named(t, "gadgets", "Gadget")}},
			[]crdcheck.Existing{existing(named(t, "gadgets", "Widget"), &crdcheck.Owner{UID: "mine"})},
			nil,
		},
		"ExistingOnly": {
			nil, []crdcheck.Existing{existing(named(t, "gadgets", "Widget"), nil), existing(widgets, nil)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			mayTake := func(_ crdcheck.Package, owner crdcheck.Owner) bool { return owner.UID == "mine" }
			findings := crdcheck.Conflicts(tc.deliveries, tc.existing, mayTake)
			if diff := cmp.Diff(tc.want, texts(findings)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnique(t *testing.T) {
	a := crdcheck.Package{Source: "r.io/a"}
	widgets, gadgets := named(t, "widgets", "Widget"), named(t, "gadgets", "Gadget")
	unique, findings := crdcheck.Unique([]crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: a, CRD: widgets}, {Package: a, CRD: gadgets}})
	want := []crdcheck.Delivery{{Package: a, CRD: widgets}, {Package: a, CRD: gadgets}}
	if diff := cmp.Diff(want, unique); diff != "" || len(findings) > 0 {
		t.Errorf("%v (-want +got):\n%s", texts(findings), diff)
	}
}

func TestEquivalent(t *testing.T) {
	widgets, gadgets := installed(newCRD(t, "v1", spec("a: {type: string}")), "v1"), named(t, "gadgets", "Gadget")
	two := installed(newCRD(t, "v1", spec("a: {type: string}"), "v2", spec("a: {type: string}")), "v1", "v2")
	onlyV2 := newCRD(t, "v2", spec("a: {type: string}"))
	notServed := two.DeepCopy()
	notServed.Spec.Versions[0].Served = false
	for name, tc := range map[string]struct {
		before, after []*crdType
		want          []string
	}{
		"Same":    {[]*crdType{widgets}, []*crdType{gadgets, widgets}, nil},
		"More":    {[]*crdType{widgets}, []*crdType{newCRD(t, "v1", spec("a: {type: string}, b: {type: string}"))}, nil},
		"Missing": {[]*crdType{widgets, gadgets}, []*crdType{widgets}, []string{"error: gadgets.example.com: the replacement does not have this CRD"}},
		"StoredVersion": {
			[]*crdType{two},
			[]*crdType{onlyV2},
			[]string{"hard: widgets.example.com: version v1 is removed, but objects may be stored in it; migrate them and remove it from status.storedVersions first"},
		},
		"ServedVersion":   {[]*crdType{installed(two, "v2")}, []*crdType{onlyV2}, []string{"error: widgets.example.com v1: the replacement does not serve version v1"}},
		"NotServed":       {[]*crdType{two}, []*crdType{notServed}, []string{"error: widgets.example.com v1: the replacement does not serve version v1"}},
		"BreakingSchemas": {[]*crdType{widgets}, []*crdType{newCRD(t, "v1", spec(""))}, []string{"warning: widgets.example.com v1: spec.a is removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(crdcheck.Equivalent(tc.before, tc.after))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
