package match

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// TestHandWritten: a policy that asks by labels for an object that a user wrote, of a kind that is
// never delivered, reports it. It never selects the object, and says nothing of what controllers
// made, or if it selects whatever there is.
func TestHandWritten(t *testing.T) {
	const (
		slice = "endpointslice.kubernetes.io/managed-by"
		point = "endpoints.kubernetes.io/managed-by"
	)
	labelled := objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "db")}}
	for name, tc := range map[string]struct {
		gr   schema.GroupResource
		test objectTest
		meta metav1.ObjectMeta
		want bool
	}{
		"Slice":            {endpointSlices, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db"}, true},
		"SliceByName":      {endpointSlices, objectTest{ObjectNames: []string{"db"}}, metav1.ObjectMeta{Namespace: "shop", Name: "db"}, true},
		"SliceByAnything":  {endpointSlices, objectTest{ObjectNames: []string{"*"}}, metav1.ObjectMeta{Namespace: "shop", Name: "db"}, false},
		"SliceOfAnOther":   {endpointSlices, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{slice: "staff"}}, true},
		"GeneratedSlice":   {endpointSlices, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{slice: "endpointslice-controller.k8s.io"}}, false},
		"MirroredSlice":    {endpointSlices, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{slice: "endpointslicemirroring-controller.k8s.io"}}, false},
		"SliceOfTheServer": {endpointSlices, labelled, metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, false},
		"InKubeSystem":     {endpointSlices, labelled, metav1.ObjectMeta{Namespace: "kube-system", Name: "db"}, false},
		"Endpoints":        {endpoints, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db"}, true},
		"GeneratedPoints":  {endpoints, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{point: "endpoint-controller"}}, false},
		"OlderPoints": {
			endpoints, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "x"}}, false,
		},
		"APIService":     {apiServices, labelled, metav1.ObjectMeta{Name: "v1beta1.metrics.k8s.io"}, true},
		"MadeAPIService": {apiServices, labelled, metav1.ObjectMeta{Name: "v1.apps", Labels: map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}}, false},
		"OurAPIService":  {apiServices, labelled, metav1.ObjectMeta{Name: "v1alpha1.porch.kpt.dev", Labels: map[string]string{"app.kubernetes.io/part-of": "starling"}}, false},
		"Lease":          {schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, labelled, metav1.ObjectMeta{Namespace: "shop", Name: "db"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			index := NewIndex(Options{})
			index.SetPolicy("p", mustCompile(t, downsync(tc.test)))
			if tc.meta.Labels == nil {
				tc.meta.Labels = map[string]string{}
			}
			tc.meta.Labels["app"] = "db"
			in := Resource{GroupVersionResource: tc.gr.WithVersion("v1")}
			index.SetObject(in, &tc.meta)
			if snapshot, _, _ := index.Snapshot("p", Listed{}); len(snapshot.Matches) > 0 {
				t.Errorf("it is selected: %v", snapshot.Matches)
			}
			if got := index.Withheld("p"); (len(got) > 0) != tc.want {
				t.Errorf("the policy says %q, want something: %t", got, tc.want)
			}
			if changes := index.DeleteObject(objref.New(tc.gr, tc.meta.Namespace, tc.meta.Name)); (changes.Policies["p"] != 0) != tc.want {
				t.Errorf("its end changes the policy: %v", changes.Policies)
			}
			if got := index.Withheld("p"); len(got) > 0 {
				t.Errorf("the policy says %q of an object that is gone", got)
			}
		})
	}
}
