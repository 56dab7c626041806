// Package charts_test installs and upgrades the charts of a hosting cluster with Helm, with a real
// API server. No pod runs: it checks what the API server accepts, and what the charts refuse.
package charts_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/test/testenv"
)

const (
	root = "../../../charts"
	// host is a space that plays the hosting cluster. It is no WDS, where ServiceAccounts have no
	// rights.
	host   = "its2"
	system = "starling-system"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"its1", host}})
}

// Resources that tests read.
var (
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}

	storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
	controlPlanes  = schema.GroupVersionResource{Group: "tenancy.kflex.kubestellar.org", Version: "v1alpha1", Resource: "controlplanes"}
)

// hosting returns the hosting cluster with the APIs of others that the charts use, and a default
// StorageClass.
func hosting(t *testing.T) *testenv.Space {
	t.Helper()
	space := testenv.Shared(t).Space(t, host)
	space.Install(t, "testdata/crds.yaml")
	space.Apply(t, storageClass)
	for name, kind := range map[string]string{"its2": "its", "wds1": "wds"} { // those of the matrix
		space.Apply(t, plane(name, "of-the-matrix-"+kind))
		if space.Get(t, secrets, name+"-system", "admin-kubeconfig") == nil {
			ready(t, space, name, "its1")
		}
	}
	return space
}

const storageClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/disks
`

// helm is Helm in one namespace.
type helm struct {
	namespace string
	config    *action.Configuration
}

// inNamespace returns Helm in a namespace, which it creates.
func inNamespace(t *testing.T, space *testenv.Space, namespace string) *helm {
	t.Helper()
	space.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	return connect(t, host, namespace)
}

// connect returns Helm in a namespace of a space.
func connect(t *testing.T, cluster, namespace string) *helm {
	t.Helper()
	kubeconfig := testenv.Shared(t).Kubeconfig()
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Context, flags.Namespace = &kubeconfig, &cluster, &namespace
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.QPS = -1 // no limit
		return c
	}
	config := &action.Configuration{}
	if err := config.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	return &helm{namespace: namespace, config: config}
}

// install runs `helm install`, which may be a dry run: "server" or "none".
func (h *helm) install(t *testing.T, chart, name, values, dryRun string) (*release.Release, error) {
	t.Helper()
	loaded, err := loader.Load(filepath.Join(root, chart))
	if err != nil {
		t.Fatal(err)
	}
	in := action.NewInstall(h.config)
	in.ReleaseName, in.Namespace, in.DryRunOption, in.DryRun = name, h.namespace, dryRun, dryRun != "none"
	in.TakeOwnership = h.namespace == system // as "starling space install" does
	in.DisableOpenAPIValidation = true       // see package pkg/install/chart
	return in.RunWithContext(t.Context(), loaded, parse(t, values))
}

// upgrade runs `helm upgrade --reset-values`.
func (h *helm) upgrade(t *testing.T, chart, name, values string) (*release.Release, error) {
	t.Helper()
	loaded, err := loader.Load(filepath.Join(root, chart))
	if err != nil {
		t.Fatal(err)
	}
	up := action.NewUpgrade(h.config)
	up.Namespace, up.ResetValues, up.MaxHistory = h.namespace, true, 2
	up.DisableOpenAPIValidation = true // see package pkg/install/chart
	return up.RunWithContext(t.Context(), name, loaded, parse(t, values))
}

// uninstall runs `helm uninstall`.
func (h *helm) uninstall(name string) (*release.UninstallReleaseResponse, error) {
	return action.NewUninstall(h.config).Run(name)
}

func parse(t *testing.T, values string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// matrix returns the values with which a chart is tested, by their name.
func matrix(t *testing.T, chart string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "testdata", "values", chart, "*.yaml"))
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

func sorted(values map[string]string) []string { return slices.Sorted(maps.Keys(values)) }
