package charts_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

// namespace is that of releases in a hosting cluster, system that of releases in a space.
const (
	namespace = "hub"
	system    = "starling-system"
)

// render returns what helm would install as the release "fleet" in a hosting cluster.
func render(t *testing.T, chart, values string) (string, error) {
	t.Helper()
	return renderIn(t, chart, namespace, values)
}

func renderIn(t *testing.T, chart, namespace, values string) (string, error) {
	t.Helper()
	loaded, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	client := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	client.DryRun, client.ClientOnly, client.Replace = true, true, true
	client.ReleaseName, client.Namespace = "fleet", namespace
	client.KubeVersion = &chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	release, err := client.RunWithContext(t.Context(), loaded, parseValues(t, values))
	if err != nil {
		return "", err
	}
	return release.Manifest, nil
}

// matrix returns values of a chart by their name. They are files, which the integration tests read
// too. Together, those of a chart use all of its templates.
func matrix(t *testing.T, chart string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "values", chart, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no values of chart %s: %v", chart, err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = string(text)
	}
	return out
}

func parseValues(t *testing.T, values string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// lintChart fails the test if `helm lint --strict` would fail.
func lintChart(t *testing.T, chart, namespace, values string) {
	t.Helper()
	for _, m := range lint.AllWithKubeVersion(chart, parseValues(t, values), namespace, nil).Messages {
		// An icon is for catalogs.
		if !strings.Contains(m.Err.Error(), "icon is recommended") {
			t.Errorf("helm lint: %s", m)
		}
	}
}

// decode returns the objects of a manifest. It fails the test if a field does not exist in the API,
// or if an object is there twice.
func decode(t *testing.T, text string) []runtime.Object {
	t.Helper()
	objs, err := manifest.Parse(strings.NewReader(text))
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	seen := sets.New[string]()
	var out []runtime.Object
	for _, obj := range objs {
		if id := obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName(); seen.Has(id) {
			t.Errorf("there are two %s", id)
		} else {
			seen.Insert(id)
		}
		if !scheme.Scheme.IsGroupRegistered(obj.GroupVersionKind().Group) {
			continue // not an API of Kubernetes
		}
		out = append(out, typed(t, decoder, obj))
	}
	return out
}

func typed(t *testing.T, decoder runtime.Decoder, obj *unstructured.Unstructured) runtime.Object {
	t.Helper()
	text, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		t.Errorf("%v in:\n%s", err, text)
	}
	return out
}
