package forecast

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMisses: what a policy lacks that selects nothing is named, unless that is not known.
func TestMisses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *World)
		want   []string
	}{
		"Nothing":      {func(*World) {}, nil},
		"OnlyAnObject": {func(w *World) { w.object("ConfigMap/shop/settings", "app=shop", "color=blue") }, nil},
		"Matches":      {func(w *World) { w.policy("new", "app=shop", "site=edge") }, nil},
		"MisspeltCluster": {
			func(w *World) { w.policy("new", "app=shop", "sites=edge") },
			[]string{"BindingPolicy new: no cluster has the label sites; near: site"},
		},
		"MisspeltObject": {
			func(w *World) { w.policy("edge", "app=shpo", "site=edge") },
			[]string{"BindingPolicy edge: no object has the label app=shpo; near: app=shop"},
		},
		"MisspeltNamespace": {
			func(w *World) {
				w.policy("new", "app=shop", "site=edge")
				w.Policies["new"].Spec.Downsync[0].Namespaces = []string{"shops"}
			},
			[]string{"BindingPolicy new: there is no Namespace shops; near: shop"},
		},
		"ClustersUnread": {
			func(w *World) {
				w.ClustersUnread = true
				w.policy("new", "app=shop", "sites=edge")
			}, nil,
		},
		"ObjectsUnread": {
			func(w *World) {
				w.Unread[schema.GroupResource{Resource: "secrets"}] = true
				w.policy("new", "app=shpo", "site=edge")
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := shop()
			after := before.Clone()
			tc.change(after)
			if diff := cmp.Diff(tc.want, Compare(before, after).Misses()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
