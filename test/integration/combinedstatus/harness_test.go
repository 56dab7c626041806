// Package combinedstatus tests against real API servers how what clusters report becomes
// CombinedStatuses. There are no agents and no transport: the tests write what agents would. The
// controllers run in the test process, under the identity and with the rights that they have in
// production.
package combinedstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/combinedstatus"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/settings"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

const patience = testenv.Patience

var (
	policies   = controlv1alpha1.BindingPolicies
	collectors = controlv1alpha1.StatusCollectors
	combineds  = controlv1alpha1.CombinedStatuses
	works      = controlv1alpha1.WorkStatuses
	managed    = clusters.ManagedClusters
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deploys    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	roles      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
)

// environment is what a test works with: both spaces as an administrator sees them.
type environment struct {
	t        *testing.T
	fleet    *testenv.Fleet
	wds, its *testenv.Space
	// name is the test's own: of its namespace, its policies, its StatusCollectors and of a label
	// on its clusters, and the UID that its WorkStatuses say that the WDS has.
	name string
}

var installed sync.Once

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{t: t, fleet: fleet, name: testenv.Name(t)}
	e.wds, e.its = fleet.Space(t, "wds1"), fleet.Space(t, "its1")
	installed.Do(func() {
		e.wds.Install(t, testenv.APIs(t, "control.kubestellar.io_")...)
		e.its.Install(t, append(testenv.APIs(t, "control.kubestellar.io_workstatuses"), testenv.ManagedClusterCRD(t))...)
		e.wds.InstallRights(t, "wds")
		e.its.InstallRights(t, "its")
	})
	e.create(namespaces, "", e.name, nil)
	return e
}

// space returns the space in which objects of a resource are.
func (e *environment) space(resource schema.GroupVersionResource) *testenv.Space {
	if resource == managed || resource == works {
		return e.its
	}
	return e.wds
}

func (e *environment) create(resource schema.GroupVersionResource, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	e.t.Helper()
	return e.space(resource).Create(e.t, resource, namespace, name, fields)
}

func (e *environment) remove(resource schema.GroupVersionResource, namespace, name string) {
	e.t.Helper()
	e.space(resource).Delete(e.t, resource, namespace, name)
}

func (e *environment) patch(resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) *unstructured.Unstructured {
	e.t.Helper()
	return e.space(resource).Patch(e.t, resource, namespace, name, patch, subresources...)
}

// clusters creates n clusters and their mailboxes, c1 and so on with the test's name in front.
func (e *environment) clusters(n int) {
	e.t.Helper()
	for i := 1; i <= n; i++ {
		e.create(managed, "", e.clusterName(i), map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"of": e.name, "number": fmt.Sprint(i)}},
			"spec":     map[string]any{"hubAcceptsClient": true},
		})
		mailbox := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": e.clusterName(i)}}}
		if _, err := e.its.Client.Resource(namespaces).Create(e.t.Context(), mailbox, metav1.CreateOptions{}); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *environment) clusterName(i int) string { return fmt.Sprintf("%s-c%02d", e.name, i) }

// collector creates a StatusCollector of the test's own, with a spec in JSON.
func (e *environment) collector(name, spec string) string {
	e.t.Helper()
	e.create(collectors, "", e.name+"-"+name, map[string]any{"spec": parse(e.t, spec)})
	return e.name + "-" + name
}

// policy creates a policy for all objects of the test's namespace to all its clusters, with the
// collectors.
func (e *environment) policy(name string, clause map[string]any, collectors ...string) *unstructured.Unstructured {
	e.t.Helper()
	names := []any{}
	for _, c := range collectors {
		names = append(names, c)
	}
	if clause == nil {
		clause = map[string]any{"namespaces": []any{e.name}, "resources": []any{"configmaps", "secrets", "deployments"}}
	}
	clause["statusCollectors"] = names
	return e.create(policies, "", e.name+"-"+name, map[string]any{"spec": map[string]any{
		"clusterSelectors": []any{map[string]any{"matchLabels": map[string]any{"of": e.name}}},
		"downsync":         []any{clause},
	}})
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// report says what a cluster reports of an object, in JSON; "" for one without a status, "-" for
// none.
func (e *environment) report(ref objref.Ref, cluster int, status string) {
	e.t.Helper()
	mailbox, name := e.clusterName(cluster), corestatus.ReportName(ref)
	reports := e.its.Client.Resource(works).Namespace(mailbox)
	if status == "-" {
		e.remove(works, mailbox, name)
		return
	}
	if _, err := reports.Get(e.t.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		e.create(works, mailbox, name, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{controlv1alpha1.LabelWDSUID: e.name}},
			"spec":     map[string]any{"sourceRef": map[string]any{"group": ref.Group, "resource": ref.Resource, "namespace": ref.Namespace, "name": ref.Name}},
		})
	}
	if status == "" {
		return
	}
	current, err := reports.Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	current.Object["status"] = parse(e.t, status)
	if _, err := reports.UpdateStatus(e.t.Context(), current, metav1.UpdateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// running is one run of the controllers.
type running struct {
	*testenv.Traffic
	bindings *binding.Running
	stop     func()
	ready    func() error
}

// start runs the controllers until stop, or the end of the test. Without ITSes they read its1.
func (e *environment) start(itses ...clusters.ITS) *running {
	e.t.Helper()
	if itses == nil {
		itses = []clusters.ITS{{Name: "its1", Connect: func(context.Context) (clusters.Source, error) {
			return clusters.NewSource(e.identity("its1"))
		}}}
	}
	reader := clusters.New(itses...)
	r := &running{Traffic: &testenv.Traffic{}}
	config := r.Count(e.identity("wds1"))
	check := func(err error) {
		e.t.Helper()
		if err != nil {
			e.t.Fatal(err)
		}
	}
	var err error
	itsClient, err := client.New(e.identity("its1"))
	check(err)
	read, err := statusreports.New(map[string]*client.Client{"its1": itsClient}, types.UID(e.name), reader)
	check(err)
	wdsClient, err := client.New(config)
	check(err)
	found, err := client.NewInformer(wdsClient.StatusCollectors(), &controlv1alpha1.StatusCollector{}, nil)
	check(err)
	wdsWriter, err := writer.New(config, "wds1", "binding-controller")
	check(err)
	compiled, err := combinedstatus.NewCollectors(found, wdsWriter, clock.RealClock{})
	check(err)
	r.bindings, err = binding.Setup(binding.SetupConfig{
		WDS: config, WDSName: "wds1", Clusters: reader, Collectors: compiled, Settings: settings.Bindings{MaxBindingSize: corebinding.DefaultMaxSize},
	})
	check(err)
	stored, err := combinedstatus.NewInformer(wdsClient)
	check(err)
	objects, err := dynamic.NewForConfig(config)
	check(err)
	controller, err := combinedstatus.New(combinedstatus.Config{
		Collections: r.bindings.Index, Resource: r.bindings.Objects.Resource, Gone: r.bindings.Discovery.Gone,
		Reports: read, Collectors: compiled, CombinedStatuses: stored, Client: objects, Writer: r.bindings.Writer, Clock: clock.RealClock{},
	})
	check(err)
	r.ready = func() error {
		for _, err := range []error{r.bindings.Ready(), read.Ready(), controller.Ready()} {
			if err != nil {
				return err
			}
		}
		return nil
	}
	r.stop = testenv.Run(e.t, reader.Run,
		func(ctx context.Context) error {
			return r.bindings.Run(ctx, testenv.Leading(), 4, binding.Observers{Index: []binding.Observer{controller}})
		},
		func(ctx context.Context) error { return read.Run(ctx, controller) },
		func(ctx context.Context) error {
			return compiled.Run(ctx, 1, r.bindings.OnCollector, controller.OnCollector)
		},
		testenv.Workers(controller.Run, 4))
	return r
}

func (e *environment) becomesReady(r *running) {
	e.t.Helper()
	testenv.Ready(e.t, r.ready)
}

// identity returns a configuration with the rights that the controllers have in production.
func (e *environment) identity(space string) *rest.Config {
	config := e.wds.AsServiceAccount("starling-system", "binding-controller")
	if space == e.its.Name {
		config = e.its.AsServiceAccount("starling-system", "binding-controller")
	}
	config.QPS, config.Burst = 300, 600
	return config
}

// evaluations returns how many rows were evaluated so far in this process.
func evaluations(t *testing.T) int {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "starling_status_evaluations_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	return 0
}

// of returns the CombinedStatus of an object and a policy, nil if there is none.
func (e *environment) of(object, policy *unstructured.Unstructured) *controlv1alpha1.CombinedStatus {
	e.t.Helper()
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = "kubestellar-report"
	}
	name := string(object.GetUID()) + "." + string(policy.GetUID())
	return testenv.Get[controlv1alpha1.CombinedStatus](e.t, e.wds.Client.Resource(combineds).Namespace(namespace), name)
}

// shows waits until the CombinedStatus shows these tables: lines "<collector>: <column>, …", then
// one line for each row, then errors.
func (e *environment) shows(object, policy *unstructured.Unstructured, want string) *controlv1alpha1.CombinedStatus {
	e.t.Helper()
	want = strings.TrimSpace(strings.ReplaceAll(want, "\t", ""))
	var cs *controlv1alpha1.CombinedStatus
	testenv.Eventually(e.t, patience, func() (bool, string) {
		cs = e.of(object, policy)
		got := e.print(cs)
		return got == want, fmt.Sprintf("shows\n%s\nwant\n%s", got, want)
	})
	return cs
}

func (e *environment) print(cs *controlv1alpha1.CombinedStatus) string {
	if cs == nil {
		return "none"
	}
	var lines []string
	for _, r := range cs.Results {
		lines = append(lines, r.Name+": "+strings.Join(r.ColumnNames, ", "))
		for _, row := range r.Rows {
			var values []string
			for _, v := range row.Columns {
				values = append(values, printValue(v))
			}
			lines = append(lines, strings.Join(values, ", "))
		}
		for _, err := range r.RowErrors {
			lines = append(lines, fmt.Sprintf("! %s %s: %s", err.WEC.ClusterID, err.ColumnName, err.Error))
		}
		for _, err := range r.AggregationErrors {
			lines = append(lines, fmt.Sprintf("! %s: %s", err.ColumnName, err.Error))
		}
		if r.OmittedRows > 0 {
			lines = append(lines, fmt.Sprintf("%d omitted", r.OmittedRows))
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), e.name+"-", "")
}

func printValue(v controlv1alpha1.Value) string {
	switch v.Type {
	case controlv1alpha1.ValueString:
		return *v.String
	case controlv1alpha1.ValueNumber:
		return "#" + *v.Number
	case controlv1alpha1.ValueBool:
		return fmt.Sprint(*v.Bool)
	case controlv1alpha1.ValueArray:
		return strings.ReplaceAll(string(v.Array.Raw), `\u003c`, "<") // the test's decoder encodes again
	case controlv1alpha1.ValueObject:
		return strings.ReplaceAll(string(v.Object.Raw), `\u003c`, "<")
	default:
		return "-"
	}
}

// condition waits until the policy says of its StatusCollectors "Status Reason: message".
func (e *environment) condition(policy, want string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		p := testenv.Get[controlv1alpha1.BindingPolicy](e.t, e.wds.Client.Resource(policies), e.name+"-"+policy)
		if p == nil {
			return false, "no policy " + policy
		}
		got := "none"
		if c := meta.FindStatusCondition(p.Status.Conditions, "StatusCollectorsAvailable"); c != nil {
			got = strings.ReplaceAll(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), e.name+"-", "")
		}
		return got == want, fmt.Sprintf("condition is %q, want %q", got, want)
	})
}
