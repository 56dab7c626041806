package charts_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/test/testenv"
)

// warnings are those of an API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// TestDryRun: an API server accepts every object of every chart, for all values of the matrix. It
// has no unknown field, and no warning.
func TestDryRun(t *testing.T) {
	space := hosting(t)
	for _, namespace := range []string{system, "customization-properties"} { // a dry run creates none
		space.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	}
	for _, chart := range []string{"space", "starling", "wds", "its"} {
		values := matrix(t, chart)
		for _, name := range sorted(values) {
			t.Run(chart+"-"+name, func(t *testing.T) {
				namespace := system
				if chart == "space" || chart == "starling" {
					namespace = testenv.Name(t)
				}
				h := inNamespace(t, space, namespace)
				r, err := h.install(t, chart, "fleet", values[name], "server")
				if err != nil {
					t.Fatal(err)
				}
				dryRun(t, space, h, r)
			})
		}
	}
}

// dryRun applies the objects of a release without an effect.
func dryRun(t *testing.T, space *testenv.Space, h *helm, r *release.Release) {
	t.Helper()
	// Helm reads them as it does at an installation.
	infos, err := h.config.KubeClient.Build(strings.NewReader(r.Manifest), false)
	if err != nil {
		t.Fatal(err)
	}
	var got warnings
	config := rest.CopyConfig(space.Config)
	config.WarningHandlerWithContext = &got
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	options := metav1.PatchOptions{
		FieldManager: "helm", Force: new(true), DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	}
	for _, info := range infos {
		data, err := json.Marshal(info.Object)
		if err != nil {
			t.Fatal(err)
		}
		objects := client.Resource(info.Mapping.Resource).Namespace(info.Namespace)
		if _, err := objects.Patch(t.Context(), info.Name, types.ApplyPatchType, data, options); err != nil {
			t.Errorf("%s: %v", info.ObjectName(), err)
		}
	}
	for _, text := range got.texts {
		t.Errorf("warning: %s", text)
	}
}
