package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// TestReportsAgreesWithAPIServer: what Reports says of Kubernetes' own kinds is what an API server
// says of them.
func TestReportsAgreesWithAPIServer(t *testing.T) {
	_, _, wec := fleet(t)
	client, err := discovery.NewDiscoveryClientForConfig(wec.Config)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	withStatus := map[schema.GroupVersionKind]bool{}
	for path, gv := range paths {
		if !strings.HasPrefix(path, "api") {
			continue
		}
		text, err := gv.Schema("application/json")
		if err != nil {
			t.Fatal(err)
		}
		var document struct {
			Components struct {
				Schemas map[string]struct {
					Kinds      []schema.GroupVersionKind  `json:"x-kubernetes-group-version-kind"`
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		for _, s := range document.Components.Schemas {
			for _, kind := range s.Kinds {
				_, withStatus[kind] = s.Properties["status"]
			}
		}
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	// An Event of the core group and the like are known by their group; of our own kinds nothing is
	// delivered.
	ours := []string{"work.open-cluster-management.io", "control.kubestellar.io"}
	excluded := []string{"authentication.k8s.io", "authorization.k8s.io"} // nothing is stored
	compared := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(gv.Group, ".example.com") || slices.Contains(ours, gv.Group) || slices.Contains(excluded, gv.Group) {
			continue
		}
		for _, r := range list.APIResources {
			gr := schema.GroupResource{Group: gv.Group, Resource: r.Name}
			want, known := withStatus[gv.WithKind(r.Kind)]
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "create") || !known {
				continue
			}
			compared++
			if got := (corestatus.Excluded{}).Reports(gr); got != want {
				t.Errorf("Reports(%s) = %t; objects of the kind have a status: %t", gr, got, want)
			}
		}
	}
	if compared < 30 {
		t.Errorf("compared %d resources only", compared)
	}
}
