package dynamicinformer

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func resource(group, version, plural, kind string) Resource {
	return Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
		Kind:                 kind, Namespaced: true,
	}
}

func byGroupResource(resources ...Resource) map[schema.GroupResource]Resource {
	m := map[schema.GroupResource]Resource{}
	for _, r := range resources {
		m[r.GroupResource()] = r
	}
	return m
}

func group(name string, versions ...string) metav1.APIGroup {
	g := metav1.APIGroup{Name: name}
	for _, v := range versions {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: schema.GroupVersion{Group: name, Version: v}.String(), Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

func watched(plural, kind string) metav1.APIResource {
	return metav1.APIResource{Name: plural, Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}}
}

func TestMerge(t *testing.T) {
	autoscalingV1 := schema.GroupVersion{Group: "autoscaling", Version: "v1"}
	autoscalingV2 := schema.GroupVersion{Group: "autoscaling", Version: "v2"}
	hpaV1 := resource("autoscaling", "v1", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
	hpaV2 := resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
	both := map[schema.GroupVersion]*metav1.APIResourceList{
		autoscalingV1: {APIResources: []metav1.APIResource{watched("horizontalpodautoscalers", "HorizontalPodAutoscaler")}},
		autoscalingV2: {APIResources: []metav1.APIResource{watched("horizontalpodautoscalers", "HorizontalPodAutoscaler")}},
	}
	cases := map[string]struct {
		reason       string
		known        map[schema.GroupResource]Resource
		servedBefore map[schema.GroupResource]struct{}
		groups       []metav1.APIGroup
		byVersion    map[schema.GroupVersion]*metav1.APIResourceList
		failed       map[schema.GroupVersion]error
		want         map[schema.GroupResource]Resource
		wantServed   []schema.GroupResource
	}{
		"PreferredVersion": {
			reason:     "a resource served in two versions is watched in the one that the server prefers",
			groups:     []metav1.APIGroup{group("autoscaling", "v2", "v1")},
			byVersion:  both,
			want:       byGroupResource(hpaV2),
			wantServed: []schema.GroupResource{hpaV2.GroupResource()},
		},
		"KnownVersionStays": {
			reason:     "a change of preference alone restarts no watch",
			known:      byGroupResource(hpaV1),
			groups:     []metav1.APIGroup{group("autoscaling", "v2", "v1")},
			byVersion:  both,
			want:       byGroupResource(hpaV1),
			wantServed: []schema.GroupResource{hpaV1.GroupResource()},
		},
		"FailedGroupKeepsItsResources": {
			reason:       "what cannot be read stays",
			known:        byGroupResource(hpaV2),
			servedBefore: map[schema.GroupResource]struct{}{hpaV2.GroupResource(): {}},
			groups:       []metav1.APIGroup{group("autoscaling", "v2")},
			failed:       map[schema.GroupVersion]error{autoscalingV2: errors.New("stale")},
			want:         byGroupResource(hpaV2),
			wantServed:   []schema.GroupResource{hpaV2.GroupResource()},
		},
		"AbsentGroupGoes": {
			reason:    "a group that the server lists no more is positively gone, whatever else fails",
			known:     byGroupResource(hpaV2),
			groups:    []metav1.APIGroup{group("metrics.example.com", "v1")},
			failed:    map[schema.GroupVersion]error{{Group: "metrics.example.com", Version: "v1"}: errors.New("down")},
			want:      map[schema.GroupResource]Resource{},
			byVersion: nil,
		},
		"NotWatchable": {
			reason: "what can only be created is served but not watched",
			groups: []metav1.APIGroup{group("authorization.k8s.io", "v1")},
			byVersion: map[schema.GroupVersion]*metav1.APIResourceList{
				{Group: "authorization.k8s.io", Version: "v1"}: {APIResources: []metav1.APIResource{
					{Name: "subjectaccessreviews", Kind: "SubjectAccessReview", Verbs: metav1.Verbs{"create"}},
				}},
			},
			want:       map[schema.GroupResource]Resource{},
			wantServed: []schema.GroupResource{{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, served := merge(tc.known, &metav1.APIGroupList{Groups: tc.groups}, tc.byVersion, tc.failed, tc.servedBefore)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: merge (-want +got):\n%s", tc.reason, diff)
			}
			wantServed := map[schema.GroupResource]struct{}{}
			for _, gr := range tc.wantServed {
				wantServed[gr] = struct{}{}
			}
			if diff := cmp.Diff(wantServed, served); diff != "" {
				t.Errorf("%s: served (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWatchable(t *testing.T) {
	crd := func(established apiextensionsv1.ConditionStatus, versions ...apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group:    "example.com",
				Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
				Scope:    apiextensionsv1.NamespaceScoped,
				Versions: versions,
			},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{
				Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: established}},
			},
		}
	}
	version := func(name string, served, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: served, Storage: storage}
	}
	cases := map[string]struct {
		crd    *apiextensionsv1.CustomResourceDefinition
		known  Resource
		want   Resource
		wantOK bool
	}{
		"NotEstablished": {crd: crd(apiextensionsv1.ConditionFalse, version("v1", true, true))},
		"NothingServed":  {crd: crd(apiextensionsv1.ConditionTrue, version("v1", false, true))},
		"StoredVersionFirst": {
			crd:  crd(apiextensionsv1.ConditionTrue, version("v1alpha1", true, false), version("v1", true, true), version("v2", true, false)),
			want: resource("example.com", "v1", "widgets", "Widget"), wantOK: true,
		},
		"StoredVersionMoves": {
			crd:   crd(apiextensionsv1.ConditionTrue, version("v1alpha1", true, false), version("v1", true, true)),
			known: resource("example.com", "v1alpha1", "widgets", "Widget"),
			want:  resource("example.com", "v1", "widgets", "Widget"), wantOK: true,
		},
		"KnownVersionStays": {
			crd:   crd(apiextensionsv1.ConditionTrue, version("v1beta1", true, false), version("v1alpha1", true, false), version("v1", false, true)),
			known: resource("example.com", "v1alpha1", "widgets", "Widget"),
			want:  resource("example.com", "v1alpha1", "widgets", "Widget"), wantOK: true,
		},
		"KnownVersionNoLongerServed": {
			crd:   crd(apiextensionsv1.ConditionTrue, version("v1alpha1", false, false), version("v1", true, true)),
			known: resource("example.com", "v1alpha1", "widgets", "Widget"),
			want:  resource("example.com", "v1", "widgets", "Widget"), wantOK: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.known.TracksContent, tc.want.TracksContent = true, true // as those of all custom resources
			got, ok := watchable(tc.crd, tc.known)
			if ok != tc.wantOK {
				t.Fatalf("watchable: got ok %t, want %t", ok, tc.wantOK)
			}
			if diff := cmp.Diff(tc.want, got); ok && diff != "" {
				t.Errorf("watchable (-want +got):\n%s", diff)
			}
		})
	}
}

// TestObeyed: an APIService of another server that the API server takes for its own has no effect.
func TestObeyed(t *testing.T) {
	apiService := func(name string, service any, reason string) any {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"service": service},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "reason": reason}}},
		}}
		var kept any = obj
		for range 2 { // as an informer does
			var err error
			if kept, err = keepAPIService(kept); err != nil {
				t.Fatal(err)
			}
		}
		return kept
	}
	other := map[string]any{"namespace": "monitoring", "name": "adapter"}
	got := obeyed([]any{apiService("v1.apps", nil, "Local"), apiService("v1.a", other, "ServiceNotFound"), apiService("v1.b", other, "Local")})
	if diff := cmp.Diff([]string{"v1.apps", "v1.a"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
