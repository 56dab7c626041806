// Package repositories tests Repositories against a real API server: their API, and the import and
// export of revisions.
package repositories

import (
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}, Parallel: 6}) }

// environment is a space with our APIs, and a namespace of the test's own in it.
type environment struct {
	config *rest.Config
	// controllers is config with the rights that the controllers have, and no more. They see only
	// the namespace of the test, and traffic has their requests.
	controllers *rest.Config
	traffic     *testenv.Traffic
	client      dynamic.Interface
	namespace   string
}

var installed sync.Once

func newEnvironment(t testing.TB) *environment {
	t.Helper()
	space := testenv.Shared(t).Space(t, "wds1")
	installed.Do(func() {
		space.Install(t, testenv.APIs(t, "config.porch.kpt.dev_", "store.starling.io_", "control.kubestellar.io_")...)
		space.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: starling-system}}")
		space.Install(t, "../../../config/rbac/wds/binding-controller.yaml", "../../../config/rbac/wds/validatingadmissionpolicy.yaml",
			"../../../config/rbac/wds/repository-secrets.yaml")
	})
	client := space.Client
	e := &environment{config: space.Config, traffic: &testenv.Traffic{}, client: client}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "test-"}}}
	namespace, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.namespace = namespace.GetName()
	e.controllers = testenv.InNamespace(e.traffic.Count(space.AsServiceAccount("starling-system", "binding-controller")), e.namespace,
		"repositories", "packagerevisions", "packagevariants", "packagevariantsets", "secrets")
	return e
}

func (e *environment) repositories() dynamic.ResourceInterface {
	return e.client.Resource(configv1alpha1.Repositories).Namespace(e.namespace)
}

// parse reads a Repository whose spec is given as YAML.
func parse(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	text := fmt.Sprintf("{apiVersion: %s, kind: Repository, metadata: {name: %q}, spec: %s}", configv1alpha1.GroupVersion, name, spec)
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}
