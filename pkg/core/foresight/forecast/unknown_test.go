package forecast

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
)

// unlist removes the objects of a resource, as if they could not be listed.
func (w *World) unlist(gr schema.GroupResource) {
	w.Unread[gr] = true
	for ref := range w.Objects {
		if ref.GroupResource() == gr {
			delete(w.Objects, ref)
		}
	}
}

// forget makes the properties of a cluster unknown.
func (w *World) forget(name string) {
	c := *w.Clusters[name]
	c.Properties, c.Sources = nil, nil
	w.Clusters[name] = &c
}

// write sets a Binding that a user wrote, with an object in c3.
func (w *World) write(name string, resource schema.GroupVersionResource, namespace, object string) {
	c := controlv1alpha1.NamespaceScopeDownsyncClause{}
	c.Group, c.Version, c.Resource, c.Namespace, c.Name = resource.Group, resource.Version, resource.Resource, namespace, object
	b := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-mine"}}
	b.Spec.Workload.NamespaceScope = []controlv1alpha1.NamespaceScopeDownsyncClause{c}
	b.Spec.Destinations = []controlv1alpha1.Destination{{ClusterID: "c3"}}
	w.Bindings[name] = b
}

// TestUnknown: what could not be read is neither invented nor counted as unchanged.
func TestUnknown(t *testing.T) {
	t.Parallel()
	secrets := kinds["Secret"].GroupResource()
	cases := map[string]struct {
		before, change func(w *World)
		want           []string
	}{
		"AClusterGetsObjectsThatWereNotListed": {
			before: func(w *World) { w.unlist(secrets) },
			change: func(w *World) { w.cluster("c3", "site=edge,country=de") },
			want: []string{
				"policy edge: +1 clusters", "c3: 2 works", "  create ConfigMap shop/banner", "  create ConfigMap shop/settings",
				"  create Namespace shop", "  create  shop/password",
			},
		},
		"AClusterGetsObjectsOfAGroupThatWasNotRead": {
			before: func(w *World) {
				w.object("Widget/shop/w", "app=shop", "size=1")
				*w = *w.bound()
				w.UnreadGroups["example.org"] = true
				ref, _ := refTo("Widget/shop/w")
				delete(w.Objects, ref)
			},
			change: func(w *World) { w.cluster("c3", "site=edge,country=de") },
			want: []string{
				"policy edge: +1 clusters", "c3: 2 works", "  create ConfigMap shop/banner", "  create ConfigMap shop/settings",
				"  create Namespace shop", "  create Secret shop/password", "  create  shop/w",
			},
		},
		"ABindingListsAnObjectThatWasNotListed": {
			before: func(w *World) { w.unlist(secrets) },
			change: func(w *World) { w.write("mine", kinds["Secret"].GroupVersionResource, "shop", "password") },
			want: []string{
				"c3: 1 works", "  create  shop/password", `  ! no policy delivers Namespace "shop": the clusters need one (1 object)`,
			},
		},
		"ABindingListsAnObjectThatDoesNotExist": {
			change: func(w *World) { w.write("mine", kinds["Secret"].GroupVersionResource, "shop", "none") },
			want:   []string{"c3: 0 works", "  keep  shop/none (it does not exist in the WDS)"},
		},
		"AnObjectComesThatABindingLists": {
			before: func(w *World) { w.write("mine", kinds["ConfigMap"].GroupVersionResource, "shop", "new") },
			change: func(w *World) { w.object("ConfigMap/shop/new", "", "a=1") },
			want: []string{
				"c3: 1 works", "  create ConfigMap shop/new", `  ! no policy delivers Namespace "shop": the clusters need one (1 object)`,
			},
		},
		"AnObjectIsDeletedThatABindingLists": {
			before: func(w *World) { w.write("mine", kinds["ConfigMap"].GroupVersionResource, "shop", "free") },
			change: func(w *World) { ref, _ := refTo("ConfigMap/shop/free"); w.Delete(ref) },
			want:   []string{"c3: 0 works", "  keep ConfigMap shop/free (a Binding lists it, and it does not exist in the WDS any more)"},
		},
		"ABindingListsWhatIsNoWorkload": { // objects of it are never read
			change: func(w *World) {
				w.write("mine", schema.GroupVersionResource{Version: "v1", Resource: "events"}, "shop", "e")
			},
			want: []string{
				"c3: 1 works", "  create  shop/e", `  ! no policy delivers Namespace "shop": the clusters need one (1 object)`,
			},
		},
		"AnEditOfATemplateWithoutProperties": {
			before: func(w *World) { w.forget("c2") },
			change: func(w *World) { w.object("ConfigMap/shop/banner", "app=shop", "text=We are {{.clusterName}}") },
			want: []string{
				"c1: 1 works", "  update ConfigMap shop/banner .data.text: I am c1 in de -> We are c1",
				"c2: 1 works", "  update ConfigMap shop/banner (whether its content changes is unknown: the properties of the cluster are not known)",
			},
		},
		"AnEditOfATemplateWithoutPropertiesThatIsInvalid": {
			before: func(w *World) { w.forget("c2") },
			change: func(w *World) { w.object("ConfigMap/shop/banner", "app=shop", "text={{") },
			want: []string{
				"c1,c2: 0 works", "  keep ConfigMap shop/banner (cannot be delivered: .data.text cannot be parsed as a template: configmaps.data.text:1: unclosed action)",
			},
		},
		"ATemplateComesWithoutProperties": {
			before: func(w *World) { w.forget("c2") },
			change: func(w *World) { w.object("ConfigMap/shop/new", "app=shop", "a={{.clusterName}}") },
			want: []string{
				"policy edge: +1 objects", "c1: 1 works", "  create ConfigMap shop/new",
				"c2: 1 works", "  create ConfigMap shop/new (its content is unknown: the properties of the cluster are not known)",
			},
		},
		"ALabelOfAClusterWithoutProperties": {
			before: func(w *World) { w.forget("c2") },
			change: func(w *World) { w.cluster("c2", "site=edge,country=es"); w.forget("c2") },
			want: []string{
				"c2: 1 works", "  update ConfigMap shop/banner (whether its content changes is unknown: the properties of the cluster are not known)",
			},
		},
		"AnEditOfAnotherObjectWithoutProperties": {
			before: func(w *World) { w.forget("c2") },
			change: func(w *World) { w.object("ConfigMap/shop/settings", "app=shop", "color=blue") },
			want:   []string{"c1,c2: 1 works", "  update ConfigMap shop/settings .data.color: red -> blue"},
		},
		"ALabelOfAClusterThatIsNotAccepted": {
			before: func(w *World) { w.refuse("c9", "") },
			change: func(w *World) { w.refuse("c9", "site=edge") },
			want:   []string{"policy edge: c9 is not accepted"},
		},
		"ALabelOfAClusterThatIsDrained": {
			before: func(w *World) { w.cluster("c9", "starling.io/drained=true") },
			change: func(w *World) { w.cluster("c9", "site=edge,starling.io/drained=true") },
			want:   []string{"policy edge: c9 is drained: kubectl starling cluster undrain c9"},
		},
		"APolicyMatchesAClusterThatIsNotAccepted": {
			before: func(w *World) { w.refuse("c9", "site=attic") },
			change: func(w *World) { w.policy("none", "app=none", "site=attic") },
			want:   []string{"policy none: c9 is not accepted"},
		},
		"AnUnchangedPolicyMatchesAClusterThatIsNotAccepted": {
			before: func(w *World) { w.refuse("c9", "site=edge") },
			change: func(w *World) { w.policy("edge", "app=shop", "site=edge") },
		},
		"AnotherLabelOfAClusterThatIsNotAccepted": {
			before: func(w *World) { w.refuse("c9", "site=edge") },
			change: func(w *World) { w.refuse("c9", "site=edge,a=b") },
		},
		"AClusterThatIsNotAcceptedMatchesNoMore": {
			before: func(w *World) { w.refuse("c9", "site=edge") },
			change: func(w *World) { w.refuse("c9", "site=core") },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := shop()
			if tc.before != nil {
				tc.before(before)
			}
			after := before.Clone()
			tc.change(after)
			if diff := cmp.Diff(tc.want, forecastOf(t, before, after).lines()); diff != "" {
				t.Errorf("forecast (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClusterOfUnreadITS: a cluster of which another ITS has one of the same name stays as it is as
// long as the ITS that accepted it cannot be read.
func TestClusterOfUnreadITS(t *testing.T) {
	t.Parallel()
	before := shop()
	before.ClustersUnread = true
	before.Clusters["c1"] = &Cluster{State: inventory.Unknown, Labels: parse(""), Refused: "is not accepted"}
	after := before.Clone()
	after.object("ConfigMap/shop/settings", "app=shop", "color=blue")
	want := []string{"c1,c2: 1 works", "  update ConfigMap shop/settings .data.color: red -> blue"}
	if diff := cmp.Diff(want, forecastOf(t, before, after).lines()); diff != "" {
		t.Errorf("forecast (-want +got):\n%s", diff)
	}
	after.policy("edge", "app=shop", "") // it matches the labels of the other cluster, which say nothing
	want = append([]string{"policy edge: +1 clusters"}, "c1,c2: 1 works")
	if diff := cmp.Diff(want, forecastOf(t, before, after).lines()[:2]); diff != "" {
		t.Errorf("forecast of a policy for all clusters (-want +got):\n%s", diff)
	}
}

// TestMatters: what could not be read matters if the change can do something else because of that.
func TestMatters(t *testing.T) {
	t.Parallel()
	unknown := map[string]Unknown{
		"clusters": {About: AboutClusters}, "templates": {About: AboutTemplates}, "change": {About: AboutTheChange},
		"secrets": {About: AboutObjects, Of: kinds["Secret"].GroupResource()}, "group": {About: AboutObjects, Of: schema.GroupResource{Group: "example.org"}},
	}
	edit := func(name string) func(*World) {
		return func(w *World) { w.object(name, "app=shop", "text=new") }
	}
	only := func(group, resource string) func(*World) {
		return func(w *World) {
			for name, p := range w.Policies {
				p = p.DeepCopy()
				p.Spec.Downsync[0].APIGroup, p.Spec.Downsync[0].Resources = &group, []string{resource}
				w.Policies[name] = p
			}
			w.Bindings = map[string]*controlv1alpha1.Binding{}
			*w = *w.bound()
		}
	}
	relabel := func(w *World) { w.cluster("c3", "site=edge,country=de") }
	for name, tc := range map[string]struct {
		before, change func(*World)
		packages       bool
		want           []string
	}{
		"Nothing":         {change: func(*World) {}, want: []string{"change"}},
		"Packages":        {change: func(*World) {}, packages: true, want: []string{"change", "clusters"}},
		"NotSelected":     {change: func(w *World) { w.object("ConfigMap/shop/free", "", "a=2") }, want: []string{"change"}},
		"Edited":          {change: edit("ConfigMap/shop/settings"), want: []string{"change", "clusters"}},
		"Template":        {change: func(w *World) { w.object("ConfigMap/shop/banner", "app=shop", "text=we {{.country}}") }, want: []string{"change", "clusters", "templates"}},
		"Relabelled":      {change: relabel, want: []string{"change", "clusters", "group", "secrets", "templates"}},
		"OfConfigMaps":    {before: only("", "configmaps"), change: relabel, want: []string{"change", "clusters", "templates"}},
		"OfWidgets":       {before: only("example.org", "widgets"), change: relabel, want: []string{"change", "clusters", "group"}},
		"AppliedAgain":    {change: func(w *World) { w.Policies["edge"] = w.Policies["edge"].DeepCopy() }, want: []string{"change"}},
		"PolicyIsDeleted": {change: func(w *World) { delete(w.Policies, "edge") }, want: []string{"change", "clusters", "group", "secrets", "templates"}},
		"Namespace":       {change: edit("Namespace/shop"), want: []string{"change", "clusters", "group", "secrets", "templates"}},
	} {
		before := shop()
		if tc.before != nil {
			tc.before(before)
		}
		after := before.Clone()
		tc.change(after)
		c := Compare(before, after)
		relabel(after) // what is read after the comparison is no change
		var got []string
		for _, about := range slices.Sorted(maps.Keys(unknown)) {
			if u := unknown[about]; c.Matters(&u, tc.packages) {
				got = append(got, about)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
