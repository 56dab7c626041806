package workagent

import (
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/ocm/pkg/work/spoke/conditions"                   //nolint:depguard // the test asks OCM's agent itself
	"open-cluster-management.io/ocm/pkg/work/spoke/controllers/statuscontroller" //nolint:depguard // the test asks OCM's agent itself
	"open-cluster-management.io/ocm/pkg/work/spoke/objectreader"                 //nolint:depguard // the test asks OCM's agent itself
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"

	"github.com/starlinghq/starling/test/testenv"
)

// site is a cluster with OCM's agent, and its mailbox.
type site struct {
	t       *testing.T
	name    string
	agent   *realAgent
	works   workv1client.ManifestWorkInterface
	objects dynamic.Interface
	// reads is the agent's controller that reads what is in the cluster.
	reads factory.Controller
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, name: testenv.Name(t)}
	s.agent = newAgent(t, s.name, "")
	s.works = s.agent.hub.WorkV1().ManifestWorks(s.name)
	var err error
	s.objects, err = dynamic.NewForConfig(testenv.Shared(t).Config(t, "wds1"))
	s.must(err)
	reader, err := objectreader.NewOptions().NewObjectReader(s.objects, s.agent.works)
	s.must(err)
	rules, err := conditions.NewConditionReader()
	s.must(err)
	s.reads = statuscontroller.NewAvailableStatusController(s.works, s.agent.works, s.agent.works.Lister().ManifestWorks(s.name), rules, reader, 1024, 0)
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// work returns a work of the mailbox.
func (s *site) work(name string) *workv1.ManifestWork {
	s.t.Helper()
	work, err := s.works.Get(s.t.Context(), name, metav1.GetOptions{})
	s.must(err)
	return work
}

// see shows the agent a work as it is.
func (s *site) see(name string) {
	s.t.Helper()
	s.must(s.agent.works.Informer().GetStore().Add(s.work(name)))
}

// turn lets the agent apply a work and report on it, as far as it can.
func (s *site) turn(name string) {
	s.t.Helper()
	s.see(name)
	_ = s.agent.Sync(s.t.Context(), s.agent.SyncContext(), name) // what it could not apply it has reported
	account, err := s.agent.wec.WorkV1().AppliedManifestWorks().Get(s.t.Context(), "hub-"+s.name+"-"+name, metav1.GetOptions{})
	s.must(err)
	s.must(s.agent.accounts.Informer().GetStore().Add(account))
	s.see(name)
	s.must(s.reads.Sync(s.t.Context(), s.reads.SyncContext(), name))
}

// get returns an object of the cluster, nil if there is none.
func (s *site) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	s.t.Helper()
	o, err := s.objects.Resource(resource).Namespace(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return o
}

// patch changes an object of the cluster as a manager of its own.
func (s *site) patch(resource schema.GroupVersionResource, name string, patch any, subresources ...string) {
	s.t.Helper()
	raw, err := json.Marshal(patch)
	s.must(err)
	_, err = s.objects.Resource(resource).Namespace(s.name).Patch(s.t.Context(), name, types.MergePatchType, raw,
		metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	s.must(err)
}

// field returns a field of an object of the cluster as text, "" if it has none.
func (s *site) field(resource schema.GroupVersionResource, name string, path ...string) string {
	s.t.Helper()
	o := s.get(resource, name)
	if o == nil {
		return "no object"
	}
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(value)
}
