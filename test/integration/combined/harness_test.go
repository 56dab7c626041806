// Package combined tests against real API servers how what clusters report becomes CombinedStatuses. There are no agents and no
// transport: the tests write what agents would. The controllers run in the test process, under the identity and with the rights
// that they have in production.
package combined

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/combined"
	"github.com/starlinghq/starling/pkg/controller/reports"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

// patience is far more than anything takes that is waited for, on any machine.
const patience = 2 * time.Minute

var (
	policies   = controlv1alpha1.BindingPolicies
	collectors = controlv1alpha1.StatusCollectors
	combineds  = controlv1alpha1.CombinedStatuses
	works      = controlv1alpha1.WorkStatuses
	managed    = binding.ManagedClusters
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deploys    = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	roles      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}

	kinds = map[schema.GroupVersionResource]string{
		policies: "BindingPolicy", collectors: "StatusCollector", works: "WorkStatus", managed: "ManagedCluster", namespaces: "Namespace",
		configMaps: "ConfigMap", secrets: "Secret", roles: "ClusterRole", combineds: "CombinedStatus", deploys: "Deployment",
		controlv1alpha1.Bindings: "Binding",
	}
)

// environment is what a test works with: both spaces as an administrator sees them.
type environment struct {
	t        *testing.T
	fleet    *testenv.Fleet
	wds, its dynamic.Interface
	// name is the test's own: of its namespace, its policies, its StatusCollectors and of a label on its clusters, and the UID that
	// its WorkStatuses say that the WDS has.
	name string
}

var (
	installed    sync.Once
	environments atomic.Int32
)

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{t: t, fleet: fleet, name: fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), environments.Add(1))}
	client := func(space string) dynamic.Interface {
		c, err := dynamic.NewForConfig(fleet.Config(t, space))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	e.wds, e.its = client("wds1"), client("its1")
	installed.Do(func() {
		const crds = "../../../config/crd/control.kubestellar.io_"
		for space, files := range map[string][]string{
			"wds1": {crds + "bindingpolicies.yaml", crds + "bindings.yaml", crds + "statuscollectors.yaml", crds + "combinedstatuses.yaml"},
			"its1": {crds + "workstatuses.yaml", testenv.ManagedClusterCRD(t)},
		} {
			fleet.Kubectl(t, space, "create", "namespace", "starling-system")
			for _, file := range files {
				fleet.Kubectl(t, space, "apply", "-f", file)
				fleet.Kubectl(t, space, "wait", "--for=condition=Established", "-f", file)
			}
			fleet.Kubectl(t, space, "apply", "-f", "../../../config/rbac/"+space[:3])
		}
	})
	e.create(namespaces, "", e.name, nil)
	return e
}

func (e *environment) client(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if resource == managed || resource == works {
		return e.its.Resource(resource)
	}
	return e.wds.Resource(resource)
}

// create creates an object that goes at the end of the test.
func (e *environment) create(resource schema.GroupVersionResource, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	e.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, fields)
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kinds[resource])
	o.SetNamespace(namespace)
	o.SetName(name)
	var created *unstructured.Unstructured
	testenv.Eventually(e.t, patience, func() (bool, string) { // an API or a namespace that just came may not accept writes yet
		var err error
		created, err = e.client(resource).Namespace(namespace).Create(e.t.Context(), o, metav1.CreateOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			e.t.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
	e.t.Cleanup(func() {
		if resource == namespaces {
			return // its content goes by itself
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), patience)
		defer cancel()
		objects := e.client(resource).Namespace(namespace)
		if resource == policies {
			_, _ = objects.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			e.t.Errorf("clean up: %v", err)
		}
	})
	return created
}

func (e *environment) remove(resource schema.GroupVersionResource, namespace, name string) {
	e.t.Helper()
	if err := e.client(resource).Namespace(namespace).Delete(e.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *environment) patch(resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) *unstructured.Unstructured {
	e.t.Helper()
	o, err := e.client(resource).Namespace(namespace).Patch(e.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		e.t.Fatal(err)
	}
	return o
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
		if _, err := e.its.Resource(namespaces).Create(e.t.Context(), mailbox, metav1.CreateOptions{}); err != nil {
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

// policy creates a policy for all objects of the test's namespace to all its clusters, with the collectors.
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

// report says what a cluster reports of an object, in JSON; "" for one without a status, "-" for none.
func (e *environment) report(ref objref.Ref, cluster int, status string) {
	e.t.Helper()
	mailbox, name := e.clusterName(cluster), corestatus.ReportName(ref)
	reports := e.its.Resource(works).Namespace(mailbox)
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
	*traffic
	bindings *binding.Running
	stop     func()
	ready    func() error
}

// start runs the controllers until stop, or the end of the test. Without inventories they read its1.
func (e *environment) start(inventories ...binding.Inventory) *running {
	e.t.Helper()
	if inventories == nil {
		inventories = []binding.Inventory{{Name: "its1", Connect: func(context.Context) (*binding.Connection, error) {
			return binding.NewConnection("its1", e.identity("its1"))
		}}}
	}
	r := &running{traffic: &traffic{}}
	config := r.count(e.identity("wds1"))
	check := func(err error) {
		e.t.Helper()
		if err != nil {
			e.t.Fatal(err)
		}
	}
	var err error
	r.bindings, err = binding.Setup(binding.SetupConfig{WDS: config, WDSName: "wds1", Inventories: inventories, MaxBindingSize: corebinding.DefaultMaxSize})
	check(err)
	itsClient, err := client.New(e.identity("its1"))
	check(err)
	read, err := reports.New(map[string]*client.Client{"its1": itsClient}, types.UID(e.name))
	check(err)
	wdsClient, err := client.New(config)
	check(err)
	found, err := client.NewInformer(wdsClient.StatusCollectors(), &controlv1alpha1.StatusCollector{}, nil)
	check(err)
	compiled, err := combined.NewCollectors(found, r.bindings.Writer, clock.RealClock{})
	check(err)
	stored, err := combined.NewInformer(wdsClient)
	check(err)
	objects, err := dynamic.NewForConfig(config)
	check(err)
	controller, err := combined.New(combined.Config{
		Collections: r.bindings.Index, Policies: r.bindings.PolicyUID, Resource: r.bindings.Objects.Resource, Serves: r.bindings.Serves,
		Reports: read, Collectors: compiled, CombinedStatuses: stored, Client: objects, Writer: r.bindings.Writer, Clock: clock.RealClock{},
	})
	check(err)
	r.bindings.Index.ObserveCollections(controller)
	read.AddListener(controller)
	r.bindings.UseCollectors(compiled)
	compiled.OnChange(r.bindings.OnCollector)
	check(r.bindings.OnPolicyReplaced(controller.OnPolicy))
	r.ready = func() error {
		for _, err := range []error{r.bindings.Ready(), read.Ready(), controller.Ready()} {
			if err != nil {
				return err
			}
		}
		return nil
	}

	ctx, cancel := context.WithCancel(e.t.Context())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.bindings.Run(ctx, 4) })
	group.Go(func() error { return read.Run(ctx) })
	group.Go(func() error { return compiled.Run(ctx, 1) })
	group.Go(func() error { return controller.Run(ctx, 4) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := group.Wait(); err != nil {
			e.t.Errorf("controllers: %v", err)
		}
	})
	e.t.Cleanup(r.stop)
	return r
}

func (e *environment) becomesReady(r *running) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		err := r.ready()
		return err == nil, fmt.Sprint(err)
	})
}

// identity returns a configuration with the rights that the controllers have in production.
func (e *environment) identity(space string) *rest.Config {
	e.t.Helper()
	config := e.fleet.Config(e.t, space)
	config.QPS, config.Burst = 300, 600
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:starling-system:binding-controller",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:starling-system", "system:authenticated"},
	}
	return config
}

// traffic notes the writes that go through a configuration, but for events.
type traffic struct {
	mu     sync.Mutex
	writes []string
	reads  []string
}

func (c *traffic) count(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			c.mu.Lock()
			switch {
			case r.Method == http.MethodGet:
				c.reads = append(c.reads, r.URL.Path)
			case !strings.HasSuffix(r.URL.Path, "/events"):
				c.writes = append(c.writes, r.Method+" "+r.URL.Path)
			}
			c.mu.Unlock()
			return next.RoundTrip(r)
		})
	})
	return config
}

// written returns the writes whose paths hold the text.
func (c *traffic) written(about string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []string
	for _, w := range c.writes {
		if strings.Contains(w, about) {
			found = append(found, w)
		}
	}
	return found
}

func (c *traffic) readOf(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, r := range c.reads {
		if r == path {
			n++
		}
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// held is longer than any write is held back.
const held = 1500 * time.Millisecond

// idle waits until nothing was written for so long that nothing can be on its way any more.
func (r *running) idle(t *testing.T) {
	t.Helper()
	last, since := len(r.written("")), time.Now()
	testenv.Eventually(t, patience, func() (bool, string) {
		if now := len(r.written("")); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= held, "still writing"
	})
}

// nothing makes sure that nothing is written, about what has that text in its path, but for what was written before.
func (r *running) nothing(t *testing.T, about string, before int) {
	t.Helper()
	testenv.Never(t, held, func() string {
		if written := r.written(about)[before:]; len(written) > 0 {
			return fmt.Sprintf("wrote %q", written)
		}
		return ""
	})
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
	o, err := e.wds.Resource(combineds).Namespace(namespace).Get(e.t.Context(), string(object.GetUID())+"."+string(policy.GetUID()), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	cs := &controlv1alpha1.CombinedStatus{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, cs)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return cs
}

// shows waits until the CombinedStatus shows these tables: lines "<collector>: <column>, …", then one line for each row, then
// errors.
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
		o, err := e.wds.Resource(policies).Get(e.t.Context(), e.name+"-"+policy, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		p := &controlv1alpha1.BindingPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p); err != nil {
			e.t.Fatal(err)
		}
		got := "none"
		if c := meta.FindStatusCondition(p.Status.Conditions, "StatusCollectorsAvailable"); c != nil {
			got = strings.ReplaceAll(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), e.name+"-", "")
		}
		return got == want, fmt.Sprintf("condition is %q, want %q", got, want)
	})
}
