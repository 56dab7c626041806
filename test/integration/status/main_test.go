// Package status tests against real API servers how status comes back: the add-on's manager and
// agent, the controller that returns status to the WDS, and the admission policy that bounds it.
//
// There is no OCM here: the tests write what its agents would. Ours run under the identities and
// with the rights that they have in production.
package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{WECs: 1}) }

const (
	patience = testenv.Patience

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
type space struct{ *testenv.Space }

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
			all[name] = &space{running.Space(t, name)}
		}
		const root = "../../../"
		all[itsName].Apply(t, namespaceYAML("starling-system"))
		all[wdsName].Apply(t, namespaceYAML("starling-system"))
		all[itsName].Install(t, root+"config/crd/control.kubestellar.io_workstatuses.yaml",
			testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"),
			testenv.ManagedClusterCRD(t),
			testenv.OCM(t, "addon/v1alpha1/0000_00_addon.open-cluster-management.io_clustermanagementaddons.crd.yaml"),
			testenv.OCM(t, "addon/v1alpha1/0000_01_addon.open-cluster-management.io_managedclusteraddons.crd.yaml"),
			testenv.OCM(t, "addon/v1alpha1/0000_02_addon.open-cluster-management.io_addondeploymentconfigs.crd.yaml"),
			root+"config/rbac/its/status-agent.yaml", root+"config/rbac/its/binding-controller.yaml")
		all[wecName].Install(t, testenv.OCM(t, "work/v1/0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml"))
		all[wdsName].Install(t, root+"config/rbac/wds/binding-controller.yaml", root+"config/rbac/wds/validatingadmissionpolicy.yaml",
			"testdata/grant.yaml")
		for _, s := range []*space{all[wdsName], all[wecName]} {
			s.Install(t, "testdata/crds.yaml")
		}
		all[wecName].Apply(t, namespaceYAML(agentHome))
		all[wecName].Install(t, "testdata/kinds.yaml")
		setup.spaces = all
	}
	return setup.spaces[wdsName], setup.spaces[itsName], setup.spaces[wecName]
}

func namespaceYAML(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + "}\n"
}

// namespace creates a namespace of that name.
func (s *space) namespace(t *testing.T, name string) {
	t.Helper()
	s.Apply(t, namespaceYAML(name))
}

func (s *space) create(t *testing.T, gvr schema.GroupVersionResource, obj map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: obj}
	created, err := s.Client.Resource(gvr).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (s *space) patch(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, patch map[string]any, subresources ...string) *unstructured.Unstructured {
	t.Helper()
	body, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := s.Client.Resource(gvr).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (s *space) setStatus(t *testing.T, gvr schema.GroupVersionResource, namespace, name string, status map[string]any) {
	t.Helper()
	s.patch(t, gvr, namespace, name, map[string]any{"status": status}, "status")
}

func serviceAccount(namespace, name string) (string, string) {
	return "system:serviceaccount:" + namespace + ":" + name, "system:serviceaccounts"
}

func asJSON(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	if err := encoder.Encode(v); err != nil {
		return fmt.Sprint(err)
	}
	return strings.TrimSpace(b.String())
}
