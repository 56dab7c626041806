package binding

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/status"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/test/testenv"
)

var services = schema.GroupVersionResource{Version: "v1", Resource: "services"}

// reported is what clusters report of every object.
type reported struct {
	mu     sync.Mutex
	status map[string]any
}

// Get implements status.Reports.
func (r *reported) Get(objref.Ref, types.UID, string) (*statusreports.Report, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == nil {
		return nil, true
	}
	return &statusreports.Report{Report: corestatus.Report{Status: r.status}}, true
}

// startReturning runs the controller that returns status beside the others.
func (e *environment) startReturning(reports status.Reports) (c *controller, report func(statusreports.Key)) {
	e.t.Helper()
	var returning *status.Controller
	c = e.startWith(func(c *controller) (binding.Observers, func(context.Context) error) {
		objects, err := dynamic.NewForConfig(e.connect("wds1"))
		if err != nil {
			e.t.Fatal(err)
		}
		returning, err = status.New(status.Config{
			Reports: reports, Requests: c.Index, Objects: c.Objects, Client: objects, Writer: c.Writer, Versions: c.Running,
			StatusErrors: c.Running, Clock: clock.RealClock{},
		})
		if err != nil {
			e.t.Fatal(err)
		}
		return binding.Observers{Index: []binding.Observer{returning}, Objects: []dynamicinformer.Handler{returning}},
			func(ctx context.Context) error { return returning.Run(ctx, 2) }
	})
	return c, returning.OnReport
}

// TestReturnedStatusIsNoEdit: the API server counts no generations of a Service, so a returned
// status changes nothing by which an edit is recognized. The Binding is not written for it, neither
// then nor after a restart. It follows an edit.
func TestReturnedStatusIsNoEdit(t *testing.T) {
	e := newEnvironment(t)
	e.cluster(e.name, map[string]string{"test": e.name})
	service := object(e.name, "web", nil)
	service.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	e.create(services, service)
	reports := &reported{}
	c, report := e.startReturning(reports)
	policy := e.policy("p", fmt.Sprintf(
		`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q],"resources":["services"],"wantSingletonReportedState":true}]}`, e.name, e.name))
	e.eventuallyBound(policy, "services web singleton", "-> "+e.name)
	e.eventuallyCondition(policy, ready, "False NotDelivered")
	before := e.getBinding(policy)

	live := func() *unstructured.Unstructured {
		t.Helper()
		o, err := e.wds.Resource(services).Namespace(e.name).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	returnStatus := func(message string) {
		t.Helper()
		condition := map[string]any{
			"type": "Ready", "status": "True", "reason": "Test", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
		}
		reports.mu.Lock()
		reports.status = map[string]any{"conditions": []any{condition}}
		reports.mu.Unlock()
		report(statusreports.Key{Ref: objref.New(services.GroupResource(), e.name, "web"), Cluster: e.name})
		testenv.Eventually(t, patience, func() (bool, string) {
			conditions, _, _ := unstructured.NestedSlice(live().Object, "status", "conditions")
			if len(conditions) != 1 {
				return false, fmt.Sprintf("conditions %v", conditions)
			}
			got, _ := conditions[0].(map[string]any)
			return got["message"] == message, fmt.Sprintf("conditions %v", conditions)
		})
	}
	unwritten := func() {
		t.Helper()
		testenv.Never(t, testenv.Held, func() string {
			if after := e.getBinding(policy); after.ResourceVersion != before.ResourceVersion {
				return fmt.Sprintf("the Binding was written: %+v, was %+v", after.Spec.Workload.NamespaceScope, before.Spec.Workload.NamespaceScope)
			}
			return ""
		})
	}
	for i := range 5 {
		returnStatus(fmt.Sprint(i))
	}
	unwritten()

	c.stop()
	c, report = e.startReturning(reports)
	e.expectNoWrites(c)
	returnStatus("after the restart")
	unwritten()

	e.patch(services, e.name, "web", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		got, want := e.getBinding(policy).Spec.Workload.NamespaceScope[0].ResourceVersion, live().GetResourceVersion()
		return got == want, fmt.Sprintf("version %s in the Binding, want %s", got, want)
	})
}
