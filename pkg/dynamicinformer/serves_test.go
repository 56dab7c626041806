package dynamicinformer

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestServes(t *testing.T) {
	served := func(group, resource string) schema.GroupResource {
		return schema.GroupResource{Group: group, Resource: resource}
	}
	name := func(s string) *string { return &s }
	d := NewDiscovery(nil, nil, nil)
	if serves, known := d.Serves(nil, "deployments"); serves || known {
		t.Error("something is known before the first discovery")
	}
	d.discovered = map[schema.GroupResource]Resource{}
	d.served = map[schema.GroupResource]struct{}{served("", "pods"): {}, served("apps", "deployments"): {}, served("stale.io", "things"): {}, served("example.com", "gone"): {}}
	d.crds = map[string]Resource{"widgets.example.com": resource("example.com", "v1", "widgets", "Widget")}
	d.wasCRD = map[schema.GroupResource]bool{served("example.com", "widgets"): true, served("example.com", "gone"): true}
	cases := map[string]struct {
		group         *string
		resource      string
		wantServes    bool
		wantKnown     bool
		wantIfFailing bool // known while discovery of stale.io and broken.io fails
	}{
		"AnyGroup":     {nil, "deployments", true, true, true},
		"Group":        {name("apps"), "", true, true, true},
		"Both":         {name("apps"), "deployments", true, true, true},
		"Core":         {name(""), "pods", true, true, true},
		"OtherGroup":   {name(""), "deployments", false, true, true},
		"CRD":          {name("example.com"), "widgets", true, true, true},
		"CRDGone":      {name("example.com"), "gone", false, true, true},
		"Stale":        {name("stale.io"), "things", true, true, true},
		"StaleUnknown": {name("stale.io"), "others", false, true, false},
		"Broken":       {name("broken.io"), "x", false, true, false},
		"BrokenGroup":  {name("broken.io"), "", false, true, false},
		"AnyUnknown":   {nil, "x", false, true, false},
	}
	for caseName, tc := range cases {
		if serves, known := d.Serves(tc.group, tc.resource); serves != tc.wantServes || known != tc.wantKnown {
			t.Errorf("%s: serves %t, known %t", caseName, serves, known)
		}
	}
	failed := errors.New("no answer")
	d.failed = map[schema.GroupVersion]error{{Group: "stale.io", Version: "v1"}: failed, {Group: "broken.io", Version: "v1"}: failed}
	for caseName, tc := range cases {
		if serves, known := d.Serves(tc.group, tc.resource); serves != tc.wantServes || known != tc.wantIfFailing {
			t.Errorf("%s while discovery fails: serves %t, known %t", caseName, serves, known)
		}
	}
	if got := d.Unknown(); !slices.Equal(got, []string{"broken.io"}) {
		t.Errorf("Unknown() = %q: of stale.io something is known", got)
	}
}

// TestRegisteredGroupStays: an API server that starts answers before it knows what is behind
// it.
func TestRegisteredGroupStays(t *testing.T) {
	registered := []string{"v1.", "v1.apps", "v1beta1.aggregated.io", "v1.broken.io"}
	broken := schema.GroupVersion{Group: "broken.io", Version: "v1"}
	failed := map[schema.GroupVersion]error{broken: errors.New("no answer")}
	groups := &metav1.APIGroupList{Groups: []metav1.APIGroup{group("apps", "v1"), group("broken.io", "v1")}}

	got := addUnlisted(failed, groups, registered)
	aggregated := schema.GroupVersion{Group: "aggregated.io", Version: "v1beta1"}
	if len(got) != 2 || got[broken] == nil || !errors.Is(got[aggregated], errUnlisted) {
		t.Errorf("failed: %v", got)
	}
	if len(failed) != 1 {
		t.Error("the argument was changed")
	}
	if got := addUnlisted(nil, groups, []string{"v1.apps"}); len(got) != 0 {
		t.Errorf("all is listed: %v", got)
	}
	things := resource("aggregated.io", "v1beta1", "things", "Thing")
	known := byGroupResource(things)
	merged, _ := merge(known, groups, nil, got, nil)
	if merged[things.GroupResource()] != things {
		t.Error("an unlisted group lost its resources")
	}
}
