package destination_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// TestEvaluatePackage: the CRDs of a package that is delivered as a whole go to its cluster, and to
// no other one.
func TestEvaluatePackage(t *testing.T) {
	t.Parallel()
	v1, v2 := crd("", "v1:region"), crd("", "v1:size")
	mine := object(t, "v1", "", "region=eu")
	cluster := func(foreign ...destination.Foreign) destination.Cluster {
		return destination.Cluster{Name: "edge1", Stored: map[string][]string{"buckets.example.org": {"v1"}}, Foreign: foreign}
	}
	beside := func(o *destination.Object) destination.Foreign { return destination.Foreign{Binding: "all", Object: o} }
	theirs := func(o *destination.Object) destination.Foreign {
		return destination.Foreign{Space: "other", Binding: "all", Object: o}
	}
	for name, tc := range map[string]struct {
		change  destination.Change
		own     []*destination.Object
		cluster destination.Cluster
		want    string
		binding destination.BindingChange
	}{
		"Arrives": {
			change: destination.Change{After: v1}, own: []*destination.Object{mine}, cluster: cluster(),
			binding: destination.BindingChange{Arrive: []objref.Ref{ref("buckets.example.org")}},
		},
		"ArrivesBesideTheSame": {
			change: destination.Change{After: v1}, cluster: cluster(beside(definition(t, v1)), theirs(definition(t, v1))),
			binding: destination.BindingChange{Arrive: []objref.Ref{ref("buckets.example.org")}},
		},
		"ArrivesBesideAnother": {
			change: destination.Change{After: v1}, cluster: cluster(beside(definition(t, v2)), theirs(definition(t, v2))),
			want:    `CRDConflict: cluster edge1: Binding "all" delivers CRD buckets.example.org with different content; cluster edge1: workload definition space "other" delivers CRD buckets.example.org with different content`,
			binding: destination.BindingChange{Arrive: []objref.Ref{ref("buckets.example.org")}},
		},
		"BreaksItsOwnObject": {
			change: destination.Change{Before: v1, After: v2}, own: []*destination.Object{mine}, cluster: cluster(),
			want:    "SchemaIncompatible: cluster edge1: buckets.example.org v1: spec.region is removed (1 object: mine)",
			binding: destination.BindingChange{Change: []objref.Ref{ref("buckets.example.org")}},
		},
		"BreaksAnObjectOfAnotherBinding": {
			change: destination.Change{Before: v1, After: v2}, cluster: cluster(beside(mine)),
			want:    "SchemaIncompatible: cluster edge1: buckets.example.org v1: spec.region is removed (1 object: mine)",
			binding: destination.BindingChange{Change: []objref.Ref{ref("buckets.example.org")}},
		},
		"Leaves": {
			change: destination.Change{Before: v1}, cluster: cluster(),
			binding: destination.BindingChange{Leave: []objref.Ref{ref("buckets.example.org")}},
		},
		"LeavesAndIsNeeded": {
			change: destination.Change{Before: v1}, own: []*destination.Object{mine}, cluster: cluster(beside(mine)),
			want:    `MissingDependency: cluster edge1: CRD buckets.example.org would be removed, but 2 objects of buckets.example.org (mine, mine of Binding "all") need it`,
			binding: destination.BindingChange{Leave: []objref.Ref{ref("buckets.example.org")}},
		},
		"LeavesAndStaysBeside": {
			change: destination.Change{Before: v1}, cluster: cluster(beside(mine), beside(definition(t, v1))),
			binding: destination.BindingChange{Leave: []objref.Ref{ref("buckets.example.org")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := evaluate(t, &destination.Input{
				Changes: []destination.Change{tc.change}, Resources: tc.own,
				Policies: []destination.Policy{{Name: "edge1-web", Package: true, Clusters: map[string]bool{"edge1": true}}},
				Clusters: []destination.Cluster{tc.cluster, {Name: "edge2", Foreign: tc.cluster.Foreign}},
			})
			got := ""
			if failure := result.Failure(); failure != nil {
				got = failure.Reason + ": " + failure.Message
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			tc.binding.Policy, tc.binding.Clusters = "edge1-web", []string{"edge1"}
			if diff := cmp.Diff([]destination.BindingChange{tc.binding}, result.Bindings); diff != "" {
				t.Error(diff)
			}
			if len(result.Destinations) != 1 || result.Destinations[0].Cluster != "edge1" {
				t.Errorf("destinations %+v", result.Destinations)
			}
		})
	}
}
