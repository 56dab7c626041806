package match

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// world is everything that an Index receives, by name, so that another one can receive the same.
type world struct {
	policies   map[string]*policySpec
	frozen     map[string]*controlv1alpha1.BindingSpec
	objects    map[objref.Ref]*metav1.ObjectMeta
	namespaces map[string]map[string]string
	// ending are Namespaces that are being deleted, or were and have objects.
	ending   map[string]bool
	clusters map[string]map[string]string
}

func newWorld() *world {
	return &world{
		map[string]*policySpec{},
		map[string]*controlv1alpha1.BindingSpec{},
		map[objref.Ref]*metav1.ObjectMeta{},
		map[string]map[string]string{},
		map[string]bool{},
		map[string]map[string]string{},
	}
}

// forgetEnded forgets Namespaces that were being deleted, and are gone with everything in them.
func (w *world) forgetEnded() {
	maps.DeleteFunc(w.ending, func(name string, _ bool) bool {
		_, exists := w.namespaces[name]
		for ref := range w.objects {
			exists = exists || ref.Namespace == name
		}
		return !exists
	})
}

var someResources = map[schema.GroupResource]Resource{
	configMaps.GroupResource(): configMaps, deployments.GroupResource(): deployments, clusterRoles.GroupResource(): clusterRoles,
}

// rebuild returns a new Index that has received all of the world, in random order.
func (w *world) rebuild(t *testing.T, rnd *rand.Rand) *Index {
	index := NewIndex(Options{})
	var steps []func()
	for name, spec := range w.policies {
		steps = append(steps, func() { index.SetPolicy(name, mustCompile(t, spec)) })
	}
	for name, binding := range w.frozen {
		steps = append(steps, func() { index.FreezePolicy(name, binding) })
	}
	for ref, meta := range w.objects {
		steps = append(steps, func() { index.SetObject(someResources[ref.GroupResource()], meta) })
	}
	for name, labels := range w.namespaces {
		steps = append(steps, func() {
			index.SetNamespace(name, labels)
			if w.ending[name] {
				index.EndNamespace(name)
			}
		})
	}
	for name := range w.ending {
		if _, exists := w.namespaces[name]; !exists {
			steps = append(steps, func() { index.EndNamespace(name) })
		}
	}
	for name, labels := range w.clusters {
		steps = append(steps, func() { index.SetCluster(name, labels) })
	}
	rnd.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, f := range steps {
		f()
	}
	return index
}

// naive returns what a policy selects, by testing everything.
func (w *world) naive(t *testing.T, spec *policySpec) (matches map[objref.Ref]*modulation, clusters []string) {
	compiled := mustCompile(t, spec)
	matches = map[objref.Ref]*modulation{}
	for ref, meta := range w.objects {
		o := &object{resource: &resource{Resource: someResources[ref.GroupResource()]}, namespace: ref.Namespace, name: ref.Name, labels: meta.Labels}
		labels, known := w.namespaces[ref.Namespace]
		for i := range compiled.clauses {
			if !w.ending[ref.Namespace] && compiled.clauses[i].passes(o, labels, known) {
				matches[ref] = mergeModulation(matches[ref], compiled.clauses[i].modulation)
			}
		}
	}
	for name, labels := range w.clusters {
		if compiled.SelectsCluster(labels) {
			clusters = append(clusters, name)
		}
	}
	slices.Sort(clusters)
	return matches, clusters
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

func randomLabels(rnd *rand.Rand) map[string]string {
	labels := map[string]string{}
	for _, key := range []string{"app", "tier", "team"} {
		if rnd.IntN(2) == 0 {
			labels[key] = pick(rnd, "a", "b", "c")
		}
	}
	return labels
}

func randomSelectors(rnd *rand.Rand) []metav1.LabelSelector {
	var selectors []metav1.LabelSelector
	for range rnd.IntN(3) {
		key := pick(rnd, "app", "tier", "team")
		selectors = append(selectors, pick(rnd,
			selector(key, pick(rnd, "a", "b")),
			selector(key, "a", "app", "b"),
			expression(key, metav1.LabelSelectorOpIn, "a", "c"),
			expression(key, metav1.LabelSelectorOpNotIn, "a"),
			expression(key, metav1.LabelSelectorOpExists),
			expression(key, metav1.LabelSelectorOpDoesNotExist),
			metav1.LabelSelector{},
		))
	}
	return selectors
}

func randomNames(rnd *rand.Rand, from ...string) []string {
	var names []string
	for range rnd.IntN(3) {
		names = append(names, pick(rnd, from...))
	}
	return names
}

func randomSpec(rnd *rand.Rand) *policySpec {
	spec := &policySpec{ClusterSelectors: randomSelectors(rnd)}
	for range rnd.IntN(4) {
		c := clauseSpec{
			DownsyncObjectTest: objectTest{
				APIGroup:           pick(rnd, nil, nil, new(string), &[]string{"apps"}[0]),
				Resources:          randomNames(rnd, "configmaps", "deployments", "clusterroles", "*"),
				Namespaces:         randomNames(rnd, "n0", "n1", "n2", "*"),
				NamespaceSelectors: randomSelectors(rnd),
				ObjectSelectors:    randomSelectors(rnd),
				ObjectNames:        randomNames(rnd, "o0", "o1", "o2", "*"),
			},
			DownsyncModulation: modulation{
				CreateOnly:                 rnd.IntN(4) == 0,
				WantSingletonReportedState: rnd.IntN(3) == 0,
				WantMultiWECReportedState:  rnd.IntN(3) == 0,
				StatusCollectors:           randomNames(rnd, "s", "t"),
			},
		}
		if _, errs := Compile(&policySpec{Downsync: []clauseSpec{c}}); len(errs) == 0 {
			spec.Downsync = append(spec.Downsync, c)
		}
	}
	return spec
}

func randomRef(rnd *rand.Rand) objref.Ref {
	r := pick(rnd, configMaps, deployments, clusterRoles)
	namespace := pick(rnd, "n0", "n1", "n2")
	if r == clusterRoles {
		namespace = ""
	}
	return objref.New(r.GroupResource(), namespace, pick(rnd, "o0", "o1", "o2", "o3"))
}

// step makes one random change of the world and of the Index.
func (w *world) step(t *testing.T, rnd *rand.Rand, index *Index, version int) (string, Changes) {
	defer w.forgetEnded()
	switch rnd.IntN(14) {
	case 0, 1:
		name, spec := pick(rnd, "p0", "p1", "p2", "p3"), randomSpec(rnd)
		delete(w.frozen, name)
		w.policies[name] = spec
		return "set " + name, index.SetPolicy(name, mustCompile(t, spec))
	case 2:
		name := pick(rnd, "p0", "p1", "p2", "p3")
		delete(w.policies, name)
		delete(w.frozen, name)
		return "delete " + name, index.DeletePolicy(name)
	case 3:
		name, ref := pick(rnd, "p0", "p1", "p2", "p3"), randomRef(rnd)
		if ref.Namespace == "" {
			ref.Namespace = "n0"
		}
		binding := &controlv1alpha1.BindingSpec{Destinations: []controlv1alpha1.Destination{{ClusterID: pick(rnd, "c0", "c1", "gone")}}}
		binding.Workload.NamespaceScope = []controlv1alpha1.NamespaceScopeDownsyncClause{{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name},
			DownsyncModulation:           modulation{WantSingletonReportedState: true, StatusCollectors: randomNames(rnd, "t", "s")},
		}}
		delete(w.policies, name)
		w.frozen[name] = binding
		return "hold " + name, index.FreezePolicy(name, binding)
	case 4:
		ref := randomRef(rnd)
		delete(w.objects, ref)
		return "delete " + ref.String(), index.DeleteObject(ref)
	case 5:
		name, labels := pick(rnd, "n0", "n1", "n2"), randomLabels(rnd)
		w.namespaces[name] = labels
		delete(w.ending, name)
		return "set namespace " + name, index.SetNamespace(name, labels)
	case 10:
		name := pick(rnd, "n0", "n1", "n2")
		w.ending[name] = true
		if _, exists := w.namespaces[name]; !exists {
			w.namespaces[name] = nil
		}
		return "end namespace " + name, index.EndNamespace(name)
	case 11:
		ref := randomRef(rnd)
		delete(w.objects, ref)
		return "end " + ref.String(), index.SetObject(someResources[ref.GroupResource()], &metav1.ObjectMeta{
			Namespace: ref.Namespace, Name: ref.Name, Labels: randomLabels(rnd), ResourceVersion: fmt.Sprint(version),
			DeletionTimestamp: &metav1.Time{}, Finalizers: []string{"example.com/wait"},
		})
	case 6:
		name := pick(rnd, "n0", "n1", "n2")
		delete(w.namespaces, name)
		return "delete namespace " + name, index.DeleteNamespace(name)
	case 7:
		name, labels := pick(rnd, "c0", "c1", "c2"), maps.Clone(randomLabels(rnd))
		if rnd.IntN(3) == 0 {
			labels = map[string]string{"a": labels["a"], controlv1alpha1.LabelDrained: pick(rnd, "true", "false")}
		}
		w.clusters[name] = labels
		return "set cluster " + name, index.SetCluster(name, labels)
	case 8:
		name := pick(rnd, "c0", "c1", "c2")
		delete(w.clusters, name)
		return "delete cluster " + name, index.DeleteCluster(name)
	case 9:
		if rnd.IntN(4) > 0 {
			return "nothing", Changes{}
		}
		gr := pick(rnd, slices.Collect(maps.Keys(someResources))...)
		maps.DeleteFunc(w.objects, func(ref objref.Ref, _ *metav1.ObjectMeta) bool { return ref.GroupResource() == gr })
		return "delete resource " + gr.String(), index.DeleteResource(gr)
	default:
		ref := randomRef(rnd)
		meta := &metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, Labels: randomLabels(rnd), ResourceVersion: fmt.Sprint(version)}
		w.objects[ref] = meta
		return "set " + ref.String(), index.SetObject(someResources[ref.GroupResource()], meta)
	}
}

var ignoreHistory = cmpopts.IgnoreFields(Snapshot{}, "Revision")

// TestIncrementalIsRebuilt: after any history, in any order, the Index answers like one that
// received only the final state, and like a test of everything. It reports exactly the policies and
// objects whose answers changed.
func TestIncrementalIsRebuilt(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w, index := newWorld(), NewIndex(Options{})
		for step := range 150 {
			heldBefore := maps.Clone(w.frozen)
			before, requestsBefore := results(w, index)
			what, changes := w.step(t, rnd, index, step+1)
			after, requestsAfter := results(w, index)

			where := fmt.Sprintf("seed %d step %d: %s", seed, step, what)
			for name := range after {
				if w.frozen[name] != nil || heldBefore[name] != nil {
					continue // there is no Snapshot to compare with
				}
				moved := !slices.Equal(before[name].Clusters, after[name].Clusters) ||
					!reflect.DeepEqual(withoutVersions(before[name]), withoutVersions(after[name]))
				if moved != changes.Policies[name].Set() {
					t.Errorf("%s: policy %s changed: %t, but reported %q", where, name, moved, changes.Policies[name])
				}
			}
			for ref, answer := range requestsAfter {
				if !sameRequests(requestsBefore[ref], answer) && !slices.Contains(changes.Requests, ref) {
					t.Errorf("%s: the requests of %s changed and were not reported", where, ref)
				}
			}
			if step%10 != 9 {
				continue
			}
			rebuilt := w.rebuild(t, rnd)
			want, wantRequests := results(w, rebuilt)
			if diff := cmp.Diff(want, after, ignoreHistory, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Match{}, "Exact")); diff != "" {
				t.Fatalf("%s: snapshots (-rebuilt +incremental):\n%s", where, diff)
			}
			if diff := cmp.Diff(wantRequests, requestsAfter, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s: requests (-rebuilt +incremental):\n%s", where, diff)
			}
			for name, spec := range w.policies {
				matches, clusters := w.naive(t, spec)
				got := map[objref.Ref]*modulation{}
				for _, m := range after[name].Matches {
					got[m.Ref] = m.Modulation
				}
				if diff := cmp.Diff(matches, got, cmpopts.EquateEmpty()) + cmp.Diff(clusters, after[name].Clusters, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("%s: policy %s (-naive +incremental):\n%s", where, name, diff)
				}
			}
		}
		empty(t, w, index)
	}
}

func results(w *world, index *Index) (map[string]Snapshot, map[objref.Ref]Requests) {
	snapshots := map[string]Snapshot{}
	for _, name := range []string{"p0", "p1", "p2", "p3"} {
		snapshots[name], _, _ = index.Snapshot(name, Listed{})
	}
	requests := map[objref.Ref]Requests{}
	for gr, r := range someResources {
		for _, namespace := range []string{"", "n0", "n1", "n2"} {
			for _, name := range []string{"o0", "o1", "o2", "o3"} {
				if (namespace == "") == (r == clusterRoles) {
					ref := objref.New(gr, namespace, name)
					requests[ref] = index.Requests(ref)
				}
			}
		}
	}
	return snapshots, requests
}

func sameRequests(a, b Requests) bool {
	return a.Singleton == b.Singleton && slices.Equal(a.SingletonClusters, b.SingletonClusters) &&
		a.MultiWEC == b.MultiWEC && slices.Equal(a.MultiWECClusters, b.MultiWECClusters)
}

func withoutVersions(s Snapshot) []Match {
	matches := append([]Match{}, s.Matches...)
	for i := range matches {
		matches[i].ResourceVersion, matches[i].Exact = "", false
	}
	return matches
}

// empty deletes everything and expects that nothing is left behind.
func empty(t *testing.T, w *world, index *Index) {
	t.Helper()
	for _, name := range []string{"p0", "p1", "p2", "p3"} {
		index.DeletePolicy(name)
	}
	for ref := range w.objects {
		index.DeleteObject(ref)
	}
	c := index.catalog
	if len(index.finder.entries)+len(index.frozen)+len(index.mentions)+len(index.policies)+len(c.byName)+len(c.byNamespace)+len(c.byLabel) != 0 ||
		index.finder.count != [anchorKinds]int{} || index.finder.selectors != 0 {
		t.Errorf("left behind: %+v", index)
	}
}

func TestContentVersion(t *testing.T) {
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "n", Name: "d"}
	state := func(version string, generation int64, labels, annotations map[string]string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{
			Namespace: "n", Name: "d", UID: "u", ResourceVersion: version, Generation: generation,
			Labels: labels, Annotations: annotations,
		}
	}
	app := map[string]string{"app": "a"}
	cases := map[string]struct {
		reason      string
		then        *metav1.ObjectMeta
		afterStart  bool
		wantVersion string
		wantExact   bool
	}{
		"Status":      {"a status write moves neither", state("2", 1, app, nil), false, "1", false},
		"Spec":        {"a new generation", state("2", 2, app, nil), false, "2", true},
		"Labels":      {"another label", state("2", 1, map[string]string{"app": "b"}, nil), false, "2", true},
		"StatusLabel": {"our own mark", state("2", 1, map[string]string{"app": "a", controlv1alpha1.LabelSingletonStatus: "true"}, nil), false, "1", false},
		"Annotations": {"another annotation", state("2", 1, app, map[string]string{"a": "b"}), false, "2", true},
		"Recreated":   {"another object of that name", &metav1.ObjectMeta{Namespace: "n", Name: "d", UID: "v", ResourceVersion: "2", Generation: 1, Labels: app}, false, "2", true},
		"New":         {"seen after the start: its first version is its content's", state("2", 1, app, nil), true, "1", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			index := NewIndex(Options{})
			index.SetPolicy("p", mustCompile(t, downsync(objectTest{ObjectNames: []string{"*"}})))
			if tc.afterStart {
				index.SetKnown(deployments)
			}
			index.SetObject(deployments, state("1", 1, app, nil))
			changes := index.SetObject(deployments, tc.then)
			if reported := changes.Policies["p"]&ChangedVersions != 0; reported != (tc.wantVersion == "2") {
				t.Errorf("%s: reported %q", tc.reason, changes.Policies["p"])
			}
			snapshot, _, _ := index.Snapshot("p", Listed{})
			if got := snapshot.Matches[0]; got.ResourceVersion != tc.wantVersion || got.Exact != tc.wantExact {
				t.Errorf("%s: version %s exact %t, want %s %t", tc.reason, got.ResourceVersion, got.Exact, tc.wantVersion, tc.wantExact)
			}
		})
	}
	t.Run("NoGeneration", func(t *testing.T) {
		index := NewIndex(Options{})
		index.SetPolicy("p", mustCompile(t, downsync(objectTest{ObjectNames: []string{"*"}})))
		index.SetObject(deployments, state("1", 0, nil, nil))
		index.SetObject(deployments, state("2", 0, nil, nil))
		snapshot, _, _ := index.Snapshot("p", Listed{})
		if got := snapshot.Matches[0]; got.Ref != ref || got.ResourceVersion != "2" || !got.Exact {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("GenerationThatDoesNotTrackTheContent", func(t *testing.T) {
		index := NewIndex(Options{})
		index.SetPolicy("p", mustCompile(t, downsync(objectTest{ObjectNames: []string{"*"}})))
		untracked := deployments
		untracked.TracksContent = false
		index.SetObject(untracked, state("1", 1, nil, nil))
		if changes := index.SetObject(untracked, state("2", 1, nil, nil)); changes.Policies["p"]&ChangedVersions == 0 {
			t.Error("an edit that does not change the generation is not reported")
		}
		snapshot, _, _ := index.Snapshot("p", Listed{})
		if got := snapshot.Matches[0]; got.ResourceVersion != "2" || !got.Exact {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRequestsAndMiscounts(t *testing.T) {
	index := NewIndex(Options{})
	singleton := func(site string) *Policy {
		return mustCompile(t, &policySpec{
			ClusterSelectors: []metav1.LabelSelector{selector("site", site)},
			Downsync:         []clauseSpec{clauseOf(objectTest{ObjectNames: []string{"web"}}, modulation{WantSingletonReportedState: true})},
		})
	}
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}
	index.SetObject(deployments, &metav1.ObjectMeta{Namespace: "shop", Name: "web"})
	index.SetCluster("c1", map[string]string{"site": "a"})
	index.SetPolicy("pa", singleton("a"))
	index.SetPolicy("all", mustCompile(t, downsync(objectTest{ObjectNames: []string{"*"}})))

	if diff := cmp.Diff(Requests{Singleton: true, SingletonClusters: []string{"c1"}}, index.Requests(ref)); diff != "" {
		t.Errorf("one cluster (-want +got):\n%s", diff)
	}
	if got := index.Miscounts("all", 4); got != nil {
		t.Errorf("one cluster: miscounts %v", got)
	}

	changes := index.SetCluster("c0", map[string]string{"site": "b"})
	if len(changes.Policies) != 0 {
		t.Errorf("a cluster that no policy selects: %v", changes)
	}
	changes = index.SetPolicy("pb", singleton("b"))
	want := map[string]Change{"pb": ChangedWorkload | ChangedDestinations | ChangedRequests, "pa": ChangedRequests, "all": ChangedRequests}
	if diff := cmp.Diff(want, changes.Policies); diff != "" {
		t.Errorf("a second policy asks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c0", "c1"}, index.Requests(ref).SingletonClusters); diff != "" {
		t.Errorf("clusters of both (-want +got):\n%s", diff)
	}
	miscounts := []Miscount{{ref, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, 2}}
	if diff := cmp.Diff(miscounts, index.Miscounts("all", 4)); diff != "" {
		t.Errorf("miscounts (-want +got):\n%s", diff)
	}

	for _, known := range []func(){
		func() { index.SetKnown(deployments) }, func() { index.SetKnown(namespaceRes) }, index.SetPoliciesKnown, index.SetClustersKnown,
	} {
		if index.Requests(ref).Known {
			t.Error("known too early")
		}
		known()
	}
	if !index.Requests(ref).Known {
		t.Error("not known after all was read")
	}
}

// TestRetainedClusters: the clusters of an ITS that does not answer remain destinations.
func TestRetainedClusters(t *testing.T) {
	index := NewIndex(Options{})
	ref := objref.New(deployments.GroupResource(), "n", "o")
	index.SetPolicy("p", mustCompile(t, &controlv1alpha1.BindingPolicySpec{
		ClusterSelectors: []metav1.LabelSelector{selector("site", "a")},
		Downsync: []controlv1alpha1.DownsyncPolicyClause{{
			DownsyncObjectTest: objectTest{Resources: []string{"deployments"}}, DownsyncModulation: controlv1alpha1.DownsyncModulation{WantSingletonReportedState: true},
		}},
	}))
	index.SetObject(deployments, &metav1.ObjectMeta{Namespace: "n", Name: "o"})
	index.SetKnown(deployments)
	index.SetKnown(namespaceRes)
	index.SetPoliciesKnown()
	expect := func(what string, known bool, clusters ...string) {
		t.Helper()
		got := index.Requests(ref)
		if diff := cmp.Diff(clusters, got.SingletonClusters); diff != "" || got.Known != known {
			t.Errorf("%s: known %t, want %t; clusters (-want +got):\n%s", what, got.Known, known, diff)
		}
	}
	expect("nothing is known of clusters", false)
	if changes := index.RetainClusters("p", []string{"far"}); changes.Policies["p"]&ChangedDestinations == 0 {
		t.Errorf("a cluster of the Binding: changes %v", changes)
	}
	expect("one of an ITS that has not synced", true, "far")
	unseen := func(what string, want ...string) {
		t.Helper()
		got, _, _ := index.Snapshot("p", Listed{Clusters: []string{"far", "near", "gone"}})
		if diff := cmp.Diff(want, got.Unseen); diff != "" {
			t.Errorf("%s: unseen (-want +got):\n%s", what, diff)
		}
	}
	unseen("nothing but one of the Binding", "far", "near", "gone")
	index.SetCluster("near", map[string]string{"site": "a"})
	expect("and one that is known", true, "far", "near")
	index.SetCluster("far", map[string]string{"site": "a", controlv1alpha1.LabelDrained: "true"})
	expect("it is drained, and counts still", true, "far", "near")
	unseen("it is drained, and counts still", "far", "gone")
	index.SetCluster("far", map[string]string{"site": "a"})
	index.RetainClusters("p", nil)
	expect("it is known as well", true, "far", "near")
	unseen("it is known as well", "gone")
	if changes := index.RetainClusters("p", nil); len(changes.Policies) != 0 {
		t.Errorf("nothing new: changes %v", changes)
	}
}

// TestEventsTestFewObjects counts tests: an event must not look at what it cannot reach.
func TestEventsTestFewObjects(t *testing.T) {
	index := NewIndex(Options{})
	const policies, objects = 200, 1000
	for i := range policies {
		index.SetPolicy(fmt.Sprint("p", i), mustCompile(t, downsync(
			objectTest{Resources: []string{"deployments"}, ObjectSelectors: []metav1.LabelSelector{selector("env", "prod", "app", fmt.Sprint("a", i))}},
			objectTest{Namespaces: []string{fmt.Sprint("n", i)}, Resources: []string{"configmaps"}},
		)))
	}
	for i := range objects {
		app := fmt.Sprint("a", i%policies)
		index.SetObject(deployments, &metav1.ObjectMeta{Namespace: "n1", Name: fmt.Sprint("o", i), Labels: map[string]string{"env": "prod", "app": app}})
	}
	limits := map[string]struct {
		event func()
		limit uint64
	}{
		"object": {func() {
			index.SetObject(deployments, &metav1.ObjectMeta{Namespace: "n9", Name: "new", Labels: map[string]string{"app": "a7", "env": "prod"}})
		}, 3},
		"edit": {func() {
			index.SetObject(deployments, &metav1.ObjectMeta{Namespace: "n9", Name: "new", Generation: 2, Labels: map[string]string{"app": "a7", "env": "prod"}})
		}, 0},
		"policy": {func() {
			index.SetPolicy("p3", mustCompile(t, downsync(objectTest{ObjectSelectors: []metav1.LabelSelector{selector("env", "prod", "app", "a4")}})))
		}, objects + 1},
		"narrow policy": {func() {
			index.SetPolicy("p3", mustCompile(t, downsync(objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "a4")}})))
		}, objects/policies + 1},
		"namespace": {func() { index.SetNamespace("n1", map[string]string{"team": "x"}) }, 0},
	}
	for _, name := range []string{"object", "edit", "policy", "narrow policy", "namespace"} {
		before := index.Tests()
		limits[name].event()
		if got := index.Tests() - before; got > limits[name].limit {
			t.Errorf("%s: %d tests, want at most %d", name, got, limits[name].limit)
		}
	}
}

// TestDeletionIsObserved: what is being deleted is no workload any more, whatever finalizers it
// waits for; and with a Namespace all that is in it.
func TestDeletionIsObserved(t *testing.T) {
	ending := func(meta metav1.ObjectMeta) *metav1.ObjectMeta {
		meta.DeletionTimestamp, meta.Finalizers = &metav1.Time{}, []string{"example.com/wait"}
		return &meta
	}
	shop := metav1.ObjectMeta{Name: "shop", UID: "1"}
	app := metav1.ObjectMeta{Namespace: "shop", Name: "app", UID: "1"}
	again := metav1.ObjectMeta{Namespace: "shop", Name: "app", UID: "2"}
	namespaceKind := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"}
	for name, tc := range map[string]struct {
		change func(*Index)
		want   []string
	}{
		"Nothing":          {func(*Index) {}, []string{"configmaps shop/app", "namespaces shop"}},
		"TheObject":        {func(x *Index) { x.SetObject(configMaps, ending(app)) }, []string{"namespaces shop"}},
		"TheObjectIsThere": {func(x *Index) { x.SetObject(configMaps, ending(app)); x.SetObject(configMaps, &again) }, []string{"configmaps shop/app", "namespaces shop"}},
		"TheNamespace":     {func(x *Index) { x.EndNamespace("shop"); x.SetObject(namespaceKind, ending(shop)) }, nil},
		"AnObjectComesLate": {func(x *Index) {
			x.EndNamespace("shop")
			x.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "shop", Name: "late"})
		}, []string{"namespaces shop"}},
		"TheNamespaceIsGoneFirst": {func(x *Index) {
			x.EndNamespace("shop")
			x.DeleteNamespace("shop")
			x.DeleteObject(objref.New(namespaceKind.GroupResource(), "", "shop"))
			x.SetObject(configMaps, &app)
		}, nil},
		"AnotherNamespaceIsDeletedToo": {func(x *Index) {
			x.EndNamespace("shop")
			x.DeleteNamespace("shop")
			x.EndNamespace("shop")
			x.DeleteObject(objref.New(configMaps.GroupResource(), "shop", "app"))
			x.SetObject(configMaps, &again)
		}, []string{"namespaces shop"}},
		"AnotherNamespace": {func(x *Index) {
			x.EndNamespace("shop")
			x.DeleteNamespace("shop")
			x.SetNamespace("shop", nil)
			x.SetObject(configMaps, &again)
		}, []string{"configmaps shop/app", "namespaces shop"}},
	} {
		t.Run(name, func(t *testing.T) {
			index := NewIndex(Options{})
			index.SetPolicy("p", mustCompile(t, downsync(objectTest{ObjectNames: []string{"*"}})))
			index.SetNamespace("shop", nil)
			index.SetObject(namespaceKind, &shop)
			index.SetObject(configMaps, &app)
			tc.change(index)
			snapshot, _, _ := index.Snapshot("p", Listed{})
			var got []string
			for _, m := range snapshot.Matches {
				got = append(got, m.Ref.String())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("selected (-want +got):\n%s", diff)
			}
		})
	}
}
