package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

func collections(index *Index) map[Pair]Collection {
	all := map[Pair]Collection{}
	for gr, r := range someResources {
		for _, namespace := range []string{"", "n0", "n1", "n2"} {
			for _, name := range []string{"o0", "o1", "o2", "o3"} {
				if (namespace == "") != (r == clusterRoles) {
					continue
				}
				for _, policy := range []string{"p0", "p1", "p2", "p3"} {
					pair := Pair{objref.New(gr, namespace, name), policy}
					all[pair] = index.Collection(pair)
				}
			}
		}
	}
	return all
}

func sameCollection(a, b Collection) bool {
	return a.Known == b.Known && a.UID == b.UID && a.Version == b.Version && slices.Equal(a.Collectors, b.Collectors) && slices.Equal(a.Clusters, b.Clusters)
}

// TestChangedCollections: whatever happens, Changes has what changed, and the answers are those of
// an Index built from the outcome alone.
func TestChangedCollections(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		w, index := newWorld(), NewIndex(Options{})
		for step := range 150 {
			labels := map[string]map[string]string{}
			for name := range w.clusters {
				labels[name], _ = index.ClusterLabels(name)
			}
			before := collections(index)
			what, changes := w.step(t, rnd, index, step+1)
			where := fmt.Sprintf("seed %d step %d: %s", seed, step, what)
			after := collections(index)
			for pair, answer := range after {
				if !sameCollection(before[pair], answer) && !slices.Contains(changes.Collections, pair) {
					t.Errorf("%s: %v changed and was not reported:\n%s", where, pair, cmp.Diff(before[pair], answer))
				}
			}
			for name, old := range labels {
				now, known := index.ClusterLabels(name)
				if known && !cmp.Equal(old, now) != (changes.Relabelled == name) {
					t.Errorf("%s: labels of %s changed from %v to %v, reported: %q", where, name, old, now, changes.Relabelled)
				}
			}
			if step%10 != 9 {
				continue
			}
			if diff := cmp.Diff(collections(w.rebuild(t, rnd)), after, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s (-rebuilt +incremental):\n%s", where, diff)
			}
		}
	}
}

func TestCollectionIsKnown(t *testing.T) {
	ref := objref.New(configMaps.GroupResource(), "n0", "o0")
	pair := Pair{ref, "p0"}
	asks := &policySpec{
		ClusterSelectors: []metav1.LabelSelector{{}},
		Downsync: []clauseSpec{{
			DownsyncObjectTest: objectTest{ObjectNames: []string{"*"}},
			DownsyncModulation: modulation{StatusCollectors: []string{"t", "s"}},
		}},
	}
	index := NewIndex(Options{})
	expect := func(what string, want Collection) {
		t.Helper()
		if diff := cmp.Diff(want, index.Collection(pair), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("nothing read", Collection{})
	index.SetPolicy("p0", mustCompile(t, asks))
	tracked := configMaps
	tracked.TracksContent = true
	index.SetObject(tracked, &metav1.ObjectMeta{Namespace: "n0", Name: "o0", UID: "u", Generation: 1, ResourceVersion: "5"})
	index.SetCluster("c0", map[string]string{"a": "b"})
	want := Collection{Collectors: []string{"s", "t"}, Clusters: []string{"c0"}, UID: types.UID("u"), Version: "5"}
	expect("seen, the rest not read", want)
	index.SetPoliciesKnown()
	index.SetKnown(configMaps)
	index.SetKnown(Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}})
	expect("clusters not read", want)
	if _, known := index.ClusterLabels("gone"); known {
		t.Error("labels of a cluster that may be in an ITS that was not read are known")
	}
	index.SetClustersKnown()
	want.Known = true
	expect("all read", want)
	if labels, known := index.ClusterLabels("gone"); labels != nil || !known {
		t.Errorf("a cluster that is not there has labels %v, known: %t", labels, known)
	}
	index.SetObject(tracked, &metav1.ObjectMeta{Namespace: "n0", Name: "o0", UID: "u", Generation: 1, ResourceVersion: "6"})
	expect("its status changed", want)
	index.SetObject(tracked, &metav1.ObjectMeta{Namespace: "n0", Name: "o0", UID: "u", Generation: 2, ResourceVersion: "7"})
	want.Version = "7"
	expect("its content changed", want)
	for _, changes := range []Changes{index.SetPolicyUID("p0", "x"), index.SetPolicyUID("p0", "y")} {
		if diff := cmp.Diff([]Pair{pair}, changes.Collections); diff != "" {
			t.Errorf("another policy has the name (-want +got):\n%s", diff)
		}
	}
	if changes := index.SetPolicyUID("p0", "y"); len(changes.Collections) > 0 {
		t.Errorf("the same policy: %v", changes)
	}
	want.PolicyUID = "y"
	expect("another policy has the name", want)

	// A policy that names no collectors asks for nothing, whatever else is known.
	other := *asks
	other.Downsync = []clauseSpec{{DownsyncObjectTest: objectTest{ObjectNames: []string{"*"}}}}
	index.SetPolicy("p0", mustCompile(t, &other))
	expect("no collectors", Collection{Known: true})
	index.DeletePolicy("p0")
	expect("no policy", Collection{Known: true})

	index.FreezePolicy("p0", &controlv1alpha1.BindingSpec{
		Destinations: []controlv1alpha1.Destination{{ClusterID: "c9"}},
		Workload: controlv1alpha1.DownsyncObjectClauses{NamespaceScope: []controlv1alpha1.NamespaceScopeDownsyncClause{{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{Resource: "configmaps", Namespace: "n0", Name: "o0"},
			DownsyncModulation:           modulation{StatusCollectors: []string{"z", "s", "z"}},
		}}},
	})
	expect("frozen", Collection{Known: true, Collectors: []string{"s", "z"}, Clusters: []string{"c9"}, UID: "u", Version: "7"}) // without the UID of the former policy
	index.DeleteObject(ref)
	expect("frozen, and gone", Collection{Known: true})
}
