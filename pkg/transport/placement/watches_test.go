package placement

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

func watching(w *watches) []string {
	var watched []string
	for gr, resource := range w.source.Resources() {
		watched = append(watched, resource.Version+" "+gr.String())
	}
	slices.Sort(watched)
	return watched
}

func needing(name string, resources ...schema.GroupVersionResource) *Placement {
	p := &Placement{Name: name, watched: map[schema.GroupResource]dynamicinformer.Resource{}}
	for _, r := range resources {
		p.watched[r.GroupResource()] = dynamicinformer.Resource{GroupVersionResource: r, Namespaced: true}
	}
	return p
}

// TestWatchesWhatBindingsNeed: also while several are gathered, and no longer than they exist.
func TestWatchesWhatBindingsNeed(t *testing.T) {
	w, index := newWatches(), NewIndex(nil)
	publish := func(name string, p *Placement) { index.Publish(name, p); w.drop(name, p) }
	one, two := needing("one", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}), needing("two", schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, watching(w)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	w.add(one)
	w.add(two)
	check("both are being gathered", "v1 configmaps", "v1 secrets")
	publish("one", one)
	publish("two", two)
	check("both are published", "v1 configmaps", "v1 secrets")
	next := needing("one", schema.GroupVersionResource{Version: "v1", Resource: "services"})
	w.add(next)
	check("one is gathered again", "v1 configmaps", "v1 secrets", "v1 services")
	publish("one", next)
	check("one lists something else", "v1 secrets", "v1 services")
	publish("one", &Placement{Name: "one", Deleting: true})
	check("one is being deleted", "v1 secrets")
	publish("two", nil)
	check("nothing is left")
}

func TestVersionsThatAreRead(t *testing.T) {
	version := func(name, version string, ofPolicy bool) *Placement {
		p := needing(name, schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "things"})
		if ofPolicy {
			p.policy = "policy"
		}
		return p
	}
	cases := map[string]struct {
		placements []*Placement
		want       string
	}{
		"Newest":         {[]*Placement{version("a", "v1beta1", true), version("b", "v1", true)}, "v1"},
		"Most":           {[]*Placement{version("a", "v1", true), version("b", "v2", true), version("c", "v1", true)}, "v1"},
		"OfPolicies":     {[]*Placement{version("a", "v1", true), version("b", "v2", false), version("c", "v2", false)}, "v1"},
		"MostByHand":     {[]*Placement{version("a", "v1", false), version("b", "v2", false), version("c", "v1", false)}, "v1"},
		"OnlyOneByHand":  {[]*Placement{version("a", "v9", false)}, "v9"},
		"ChangedItsMind": {[]*Placement{version("a", "v1", true), version("b", "v2", true), version("a", "v2", true)}, "v2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, index := newWatches(), NewIndex(nil)
			publish := func(name string, p *Placement) { index.Publish(name, p); w.drop(name, p) }
			for _, p := range tc.placements {
				w.add(p)
				publish(p.Name, p)
			}
			if diff := cmp.Diff([]string{tc.want + " things.example.com"}, watching(w)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range tc.placements {
				publish(p.Name, nil)
			}
			if len(w.by) != 0 || len(w.chosen) != 0 || len(watching(w)) != 0 {
				t.Errorf("when all are gone: %v, %v", w.by, w.chosen)
			}
		})
	}
}
