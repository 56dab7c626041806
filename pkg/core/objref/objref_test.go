package objref_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestString(t *testing.T) {
	cases := map[string]struct {
		ref  objref.Ref
		want string
	}{
		"Namespaced":    {objref.New(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", "nginx"), "deployments.apps web/nginx"},
		"CoreGroup":     {objref.New(schema.GroupResource{Resource: "configmaps"}, "web", "settings"), "configmaps web/settings"},
		"ClusterScoped": {objref.New(schema.GroupResource{Resource: "namespaces"}, "", "web"), "namespaces web"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.ref.String()); diff != "" {
				t.Errorf("String() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompareOrdersByGroupResourceNamespaceName(t *testing.T) {
	want := []objref.Ref{
		{Resource: "configmaps", Namespace: "a", Name: "x"},
		{Resource: "configmaps", Namespace: "b", Name: "a"},
		{Resource: "namespaces", Name: "a"},
		{Group: "apps", Resource: "deployments", Namespace: "a", Name: "a"},
		{Group: "apps", Resource: "deployments", Namespace: "a", Name: "b"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, objref.Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
}
