package binding

import (
	"testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// TestTakers: what a policy waits for that lets an object, or a cluster, go.
func TestTakers(t *testing.T) {
	spec := func(objects string, clusters ...string) *controlv1alpha1.BindingSpec {
		s := &controlv1alpha1.BindingSpec{}
		for _, o := range objects {
			s.Workload.NamespaceScope = append(s.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
				NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{Resource: "configmaps", Namespace: "n", Name: string(o)},
			})
		}
		for _, c := range clusters {
			s.Destinations = append(s.Destinations, controlv1alpha1.Destination{ClusterID: c})
		}
		return s
	}
	ref := objref.Ref{Resource: "configmaps", Namespace: "n", Name: "x"}
	cases := map[string]struct {
		selects         string   // the objects that the other policy selects
		at              []string // the clusters that it selects
		lists           *controlv1alpha1.BindingSpec
		unable, tooLong bool
		object, cluster bool // is x awaited, is the cluster "one"
	}{
		"NothingInCommon":  {selects: "z", at: []string{"one"}, lists: spec("z", "one")},
		"OtherClusters":    {selects: "x", at: []string{"three"}, lists: spec("x", "three")},
		"NoBindingYet":     {selects: "x", at: []string{"one"}, object: true, cluster: true},
		"NotListedYet":     {selects: "xy", at: []string{"one"}, lists: spec("y", "one"), object: true, cluster: true},
		"ClusterNotYet":    {selects: "x", at: []string{"one", "two"}, lists: spec("x", "two"), object: true, cluster: true},
		"OtherClusterOnly": {selects: "x", at: []string{"two"}, lists: spec("y", "two"), object: true},
		"Done":             {selects: "x", at: []string{"one", "two"}, lists: spec("x", "one", "two")},
		"Unable":           {selects: "x", at: []string{"one"}, unable: true},
		"TooLong":          {selects: "x", at: []string{"one"}, tooLong: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			with := func() *takers {
				return &takers{
					name: "ours", stored: spec("xy", "one", "two"), tooLong: tc.tooLong,
					selecting: func(ref objref.Ref) []string {
						for _, o := range tc.selects {
							if ref.Name == string(o) {
								return []string{"other", "ours"}
							}
						}
						return []string{"ours"}
					},
					destinations: func(string) []string { return tc.at },
					bindings:     func(string) (*controlv1alpha1.BindingSpec, bool) { return tc.lists, !tc.unable },
				}
			}
			if got := with().awaitsObject(ref); got != tc.object {
				t.Errorf("the object is awaited: %v, want %v", got, tc.object)
			}
			takers := with()
			if got := takers.awaitsCluster("one"); got != tc.cluster || takers.waits() != tc.cluster {
				t.Errorf("the cluster is awaited: %v, want %v", got, tc.cluster)
			}
			if takers.found != (tc.cluster || tc.tooLong) {
				t.Errorf("found a taker: %v", takers.found)
			}
		})
	}
}
