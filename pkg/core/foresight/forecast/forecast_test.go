package forecast

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// shop returns a World with two policies, objects and clusters, all of which is bound.
func shop() *World {
	w := newWorld()
	w.policy("edge", "app=shop", "site=edge")
	w.policy("all", "for=all", "")
	w.object("Namespace/shop", "app=shop", "")
	w.object("ConfigMap/shop/settings", "app=shop", "color=red")
	w.object("Secret/shop/password", "app=shop", "key=old")
	w.object("ConfigMap/shop/banner", "app=shop", "text=I am {{.clusterName}} in {{.country}}")
	w.object("ConfigMap/shop/free", "", "a=1")
	w.cluster("c1", "site=edge,country=de")
	w.cluster("c2", "site=edge,country=fr")
	w.cluster("c3", "site=core,country=de")
	return w.bound()
}

// TestForecast: what a change of each kind does.
func TestForecast(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(w *World)
		want   []string
	}{
		"Nothing": {change: func(*World) {}},
		"AnEdit": {
			change: func(w *World) { w.object("ConfigMap/shop/settings", "app=shop", "color=blue") },
			want:   []string{"c1,c2: 1 works", "  update ConfigMap shop/settings .data.color: red -> blue"},
		},
		"AnEditThatIsNotDelivered": {
			change: func(w *World) { w.object("ConfigMap/shop/free", "", "a=2") },
		},
		"AnEditOfASecret": {
			change: func(w *World) { w.object("Secret/shop/password", "app=shop", "key=new") },
			want:   []string{"c1,c2: 1 works", "  update Secret shop/password .data.key: (removed) -> (removed)"},
		},
		"AnObjectThatIsSelected": {
			change: func(w *World) { w.object("ConfigMap/shop/free", "app=shop", "a=1") },
			want:   []string{"policy edge: +1 objects", "c1,c2: 1 works", "  create ConfigMap shop/free"},
		},
		"AnObjectThatIsSelectedTwice": {
			change: func(w *World) { w.object("ConfigMap/shop/settings", "app=shop,for=all", "color=red") },
			want: []string{
				"policy all: +1 objects",
				"c1,c2: 1 works", "  update ConfigMap shop/settings .metadata.labels.for: <nil> -> all",
				"c3: 1 works", "  create ConfigMap shop/settings", `  ! no policy delivers Namespace "shop": the clusters need one (1 object)`,
			},
		},
		"AnObjectThatMovesToAnotherPolicy": { // it is not deleted in between
			change: func(w *World) {
				w.policy("other", "app=other", "site=edge")
				w.object("ConfigMap/shop/settings", "app=other", "color=red")
			},
			want: []string{
				"policy edge: -1 objects", "policy other: +2 clusters +1 objects",
				"c1,c2: 1 works", "  update ConfigMap shop/settings .metadata.labels.app: shop -> other",
			},
		},
		"ADeletion": {
			change: func(w *World) { ref, _ := refTo("ConfigMap/shop/settings"); w.Delete(ref) },
			want:   []string{"policy edge: -1 objects", "c1,c2: 1 works", "  delete ConfigMap shop/settings"},
		},
		"ANamespaceIsDeleted": {
			change: func(w *World) { ref, _ := refTo("Namespace/shop"); w.Delete(ref) },
			want: []string{
				"policy edge: -4 objects", "c1,c2: 2 works", "  delete ConfigMap shop/banner", "  delete ConfigMap shop/settings",
				"  delete Namespace shop (with everything in it, also what was not delivered)", "  delete Secret shop/password",
			},
		},
		"ALabelOfACluster": {
			change: func(w *World) { w.cluster("c3", "site=edge,country=de") },
			want: []string{
				"policy edge: +1 clusters", "c3: 2 works", "  create ConfigMap shop/banner", "  create ConfigMap shop/settings",
				"  create Namespace shop", "  create Secret shop/password",
			},
		},
		"APropertyOfACluster": {
			change: func(w *World) { w.cluster("c2", "site=edge,country=es") },
			want:   []string{"c2: 1 works", "  update ConfigMap shop/banner .data.text: I am c2 in fr -> I am c2 in es"},
		},
		"AConfigMapWithProperties": { // objects without templates stay
			change: func(w *World) { w.configure("c1", "country=es,town=Toledo") },
			want:   []string{"c1: 1 works", "  update ConfigMap shop/banner .data.text: I am c1 in de -> I am c1 in es"},
		},
		"AConfigMapWithPropertiesThatNoTemplateHas": {
			change: func(w *World) { w.configure("c1", "town=Toledo") },
		},
		"ATemplateThatCannotBeExpanded": {
			change: func(w *World) { w.object("ConfigMap/shop/banner", "app=shop", "text=I am {{.town}}") },
			want: []string{
				"c1,c2: 0 works",
				`  keep ConfigMap shop/banner (cannot be delivered: .data.text cannot be expanded: configmaps.data.text:1:7: executing "configmaps.data.text" at <.town>: map has no entry for key "town")`,
			},
		},
		"APolicyIsDeleted": {
			change: func(w *World) { delete(w.Policies, "edge") },
			want: []string{
				"policy edge: -2 clusters -4 objects", "c1,c2: 2 works", "  delete ConfigMap shop/banner", "  delete ConfigMap shop/settings",
				"  delete Namespace shop (with everything in it, also what was not delivered)", "  delete Secret shop/password",
			},
		},
		"AnInvalidPolicy": {
			change: func(w *World) {
				w.policy("edge", "app=shop", "site=edge")
				w.Policies["edge"].Spec.Downsync[0].ObjectSelectors[0].MatchLabels = map[string]string{"-": "x"}
			},
			want: []string{
				`policy edge: spec.downsync[0].objectSelectors[0].matchLabels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', ` +
					`and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', ` +
					`regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			},
		},
		"AClusterIsNotAccepted": {
			change: func(w *World) {
				w.policy("core", "app=shop", "site=core")
				w.refuse("c3", "site=core")
			},
			want: []string{"policy all: -1 clusters c3 is not accepted", "policy core: +4 objects c3 is not accepted"},
		},
		"AClusterIsDrained": {
			change: func(w *World) {
				w.policy("core", "app=shop", "site=core")
				w.cluster("c3", "site=core,starling.io/drained=true")
			},
			want: []string{
				"policy all: -1 clusters c3 is drained: kubectl starling cluster undrain c3",
				"policy core: +4 objects c3 is drained: kubectl starling cluster undrain c3",
			},
		},
		"ACustomTransform": {
			change: func(w *World) {
				ct := &controlv1alpha1.CustomTransform{}
				ct.Name, ct.Spec.Resource, ct.Spec.Remove = "colors", "configmaps", []string{"$.data.color"}
				w.Transforms[ct.Name] = ct
			},
			want: []string{"c1,c2: 1 works", "  update ConfigMap shop/settings .data.color: red -> <nil>"},
		},
		"AHold": {
			change: func(w *World) {
				held := w.Bindings["edge"].DeepCopy()
				held.Annotations = map[string]string{controlv1alpha1.AnnotationHold: "configmaps/shop/settings"}
				w.Bindings["edge"] = held
				w.object("ConfigMap/shop/settings", "app=shop", "color=blue")
			},
			want: []string{"c1,c2: 0 works", "  keep ConfigMap shop/settings .data.color: red -> blue (held by the annotation starling.io/hold of Binding edge)"},
		},
		"ATransactionHolds": { // in c2 only
			change: func(w *World) {
				w.hold("ConfigMap/shop/settings", "c2")
				w.object("ConfigMap/shop/settings", "app=shop", "color=blue")
			},
			want: []string{
				"c1: 1 works", "  update ConfigMap shop/settings .data.color: red -> blue",
				"c2: 0 works", "  keep ConfigMap shop/settings .data.color: red -> blue (held by transaction tx-1)",
			},
		},
		"ATransactionHoldsWhatIsDeleted": {
			change: func(w *World) {
				w.hold("ConfigMap/shop/settings")
				ref, _ := refTo("ConfigMap/shop/settings")
				w.Delete(ref)
			},
			want: []string{"policy edge: -1 objects", "c1,c2: 0 works", "  keep ConfigMap shop/settings (held by transaction tx-1)"},
		},
		"WhatTransactionsHoldIsInvalid": { // so everything is held
			change: func(w *World) {
				w.hold("ConfigMap/shop/settings", "c2")
				w.Bindings[pkgv1.HoldsBinding].Annotations[pkgv1.AnnotationHeldObjects] = "x"
				w.object("Secret/shop/password", "app=shop", "key=new")
			},
			want: []string{
				"c1,c2: 0 works", "  keep Secret shop/password .data.key: (removed) -> (removed) (held by the annotation pkg.crossplane.io/held-objects " +
					"of Binding transactions.pkg.crossplane.io, which is invalid and so holds everything)",
			},
		},
		"AnotherWDSDeliversIt": {
			change: func(w *World) {
				ref, _ := refTo("ConfigMap/shop/settings")
				w.object("ConfigMap/shop/settings", "app=shop", "color=blue")
				w.Clusters["c2"] = &Cluster{
					Labels: parse("site=edge,country=fr"), Properties: w.Clusters["c2"].Properties,
					Others: map[objref.Ref]Other{ref: {By: `WDS "b"`, Content: transform.HashOf([]byte("green"))}},
				}
			},
			want: []string{
				"c1: 1 works", "  update ConfigMap shop/settings .data.color: red -> blue",
				"c2: 1 works", `  update ConfigMap shop/settings .data.color: red -> blue CONFLICT (WDS "b" delivers it with different content; the first of the two is delivered)`,
			},
		},
		"AnUnavailableCluster": {
			change: func(w *World) {
				w.Clusters["c2"] = &Cluster{Labels: parse("site=edge,country=fr"), Properties: w.Clusters["c2"].Properties, Unavailable: "has not renewed its lease for 5m"}
				w.object("ConfigMap/shop/settings", "app=shop", "color=blue")
			},
			want: []string{"c1,c2: 1 works", "  update ConfigMap shop/settings .data.color: red -> blue", "  ! c2 has not renewed its lease for 5m"},
		},
		"ACustomResourceWithoutItsDefinition": {
			change: func(w *World) {
				w.object("CustomResourceDefinition/widgets.example.org", "", "")
				w.object("Widget/shop/w", "app=shop", "size=1")
			},
			want: []string{
				"policy edge: +1 objects", "c1,c2: 1 works", "  create Widget shop/w",
				"  ! no policy delivers the CustomResourceDefinition widgets.example.org: the clusters need it (1 object)",
				"  ! the first objects of widgets.example.org: OCM's agent needs a grant for them in each cluster (1 object)",
			},
		},
		"ANamespaceThatOthersNeed": { // the cluster would delete what is in it
			change: func(w *World) { w.object("Namespace/shop", "", "") },
			want: []string{
				"policy edge: -1 objects", "c1,c2: 0 works", "  keep Namespace shop (stays, because 3 objects would be deleted with it)",
			},
		},
		"AnObjectOfASystemNamespaceOfOCM": {
			change: func(w *World) { w.object("ConfigMap/open-cluster-management/x", "app=shop", "a=1") },
			want: []string{
				"policy edge: +1 objects", "c1,c2: 0 works",
				"  keep ConfigMap open-cluster-management/x (nothing is delivered to namespace open-cluster-management of Open Cluster Management; a cluster that has the object keeps it unchanged. " +
					"Exclude it, or have an administrator allow it with --ocm-namespaces=open-cluster-management of the transport-controller)",
				// It is not created, so nothing is lacking for it.
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := shop()
			after := before.Clone()
			tc.change(after)
			if diff := cmp.Diff(tc.want, forecastOf(t, before, after).lines()); diff != "" {
				t.Errorf("forecast (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRemovalBlock: what would be blocked is said, and is not forecast to happen.
func TestRemovalBlock(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.policy("edge", "app=shop", "site=edge")
	w.object("Namespace/shop", "app=shop", "")
	for n := range 12 {
		w.cluster(fmt.Sprintf("c%02d", n), "site=edge")
	}
	before := w.bound()
	after := before.Clone()
	after.policy("edge", "app=shop", "site=egde")
	want := []string{"policy edge: blocked: 12 of 12 clusters"}
	if diff := cmp.Diff(want, forecastOf(t, before, after).lines()); diff != "" {
		t.Errorf("forecast (-want +got):\n%s", diff)
	}

	blocked := after.bound() // another change does not report it again, and one that changes what is blocked does
	other := blocked.Clone()
	other.object("ConfigMap/shop/free", "", "a=1")
	if diff := cmp.Diff([]string(nil), forecastOf(t, blocked, other).lines()); diff != "" {
		t.Errorf("forecast of another change (-want +got):\n%s", diff)
	}
	other.policy("edge", "app=none", "site=egde")
	if diff := cmp.Diff(want, forecastOf(t, blocked, other).lines()); diff != "" {
		t.Errorf("forecast of a change of what is blocked (-want +got):\n%s", diff)
	}

	after.policy("edge", "app=shop", "site=egde", controlv1alpha1.AnnotationRemovalBlock+"=off")
	if diff := cmp.Diff("policy edge: -12 clusters", forecastOf(t, before, after).lines()[0]); diff != "" {
		t.Errorf("forecast with the block off (-want +got):\n%s", diff)
	}
}

// TestNeeds: content is needed of what changes in a cluster, and of nothing else.
func TestNeeds(t *testing.T) {
	t.Parallel()
	before := shop()
	for ref, o := range before.Objects {
		before.Objects[ref] = &Object{Resource: o.Resource, Meta: o.Meta}
	}
	after := before.Clone()
	after.object("ConfigMap/shop/settings", "app=shop", "color=blue")
	after.cluster("c2", "site=edge,country=es")
	needs, clusters := Compare(before, after).Needs()
	settings, _ := refTo("ConfigMap/shop/settings")
	banner, _ := refTo("ConfigMap/shop/banner")
	if diff := cmp.Diff([]Need{{Ref: banner, Before: true, After: true}, {Ref: settings, Before: true}}, needs); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c1", "c2"}, clusters); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
}
