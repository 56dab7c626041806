package binding_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
)

var (
	configMaps  = match.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"}
	namespaces  = match.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"}
	deployments = match.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment"}
	widgets     = match.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget"}
)

// space gives its objects to an Index, resource by resource, as a starting controller does.
type space struct {
	// clustersRead: all clusters are in the Index.
	clustersRead bool
	objects      map[match.Resource][]*metav1.ObjectMeta
	clusters     map[string]map[string]string
	policy       *match.Policy
}

func newSpace(t *testing.T) *space {
	t.Helper()
	spec := &controlv1alpha1.BindingPolicySpec{
		ClusterSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"site": "edge"}}},
		Downsync: []controlv1alpha1.DownsyncPolicyClause{
			{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{ObjectSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "web"}}}}},
			{
				DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "a"}}}},
				DownsyncModulation: controlv1alpha1.DownsyncModulation{CreateOnly: true, StatusCollectors: []string{"b", "a"}},
			},
		},
	}
	policy, errs := match.Compile(spec)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	s := &space{objects: map[match.Resource][]*metav1.ObjectMeta{}, clusters: map[string]map[string]string{}, policy: policy}
	for i := range 4 {
		s.clusters[fmt.Sprint("c", i)] = map[string]string{"site": []string{"edge", "core"}[i%2]}
		name := fmt.Sprint("n", i)
		s.objects[namespaces] = append(s.objects[namespaces], &metav1.ObjectMeta{
			Name: name, ResourceVersion: "1", Labels: map[string]string{"team": string(rune('a' + i%2)), "app": "web"},
		})
		for _, r := range []match.Resource{configMaps, deployments, widgets} {
			s.objects[r] = append(s.objects[r], &metav1.ObjectMeta{
				Namespace: name, Name: fmt.Sprint(r.Kind, i), ResourceVersion: fmt.Sprint(10 + i), Generation: int64(i % 2),
				Labels: map[string]string{"app": []string{"web", "db"}[i%2]},
			})
		}
	}
	return s
}

// steps returns the steps that add everything to the Index; steps of one resource stay in order,
// its end last.
func (s *space) steps(index *match.Index, rnd *rand.Rand) []func() {
	var queues [][]func()
	for r, objects := range s.objects {
		var steps []func()
		for _, i := range rnd.Perm(len(objects)) {
			steps = append(steps, func() {
				if r == namespaces {
					index.SetNamespace(objects[i].Name, objects[i].Labels)
				}
				index.SetObject(r, objects[i])
			})
		}
		queues = append(queues, append(steps, func() { index.SetKnown(r) }))
	}
	var clusters []func()
	for name, labels := range s.clusters {
		clusters = append(clusters, func() { index.SetCluster(name, labels) })
	}
	queues = append(queues, append(clusters, func() {
		index.SetClustersKnown()
		s.clustersRead = true
	}), []func(){func() { index.SetPolicy("p", s.policy) }, index.SetPoliciesKnown})
	var all []func()
	for len(queues) > 0 {
		i := rnd.IntN(len(queues))
		all = append(all, queues[i][0])
		if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
			queues = slices.Delete(queues, i, i+1)
		}
	}
	return all
}

func compute(index *match.Index, stored *controlv1alpha1.BindingSpec, clustersRead bool) controlv1alpha1.BindingSpec {
	unread := binding.Unread{Read: map[schema.GroupResource]bool{}, Clusters: map[string]bool{}}
	for _, r := range []match.Resource{configMaps, namespaces, deployments, widgets} {
		unread.Read[r.GroupResource()] = index.Known(r.GroupResource())
	}
	for _, cluster := range binding.ListedIn(stored).Clusters {
		unread.Clusters[cluster] = !clustersRead
	}
	snapshot, _, _ := index.Snapshot("p", match.Listed{})
	return binding.Compute(binding.Input{Selected: snapshot, Stored: stored, Unread: unread})
}

func TestAnyOrderGivesTheSameBytes(t *testing.T) {
	s := newSpace(t)
	var want string
	for seed := range uint64(50) {
		index := match.NewIndex(match.Options{})
		for _, step := range s.steps(index, rand.New(rand.NewPCG(seed, 1))) {
			step()
		}
		spec := compute(index, nil, true)
		got, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(got)
			checkOrder(t, spec)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Fatalf("seed %d (-seed 0 +this):\n%s", seed, diff)
		}
	}
}

func checkOrder(t *testing.T, spec controlv1alpha1.BindingSpec) {
	t.Helper()
	var got []string
	for _, c := range spec.Workload.ClusterScope {
		got = append(got, c.Resource+" "+c.Name)
	}
	for _, c := range spec.Workload.NamespaceScope {
		got = append(got, fmt.Sprint(c.Resource, " ", c.Name, " ", c.CreateOnly, c.StatusCollectors))
	}
	for _, d := range spec.Destinations {
		got = append(got, d.ClusterID)
	}
	want := []string{
		"namespaces n0", "namespaces n1", "namespaces n2", "namespaces n3",
		"configmaps ConfigMap0 true [a b]", "configmaps ConfigMap2 true [a b]",
		"deployments Deployment0 true [a b]", "deployments Deployment2 true [a b]",
		"widgets Widget0 true [a b]", "widgets Widget2 true [a b]",
		"c0", "c2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestRestartChangesNothing: at every moment of a start, whatever was read so far, the Binding is
// what it was; also if status was written while nobody looked.
func TestRestartChangesNothing(t *testing.T) {
	s := newSpace(t)
	index := match.NewIndex(match.Options{})
	for _, step := range s.steps(index, rand.New(rand.NewPCG(0, 0))) {
		step()
	}
	stored := compute(index, nil, true)
	for _, objects := range s.objects {
		for _, o := range objects {
			if o.Generation > 0 {
				o.ResourceVersion = "99"
			}
		}
	}
	for seed := range uint64(50) {
		index := match.NewIndex(match.Options{})
		s.clustersRead = false
		for i, step := range s.steps(index, rand.New(rand.NewPCG(seed, 2))) {
			step()
			spec := compute(index, &stored, s.clustersRead)
			if _, _, ok := index.Snapshot("p", match.Listed{}); !ok {
				continue // without its policy nobody computes a Binding
			}
			if difference := binding.Diff(&stored, &spec); difference != binding.Equal {
				t.Fatalf("seed %d, after step %d (-stored +computed):\n%s", seed, i, cmp.Diff(stored, spec))
			}
		}
	}
}

func TestUnreadIsCarriedOver(t *testing.T) {
	s := newSpace(t)
	index := match.NewIndex(match.Options{})
	for _, step := range s.steps(index, rand.New(rand.NewPCG(0, 0))) {
		step()
	}
	full := compute(index, nil, true)
	snapshot, _, _ := index.Snapshot("p", match.Listed{})
	snapshot.Clusters = []string{"c9"}
	snapshot.Matches = slices.DeleteFunc(snapshot.Matches, func(m match.Match) bool { return m.Ref.Name == "Widget0" || m.Ref.Name == "ConfigMap0" })

	got := binding.Compute(binding.Input{
		Selected: snapshot,
		Stored:   &full,
		Unread: binding.Unread{
			Read: map[schema.GroupResource]bool{
				namespaces.GroupResource(): true, configMaps.GroupResource(): true, deployments.GroupResource(): true,
			},
			Clusters: map[string]bool{"c2": true},
		},
	})
	if want := []controlv1alpha1.Destination{{ClusterID: "c2"}, {ClusterID: "c9"}}; !slices.Equal(want, got.Destinations) {
		t.Errorf("destinations %v, want %v: c2 could be in an inventory that was not read, c0 is in none", got.Destinations, want)
	}
	var names []string
	for _, c := range got.Workload.NamespaceScope {
		names = append(names, c.Name)
	}
	if want := []string{"ConfigMap2", "Deployment0", "Deployment2", "Widget0", "Widget2"}; !slices.Equal(want, names) {
		t.Errorf("objects %v, want %v: the Widget could not be read, the ConfigMap is gone", names, want)
	}
	none := binding.Compute(binding.Input{Selected: snapshot})
	if len(none.Workload.ClusterScope)+len(none.Workload.NamespaceScope) != 0 {
		t.Errorf("objects of an unread resource were added: %v", none)
	}
}

func TestDiff(t *testing.T) {
	base := func() *controlv1alpha1.BindingSpec {
		return &controlv1alpha1.BindingSpec{
			Workload: controlv1alpha1.DownsyncObjectClauses{
				ClusterScope: []controlv1alpha1.ClusterScopeDownsyncClause{
					{ClusterScopeDownsyncObject: controlv1alpha1.ClusterScopeDownsyncObject{Version: "v1", Resource: "namespaces", Name: "n", ResourceVersion: "1"}},
				},
				NamespaceScope: []controlv1alpha1.NamespaceScopeDownsyncClause{
					{NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{Version: "v1", Resource: "secrets", Namespace: "n", Name: "a", ResourceVersion: "1"}},
					{NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{Version: "v1", Resource: "secrets", Namespace: "n", Name: "b", ResourceVersion: "1"}},
				},
			},
			Destinations: []controlv1alpha1.Destination{{ClusterID: "c1"}},
		}
	}
	cases := map[string]struct {
		change func(*controlv1alpha1.BindingSpec)
		want   binding.Difference
	}{
		"Nothing":        {func(*controlv1alpha1.BindingSpec) {}, binding.Equal},
		"EmptyIsNil":     {func(s *controlv1alpha1.BindingSpec) { s.Workload.NamespaceScope[0].StatusCollectors = []string{} }, binding.Equal},
		"Version":        {func(s *controlv1alpha1.BindingSpec) { s.Workload.NamespaceScope[1].ResourceVersion = "2" }, binding.Versions},
		"ClusterVersion": {func(s *controlv1alpha1.BindingSpec) { s.Workload.ClusterScope[0].ResourceVersion = "2" }, binding.Versions},
		"APIVersion":     {func(s *controlv1alpha1.BindingSpec) { s.Workload.ClusterScope[0].Version = "v2" }, binding.Set},
		"Modulation":     {func(s *controlv1alpha1.BindingSpec) { s.Workload.NamespaceScope[0].CreateOnly = true }, binding.Set},
		"Collectors":     {func(s *controlv1alpha1.BindingSpec) { s.Workload.NamespaceScope[0].StatusCollectors = []string{"x"} }, binding.Set},
		"Destination":    {func(s *controlv1alpha1.BindingSpec) { s.Destinations[0].ClusterID = "c2" }, binding.Set},
		"Removed":        {func(s *controlv1alpha1.BindingSpec) { s.Workload.NamespaceScope = s.Workload.NamespaceScope[:1] }, binding.Set},
		"Order":          {func(s *controlv1alpha1.BindingSpec) { slices.Reverse(s.Workload.NamespaceScope) }, binding.Set},
		"VersionAndSet": {func(s *controlv1alpha1.BindingSpec) {
			s.Workload.ClusterScope[0].ResourceVersion = "2"
			s.Workload.NamespaceScope[0].CreateOnly = true
		}, binding.Set},
	}
	for name, tc := range cases {
		changed := base()
		tc.change(changed)
		if got := binding.Diff(base(), changed); got != tc.want {
			t.Errorf("%s: Diff = %d, want %d", name, got, tc.want)
		}
	}
}
