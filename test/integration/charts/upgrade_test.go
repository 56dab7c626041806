package charts_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/test/testenv"
)

// TestUpgrades upgrades a release from each of the values of the matrix to each of the others: no
// field is changed that the API server does not allow to change.
func TestUpgrades(t *testing.T) {
	space := hosting(t)
	for _, chart := range []string{"space", "starling"} {
		t.Run(chart, func(t *testing.T) {
			values := matrix(t, chart)
			names := sorted(values)
			h := inNamespace(t, space, testenv.Name(t))
			if _, err := h.install(t, chart, "fleet", values[names[0]], "none"); err != nil {
				t.Fatal(err)
			}
			at := names[0]
			to := func(name string) {
				if _, err := h.upgrade(t, chart, "fleet", values[name]); err != nil {
					t.Fatalf("from %s to %s: %v", at, name, err)
				}
				at = name
			}
			for i, name := range names {
				to(name) // the first time and at the last value, from the same values
				for _, other := range names[i+1:] {
					to(other)
					to(name)
				}
			}
			if _, err := h.uninstall("fleet"); err != nil {
				t.Error(err)
			}
			for _, resource := range []schema.GroupVersionResource{
				deployments, statefulSets, secrets,
				{Version: "v1", Resource: "services"},
				{Group: "batch", Version: "v1", Resource: "jobs"},
				{Group: "batch", Version: "v1", Resource: "cronjobs"},
				{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
			} {
				list, err := space.Client.Resource(resource).Namespace(h.namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, obj := range list.Items {
					t.Errorf("%s %s stays after the release was uninstalled", obj.GetKind(), obj.GetName())
				}
			}
		})
	}
}
