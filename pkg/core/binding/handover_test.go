package binding_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

func configMapRef(name string) objref.Ref {
	return objref.Ref{Resource: "configmaps", Namespace: "n", Name: name}
}

// listing returns the spec of a Binding that lists ConfigMaps, a letter each, for clusters.
func listing(objects string, clusters ...string) *controlv1alpha1.BindingSpec {
	s := &controlv1alpha1.BindingSpec{}
	for _, o := range objects {
		s.Workload.NamespaceScope = append(s.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{Version: "v1", Resource: "configmaps", Namespace: "n", Name: string(o)},
		})
	}
	for _, c := range clusters {
		s.Destinations = append(s.Destinations, controlv1alpha1.Destination{ClusterID: c})
	}
	return s
}

func snapshotOf(objects string, clusters ...string) match.Snapshot {
	s := match.Snapshot{Clusters: clusters}
	for _, o := range objects {
		s.Matches = append(s.Matches, match.Match{Ref: configMapRef(string(o)), Version: "v1", Modulation: &controlv1alpha1.DownsyncModulation{}})
	}
	return s
}

// TestRetained: what stays in Bindings that list x and y for the clusters one and two.
func TestRetained(t *testing.T) {
	type other struct {
		selects string
		at      []string
		lists   []*controlv1alpha1.BindingSpec
		unable  bool
	}
	type specs = []*controlv1alpha1.BindingSpec
	one, both := []string{"one"}, []string{"one", "two"}
	nothing, atOne := snapshotOf(""), snapshotOf("xy", "one")
	cases := map[string]struct {
		selected match.Snapshot
		others   []other
		want     string // objects, and clusters
	}{
		"NobodySelectsIt":     {nothing, []other{{selects: "z", at: both}}, ""},
		"NotAtOurClusters":    {nothing, []other{{selects: "x", at: []string{"three"}}}, ""},
		"NoBindingYet":        {nothing, []other{{selects: "x", at: one}}, "x one"},
		"NotListedYet":        {nothing, []other{{selects: "xy", at: one, lists: specs{listing("y", "one")}}}, "x one"},
		"ClusterNotYet":       {nothing, []other{{selects: "x", at: both, lists: specs{listing("x", "two")}}}, "x one"},
		"Listed":              {nothing, []other{{selects: "xy", at: both, lists: specs{listing("xy", "one", "two")}}}, ""},
		"ListedInTwoBindings": {nothing, []other{{selects: "xy", at: both, lists: specs{listing("x", "one", "two"), listing("y", "one", "two")}}}, ""},
		"OfTwoBindingsOneHasTheCluster": {
			nothing,
			[]other{{selects: "xy", at: both, lists: specs{listing("x", "one"), listing("y", "one", "two")}}},
			"x two",
		},
		"ListsWhatItDoesNotSelect":  {nothing, []other{{selects: "z", at: one, lists: specs{listing("x", "one")}}, {selects: "x", at: one}}, "x one"},
		"AnotherListsIt":            {nothing, []other{{selects: "x", at: one}, {selects: "x", at: one, lists: specs{listing("x", "one")}}}, ""},
		"AnotherListsItElsewhere":   {nothing, []other{{selects: "x", at: one}, {selects: "x", at: []string{"two"}, lists: specs{listing("x", "two")}}}, "x one"},
		"Unable":                    {nothing, []other{{selects: "x", at: one, unable: true}}, ""},
		"UnableAndAble":             {nothing, []other{{selects: "x", at: both, unable: true}, {selects: "x", at: one}}, "x one"},
		"SelectedStill":             {snapshotOf("xy", "one", "two"), []other{{selects: "x", at: both}}, ""},
		"ClusterLeaves":             {atOne, []other{{selects: "x", at: both}}, "x two"},
		"ClusterLeavesForNobody":    {atOne, []other{{selects: "z", at: both}}, ""},
		"ClusterLeavesAndIsListed":  {atOne, []other{{selects: "xy", at: both, lists: specs{listing("xy", "two")}}}, ""},
		"ClusterAndObjectLeave":     {snapshotOf("y", "one"), []other{{selects: "xy", at: both}}, "x y one two"},
		"ClusterLeavesNotAllListed": {atOne, []other{{selects: "xy", at: both, lists: specs{listing("y", "one", "two")}}}, "x two"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := binding.HandOver{Selecting: map[objref.Ref][]string{}, Others: map[string]binding.Other{}}
			for i, o := range tc.others {
				policy := fmt.Sprint("other", i)
				for _, object := range o.selects {
					h.Selecting[configMapRef(string(object))] = append(h.Selecting[configMapRef(string(object))], policy)
				}
				if !o.unable {
					h.Others[policy] = binding.Other{Clusters: o.at, Listed: o.lists}
				}
			}
			stored := listing("xy", "one", "two")
			retained := h.Retained(tc.selected, stored)
			var got []string
			for ref := range retained.Objects {
				got = append(got, ref.Name)
			}
			slices.Sort(got)
			got = append(got, slices.Sorted(maps.Keys(retained.Clusters))...)
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.want == "" {
				return
			}
			spec := binding.Compute(binding.Input{Selected: tc.selected, Stored: stored, Retained: retained, Unread: binding.Unread{
				Read: map[schema.GroupResource]bool{configMaps.GroupResource(): true},
			}})
			for ref := range retained.Objects {
				if _, listed := binding.Refs(&spec)[ref]; !listed {
					t.Errorf("%s is not listed", ref)
				}
			}
		})
	}
}

// history is a space with policies, each of which selects objects and clusters by a label with its
// name.
type history struct {
	index    *match.Index
	policies []string
	objects  []string
	clusters []string
	at       map[string]string // the policy of each object and cluster
	stored   map[string]*controlv1alpha1.BindingSpec
	unable   map[string]bool
}

func (h *history) relabel(t *testing.T, thing, policy string) {
	t.Helper()
	h.at[thing] = policy
	labels := map[string]string{"to": policy, "all": "yes"}
	if slices.Contains(h.clusters, thing) {
		h.index.SetCluster(thing, labels)
		return
	}
	h.index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "n", Name: thing, ResourceVersion: "1", Labels: labels})
}

// sync does what the controller does for one policy.
func (h *history) sync(policy string) {
	stored := h.stored[policy]
	selected, others, _ := h.index.Snapshot(policy, binding.ListedIn(stored))
	handOver := binding.HandOver{Selecting: others.Selecting, Others: map[string]binding.Other{}}
	for name, clusters := range others.Clusters {
		if !h.unable[name] {
			other := binding.Other{Clusters: clusters}
			if spec := h.stored[name]; spec != nil {
				other.Listed = append(other.Listed, spec)
			}
			handOver.Others[name] = other
		}
	}
	spec := binding.Compute(binding.Input{
		Selected: selected, Stored: stored, Retained: handOver.Retained(selected, stored),
		Unread: binding.Unread{Read: map[schema.GroupResource]bool{configMaps.GroupResource(): true}},
	})
	h.stored[policy] = &spec
}

// copies returns what the Bindings of all policies list, as "object cluster".
func (h *history) copies() map[string]bool {
	all := map[string]bool{}
	for _, spec := range h.stored {
		for ref := range binding.Refs(spec) {
			for _, d := range spec.Destinations {
				all[ref.Name+" "+d.ClusterID] = true
			}
		}
	}
	return all
}

// TestNothingIsLostInHandOvers: in random histories of relabelled objects and clusters, nothing
// that a policy which can write selects leaves all Bindings; and when all policies can write, their
// Bindings soon list what they select and nothing else.
func TestNothingIsLostInHandOvers(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		h := &history{
			index: match.NewIndex(match.Options{}), policies: []string{"p0", "p1", "p2"}, objects: []string{"a", "b", "c", "d"}, clusters: []string{"c0", "c1", "c2"},
			at: map[string]string{}, stored: map[string]*controlv1alpha1.BindingSpec{}, unable: map[string]bool{},
		}
		// Some policies select all clusters, so that objects move alone; some all objects, so that
		// clusters do.
		selects := map[string]func(object, cluster string) bool{}
		for _, name := range h.policies {
			to, all := map[string]string{"to": name}, map[string]string{"all": "yes"}
			objects, clusters := to, to
			switch rnd.IntN(3) {
			case 0:
				objects = all
			case 1:
				clusters = all
			}
			spec := &controlv1alpha1.BindingPolicySpec{
				ClusterSelectors: []metav1.LabelSelector{{MatchLabels: clusters}},
				Downsync: []controlv1alpha1.DownsyncPolicyClause{{
					DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{ObjectSelectors: []metav1.LabelSelector{{MatchLabels: objects}}},
				}},
			}
			compiled, errs := match.Compile(spec)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			h.index.SetPolicy(name, compiled)
			selects[name] = func(object, cluster string) bool {
				return (objects["all"] != "" || h.at[object] == name) && (clusters["all"] != "" || h.at[cluster] == name)
			}
		}
		things := slices.Concat(h.objects, h.clusters)
		for _, thing := range things {
			h.relabel(t, thing, h.policies[rnd.IntN(len(h.policies))])
		}
		for range 100 {
			policy := h.policies[rnd.IntN(len(h.policies))]
			switch rnd.IntN(5) {
			case 0, 1:
				h.relabel(t, things[rnd.IntN(len(things))], policy)
			case 2:
				h.unable[policy] = rnd.IntN(3) == 0
			default:
				if h.unable[policy] {
					continue
				}
				before := h.copies()
				h.sync(policy)
				after := h.copies()
				for _, object := range h.objects {
					for _, cluster := range h.clusters {
						wanted := slices.ContainsFunc(h.policies, func(p string) bool { return !h.unable[p] && selects[p](object, cluster) })
						if copied := object + " " + cluster; wanted && before[copied] && !after[copied] {
							t.Fatalf("seed %d: the sync of %s takes %s from all Bindings", seed, policy, copied)
						}
					}
				}
			}
		}
		clear(h.unable)
		for range 3 {
			for _, policy := range h.policies {
				h.sync(policy)
			}
		}
		for _, policy := range h.policies {
			selected, _, _ := h.index.Snapshot(policy, match.Listed{})
			want := binding.Compute(binding.Input{Selected: selected, Unread: binding.Unread{Read: map[schema.GroupResource]bool{configMaps.GroupResource(): true}}})
			if diff := cmp.Diff(want, *h.stored[policy]); diff != "" {
				t.Fatalf("seed %d: %s waits forever (-want +got):\n%s", seed, policy, diff)
			}
		}
	}
}
