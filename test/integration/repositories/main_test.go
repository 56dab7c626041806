// Package repositories tests against a real API server where packages lie: the API, and how revisions come and go.
package repositories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}}) }

// environment is a space with our APIs, and a namespace of the test's own in it.
type environment struct {
	config *rest.Config
	// controllers is config with the rights that the controllers have, and no more.
	controllers *rest.Config
	client      dynamic.Interface
	namespace   string
}

func newEnvironment(t testing.TB) *environment {
	t.Helper()
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for _, pattern := range []string{"config.porch.kpt.dev_*.yaml", "store.starling.io_*.yaml", "control.kubestellar.io_*.yaml"} {
		files, err := filepath.Glob("../../../config/crd/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal("no CRDs ", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			crd := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, &crd.Object); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Resource(crds).Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = clusters.WaitForResources(t.Context(), &clusters.Space{Name: "wds1", Config: config}, configv1alpha1.Repositories, storev1alpha1.ContentChunks,
		storev1alpha1.PackageRevisions)
	if err != nil {
		t.Fatal(err)
	}
	e := &environment{config: config, controllers: rest.CopyConfig(config), client: client}
	e.controllers.Impersonate.UserName = "system:serviceaccount:starling-system:binding-controller"
	for _, file := range []string{"binding-controller.yaml", "validatingadmissionpolicy.yaml"} {
		e.grant(t, "../../../config/rbac/wds/"+file)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "test-"}}}
	namespace, err = client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.namespace = namespace.GetName()
	return e
}

// grant applies what a file has of cluster-wide rights and of what bounds them.
func (e *environment) grant(t testing.TB, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string]schema.GroupVersionResource{
		"ClusterRole":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		"ClusterRoleBinding":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	}
	granted := 0
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		resource, ok := resources[obj.GetKind()]
		if !ok {
			continue
		}
		granted++
		if _, err := e.client.Resource(resource).Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if granted == 0 {
		t.Fatal("no rights in ", file)
	}
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
