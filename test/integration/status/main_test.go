// Package status tests against real API servers how status comes back: the add-on's manager and agent, the controller that
// returns status to the WDS, and the admission policy that bounds it.
//
// There is no OCM here: the tests write what its agents would. Ours run under the identities and with the rights that they
// have in production.
package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{WECs: 1}) }

const (
	// patience is far more than anything takes that is waited for, on any machine.
	patience = 2 * time.Minute

	wdsName, itsName, wecName = "wds1", "its1", "cluster1"
)

var (
	workStatuses  = schema.GroupVersionResource{Group: "control.kubestellar.io", Version: "v1alpha1", Resource: "workstatuses"}
	manifestWorks = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
	appliedWorks  = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "appliedmanifestworks"}
	clusters      = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
	addons        = schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1alpha1", Resource: "managedclusteraddons"}
	roleBindings  = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps    = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services      = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deployments   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets       = schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "widgets"}
	gadgets       = schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "gadgets"}
	pickies       = schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "pickies"}
	things        = schema.GroupVersionResource{Group: "ungranted.example.com", Version: "v1", Resource: "things"}
	jobs          = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	crds          = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// space is one of the fleet's spaces, as an administrator sees it.
type space struct {
	config *rest.Config
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// setup is what the tests share: the fleet's spaces, with all APIs and rights that they need.
var setup struct {
	sync.Mutex
	spaces map[string]*space
}

// fleet returns the spaces by name.
func fleet(t *testing.T) (wds, its, wec *space) {
	t.Helper()
	running := testenv.Shared(t)
	setup.Lock()
	defer setup.Unlock()
	if setup.spaces == nil {
		all := map[string]*space{}
		for _, name := range []string{wdsName, itsName, wecName} {
			all[name] = newSpace(t, running.Config(t, name))
		}
		const root = "../../../"
		all[itsName].applyYAML(t, namespaceYAML("starling-system"))
		all[wdsName].applyYAML(t, namespaceYAML("starling-system"))
		all[itsName].applyFiles(t, root+"config/crd/control.kubestellar.io_workstatuses.yaml",
			testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"),
			testenv.ManagedClusterCRD(t),
			testenv.OCM(t, "addon/v1alpha1/0000_00_addon.open-cluster-management.io_clustermanagementaddons.crd.yaml"),
			testenv.OCM(t, "addon/v1alpha1/0000_01_addon.open-cluster-management.io_managedclusteraddons.crd.yaml"),
			root+"config/rbac/its/status-agent.yaml", root+"config/rbac/its/binding-controller.yaml")
		all[wecName].applyFiles(t, testenv.OCM(t, "work/v1/0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml"))
		all[wdsName].applyFiles(t, root+"config/rbac/wds/binding-controller.yaml", root+"config/rbac/wds/validatingadmissionpolicy.yaml",
			"testdata/grant.yaml")
		for _, s := range []*space{all[wdsName], all[wecName]} {
			s.applyFiles(t, "testdata/crds.yaml")
		}
		setup.spaces = all
	}
	return setup.spaces[wdsName], setup.spaces[itsName], setup.spaces[wecName]
}

func newSpace(t *testing.T, config *rest.Config) *space {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &space{
		config: config, client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient)),
	}
}

func namespaceYAML(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

func (s *space) applyFiles(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s.applyYAML(t, string(text))
	}
}

// applyYAML applies objects, and waits until the APIs that they define are served.
func (s *space) applyYAML(t *testing.T, text string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if len(obj.Object) > 0 {
			s.apply(t, obj)
		}
	}
}

func (s *space) apply(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	var result *unstructured.Unstructured
	testenv.Eventually(t, patience, func() (bool, string) {
		mapping, err := s.mapper.RESTMapping(obj.GroupVersionKind().GroupKind(), obj.GroupVersionKind().Version)
		if err != nil {
			s.mapper.Reset()
			return false, err.Error()
		}
		objects := dynamic.ResourceInterface(s.client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			objects = s.client.Resource(mapping.Resource).Namespace(obj.GetNamespace())
		}
		result, err = objects.Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			return false, err.Error()
		}
		if obj.GetKind() == "CustomResourceDefinition" {
			return s.established(t, obj)
		}
		return true, ""
	})
	return result
}

func (s *space) established(t *testing.T, crd *unstructured.Unstructured) (bool, string) {
	t.Helper()
	current, err := s.client.Resource(crds).Get(t.Context(), crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(current.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
			return true, ""
		}
	}
	return false, crd.GetName() + " is not established"
}

// namespace creates a namespace of that name.
func (s *space) namespace(t *testing.T, name string) {
	t.Helper()
	s.applyYAML(t, namespaceYAML(name))
}

func (s *space) create(t *testing.T, gvr schema.GroupVersionResource, obj map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: obj}
	created, err := s.client.Resource(gvr).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// get returns nil for what is not there.
func (s *space) get(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := s.client.Resource(gvr).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (s *space) patch(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, patch map[string]any, subresources ...string) *unstructured.Unstructured {
	t.Helper()
	body, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := s.client.Resource(gvr).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (s *space) setStatus(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, status map[string]any) {
	t.Helper()
	s.patch(t, gvr, namespace, name, map[string]any{"status": status}, "status")
}

func (s *space) delete(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	if err := s.client.Resource(gvr).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// as returns a config of somebody else.
func (s *space) as(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

func serviceAccount(namespace, name string) (string, string) {
	return "system:serviceaccount:" + namespace + ":" + name, "system:serviceaccounts"
}

// traffic counts the writes that go through a config, and their targets.
type traffic struct {
	mu     sync.Mutex
	writes []string
	reads  atomic.Int64
}

func (c *traffic) count(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.Method == http.MethodGet:
				c.reads.Add(1)
			case strings.Contains(r.URL.Path, "/leases"), strings.Contains(r.URL.RawQuery, "dryRun"):
			default:
				c.mu.Lock()
				c.writes = append(c.writes, r.Method+" "+r.URL.Path)
				c.mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

func (c *traffic) written() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.writes...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// run runs something in the background until the test ends, or until what it returns is called; then it waits.
func run(t *testing.T, do func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("ended with: %v", err)
			}
		case <-time.After(patience):
			t.Error("does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// held is longer than any write is held back: what has not happened by then does not happen.
const held = 1500 * time.Millisecond

// idle waits until nothing has been written for so long that nothing is on its way any more.
func (c *traffic) idle(t *testing.T) {
	t.Helper()
	last, since := c.written(), time.Now()
	testenv.Eventually(t, patience, func() (bool, string) {
		if now := c.written(); len(now) != len(last) {
			last, since = now, time.Now()
		}
		return time.Since(since) >= held, "still writing"
	})
}

// nothing makes sure that nothing is written from now on, but for what was written before.
func (c *traffic) nothing(t *testing.T, what string, before int) {
	t.Helper()
	testenv.Never(t, held, func() string {
		if writes := c.written()[before:]; len(writes) > 0 {
			return fmt.Sprintf("%s: %v", what, writes)
		}
		return ""
	})
}

func asJSON(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprint(err)
	}
	return strings.TrimSpace(b.String())
}
