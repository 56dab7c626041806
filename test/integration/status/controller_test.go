package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/controller/status"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

const (
	singletonLabel = "managed-by.kubestellar.io/singletonstatus"
	multiLabel     = "managed-by.kubestellar.io/multiwecstatus"
	countLabel     = "kubestellar.io/executing-count"
)

// policies say what is asked for, in place of an index of policies.
type policies struct {
	mu  sync.Mutex
	ask map[objref.Ref]match.Requests
	// unknown makes all answers unknown.
	unknown bool
}

// StatusWriting implements status.Versions: nothing here depends on versions.
func (*policies) StatusWriting(objref.Ref, string) {}

// StatusWritten implements status.Versions.
func (*policies) StatusWritten(objref.Ref, string) {}

func (p *policies) Requests(ref objref.Ref) match.Requests {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := p.ask[ref]
	answer.Known = !p.unknown
	return answer
}

// hub is a WDS and an ITS with the controller between them.
type hub struct {
	t        *testing.T
	ns       string
	wds, its *space
	policies *policies
	// itsConfig leads to the ITS.
	itsConfig *rest.Config
	clock     clock.WithTicker

	controller *status.Controller
	errors     *statusErrors
	reports    *statusreports.Reader
	sent       *testenv.Traffic
	stop       func()
}

// newHub prepares a namespace of the WDS and mailboxes <ns>-1 and <ns>-2.
func newHub(t *testing.T, ns string) *hub {
	t.Helper()
	wds, its, _ := fleet(t)
	stopManager(t, its) // no add-on is installed in these mailboxes: one that starts takes the reports out of them
	wds.namespace(t, ns)
	its.namespace(t, ns+"-1")
	its.namespace(t, ns+"-2")
	user, group := serviceAccount("starling-system", "binding-controller")
	return &hub{
		t: t, ns: ns, wds: wds, its: its, policies: &policies{ask: map[objref.Ref]match.Requests{}},
		errors: &statusErrors{of: map[objref.Ref]string{}}, itsConfig: its.As(user, group), clock: clock.RealClock{},
	}
}

// inOneITS are clusters that are all in the one ITS.
type inOneITS struct{}

// Home implements statusreports.Clusters.
func (inOneITS) Home(string) (string, inventory.State) { return itsName, inventory.Accepted }

// OnChange implements statusreports.Clusters.
func (inOneITS) OnChange(func(string)) {}

// statusErrors records the errors for users, in place of the policies' status.
type statusErrors struct {
	mu sync.Mutex
	of map[objref.Ref]string
}

// SetStatusError implements status.Errors.
func (r *statusErrors) SetStatusError(ref objref.Ref, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[ref] = text
}

func (r *statusErrors) with(ref objref.Ref) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[ref]
}

// start starts the controller under the identity that it has in production.
func (h *hub) start() {
	h.t.Helper()
	h.sent = &testenv.Traffic{}
	user, group := serviceAccount("starling-system", "binding-controller")
	config := h.sent.Count(h.wds.As(user, group))
	wdsClient, err := dynamic.NewForConfig(config)
	if err != nil {
		h.t.Fatal(err)
	}
	wdsMetadata, err := metadata.NewForConfig(config)
	if err != nil {
		h.t.Fatal(err)
	}
	writer, err := writer.New(config, "wds", "binding-controller")
	if err != nil {
		h.t.Fatal(err)
	}
	itsClient, err := client.New(h.itsConfig)
	if err != nil {
		h.t.Fatal(err)
	}
	wanted := dynamicinformer.NewWanted()
	resources := map[schema.GroupResource]dynamicinformer.Resource{}
	for _, gvr := range []schema.GroupVersionResource{widgets, gadgets, pickies, things, deployments, jobs, services, namespaces} {
		resources[gvr.GroupResource()] = dynamicinformer.Resource{GroupVersionResource: gvr}
	}
	wanted.Set(resources)
	set, err := dynamicinformer.New(dynamicinformer.Config{Source: wanted, Informer: dynamicinformer.MetadataInformer(wdsMetadata)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.reports, err = statusreports.New(map[string]*client.Client{itsName: itsClient}, wdsUID, inOneITS{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.controller, err = status.New(status.Config{
		Reports: h.reports, Requests: h.policies,
		Objects: set, Client: wdsClient, Writer: writer, Versions: h.policies, StatusErrors: h.errors, Clock: h.clock,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.controller.OnChanges(match.Changes{Requests: h.asked()}) // what the index of policies does when it has read everything
	h.stop = testenv.Run(h.t,
		func(ctx context.Context) error { return set.Run(ctx, relay{h.controller}) },
		func(ctx context.Context) error { return h.reports.Run(ctx, h.controller) },
		testenv.Workers(h.controller.Run, 4))
	testenv.Eventually(h.t, patience, func() (bool, string) {
		for gr := range resources {
			if !set.Synced(gr) {
				return false, gr.String() + " not synced"
			}
		}
		return true, ""
	})
	h.controller.OnChanges(match.Changes{Requests: h.asked()})
}

// relay tells the controller of changes, and does what the index of policies does for an object
// that is added.
type relay struct{ *status.Controller }

// OnChange implements dynamicinformer.Handler.
func (r relay) OnChange(resource dynamicinformer.Resource, before, after metav1.Object) {
	r.Controller.OnChange(resource, before, after)
	if before == nil {
		ref := objref.New(resource.GroupResource(), after.GetNamespace(), after.GetName())
		r.Controller.OnChanges(match.Changes{Requests: []objref.Ref{ref}})
	}
}

func (h *hub) asked() []objref.Ref {
	h.policies.mu.Lock()
	defer h.policies.mu.Unlock()
	var refs []objref.Ref
	for ref := range h.policies.ask {
		refs = append(refs, ref)
	}
	return refs
}

// wants says that a policy asks for the status of the object from those of the mailboxes 1 and 2;
// with none, that no policy does any more.
func (h *hub) wants(ref objref.Ref, mailboxes ...int) {
	if mailboxes == nil {
		h.ask(ref, match.Requests{})
		return
	}
	h.ask(ref, match.Requests{Singleton: true, SingletonClusters: h.mailboxes(mailboxes)})
}

// wantsAll says the same of the multi-cluster form.
func (h *hub) wantsAll(ref objref.Ref, mailboxes ...int) {
	h.ask(ref, match.Requests{MultiWEC: true, MultiWECClusters: h.mailboxes(mailboxes)})
}

func (h *hub) mailboxes(numbers []int) []string {
	var clusters []string
	for _, n := range numbers {
		clusters = append(clusters, fmt.Sprintf("%s-%d", h.ns, n))
	}
	return clusters
}

// ask says what policies ask for the object, if there are any that do.
func (h *hub) ask(ref objref.Ref, requests match.Requests) {
	h.policies.mu.Lock()
	if !requests.Singleton && !requests.MultiWEC {
		delete(h.policies.ask, ref)
	} else {
		h.policies.ask[ref] = requests
	}
	h.policies.mu.Unlock()
	h.controller.OnChanges(match.Changes{Requests: []objref.Ref{ref}})
}

// widget creates an object in the WDS.
func (h *hub) widget(name string) objref.Ref {
	h.t.Helper()
	h.wds.create(h.t, widgets, map[string]any{
		"apiVersion": "test.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": h.ns}, "spec": map[string]any{"size": 1},
	})
	return objref.New(widgets.GroupResource(), h.ns, name)
}

// report writes the WorkStatus of an object; a nil status is none.
func (h *hub) report(ref objref.Ref, mailbox int, state map[string]any) {
	h.t.Helper()
	namespace, name := fmt.Sprintf("%s-%d", h.ns, mailbox), corestatus.ReportName(ref)
	if h.its.Get(h.t, workStatuses, namespace, name) == nil {
		h.its.create(h.t, workStatuses, map[string]any{
			"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
			"metadata": map[string]any{"name": name, "namespace": namespace, "labels": ourLabels()},
			"spec": map[string]any{"sourceRef": map[string]any{
				"group": ref.Group, "version": "v1", "resource": ref.Resource, "namespace": ref.Namespace, "name": ref.Name,
			}},
		})
	}
	if state != nil {
		body := []map[string]any{{"op": "add", "path": "/status", "value": state}}
		_, err := h.its.Client.Resource(workStatuses).Namespace(namespace).Patch(h.t.Context(), name, "application/json-patch+json",
			[]byte(asJSON(body)), metav1.PatchOptions{}, "status")
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *hub) object(gvr schema.GroupVersionResource, ref objref.Ref) *unstructured.Unstructured {
	h.t.Helper()
	return h.wds.Get(h.t, gvr, ref.Namespace, ref.Name)
}

// becomes waits until the object has that status, as JSON, and the label if it is to be returned
// status.
func (h *hub) becomes(gvr schema.GroupVersionResource, ref objref.Ref, want string, labelled bool) {
	h.t.Helper()
	testenv.Eventually(h.t, patience, func() (bool, string) {
		obj := h.object(gvr, ref)
		got := ""
		if s, ok := obj.Object["status"]; ok {
			got = asJSON(s)
		}
		_, has := obj.GetLabels()[singletonLabel]
		return got == want && has == labelled, fmt.Sprintf("status %s, labelled %v; labels %v", got, has, obj.GetLabels())
	})
}

// stays makes sure that the object has that status, as JSON, and of the labels that mark returned
// status that one, "" for none.
func (h *hub) stays(gvr schema.GroupVersionResource, ref objref.Ref, want, label string) {
	h.t.Helper()
	testenv.Never(h.t, testenv.Held, func() string {
		if got := asJSON(h.object(gvr, ref).Object["status"]); got != want && (got != "null" || want != "") {
			return "the status is " + got
		}
		if got := formOf(h.object(gvr, ref)); got != label {
			return "the label is " + got
		}
		return ""
	})
}

// formOf returns the label that says in which form status was returned, "" for none.
func formOf(obj *unstructured.Unstructured) string {
	var labels []string
	for _, label := range []string{singletonLabel, multiLabel} {
		if _, ok := obj.GetLabels()[label]; ok {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, " and ")
}

// in returns h for a subtest.
func (h *hub) in(t *testing.T) *hub {
	t.Helper()
	sub := *h
	sub.t = t
	return &sub
}

func TestStatusComesBack(t *testing.T) {
	h := newHub(t, "comeback")
	h.start()
	ref := h.widget("one")
	h.report(ref, 1, map[string]any{"ready": true, "count": 3, "inner": map[string]any{"a": "x", "b": "y"}})
	h.stays(widgets, ref, "", "") // nobody asked

	h.wants(ref, 1)
	h.becomes(widgets, ref, `{"count":3,"inner":{"a":"x","b":"y"},"ready":true}`, true)

	t.Run("Changes", func(t *testing.T) {
		h := h.in(t)
		h.report(ref, 1, map[string]any{"count": 4, "items": []any{"a"}, "inner": map[string]any{"b": "z"}})
		h.becomes(widgets, ref, `{"count":4,"inner":{"b":"z"},"items":["a"]}`, true)
	})
	t.Run("FieldsNewerThanTheSchema", func(t *testing.T) {
		h := h.in(t)
		h.report(ref, 1, map[string]any{"count": 5, "brandNew": map[string]any{"x": 1}})
		h.becomes(widgets, ref, `{"count":5}`, true)
		h.report(ref, 1, map[string]any{"count": 6, "brandNew": map[string]any{"x": 2}})
		h.becomes(widgets, ref, `{"count":6}`, true)
	})
	t.Run("OverwrittenBySomebody", func(t *testing.T) {
		h := h.in(t)
		h.wds.setStatus(t, widgets, h.ns, "one", map[string]any{"count": 99, "ready": true})
		h.becomes(widgets, ref, `{"count":6}`, true)
	})
	t.Run("LabelRemovedBySomebody", func(t *testing.T) {
		h := h.in(t)
		h.wds.patch(t, widgets, h.ns, "one", map[string]any{"metadata": map[string]any{"labels": map[string]any{singletonLabel: nil}}})
		h.becomes(widgets, ref, `{"count":6}`, true)
	})
	t.Run("SpecEditedBySomebody", func(t *testing.T) {
		h := h.in(t)
		h.sent.Idle(t) // the status is written again after the label, since the report has more than the schema
		before := len(h.sent.Written(""))
		h.wds.patch(t, widgets, h.ns, "one", map[string]any{"spec": map[string]any{"size": 2}})
		h.sent.Nothing(t, "", before)
		h.report(ref, 1, map[string]any{"count": 7})
		h.becomes(widgets, ref, `{"count":7}`, true)
	})
	t.Run("SeveralClusters", func(t *testing.T) {
		h := h.in(t)
		h.wants(ref, 1, 2)
		h.becomes(widgets, ref, "", false)
	})
	t.Run("AnotherCluster", func(t *testing.T) {
		h := h.in(t)
		h.report(ref, 2, map[string]any{"count": 22})
		h.wants(ref, 2)
		h.becomes(widgets, ref, `{"count":22}`, true)
	})
	t.Run("ReportWithoutStatusChangesNothing", func(t *testing.T) {
		h := h.in(t)
		name := corestatus.ReportName(ref)
		h.its.patch(t, workStatuses, h.ns+"-2", name, map[string]any{"status": nil}, "status")
		h.stays(widgets, ref, `{"count":22}`, singletonLabel)
	})
	t.Run("ReportGone", func(t *testing.T) {
		h := h.in(t)
		h.its.Delete(t, workStatuses, h.ns+"-2", corestatus.ReportName(ref))
		h.becomes(widgets, ref, "", false)
	})
	t.Run("NotRequestedAnyMore", func(t *testing.T) {
		h := h.in(t)
		h.wants(ref, 1)
		h.becomes(widgets, ref, `{"count":7}`, true)
		h.wants(ref)
		h.becomes(widgets, ref, "", false)
	})
	t.Run("ObjectBornAgain", func(t *testing.T) {
		h := h.in(t)
		h.wants(ref, 1)
		h.becomes(widgets, ref, `{"count":7}`, true)
		h.wds.Delete(t, widgets, h.ns, "one")
		h.widget("one")
		h.becomes(widgets, ref, `{"count":7}`, true)
	})
}

// TestStatusOfObjectsOfPackages: the objects of packages are in clusters only. There is no object
// to return their status to, and this is not reported as an error.
func TestStatusOfObjectsOfPackages(t *testing.T) {
	h := newHub(t, "elsewhere")
	h.start()
	h.sent.Idle(t) // a controller that starts also sees to what other tests left behind
	ref := objref.New(widgets.GroupResource(), h.ns, "of-a-package")
	before := len(h.sent.Written(""))
	h.report(ref, 1, map[string]any{"ready": true, "count": 3})
	h.report(ref, 1, map[string]any{"ready": true, "count": 4})
	h.sent.Nothing(t, "", before)
	if text := h.errors.with(ref); text != "" {
		t.Errorf("reported an error: %s", text)
	}
	// The controller continues with an object that exists.
	other := h.widget("here")
	h.wants(other, 1)
	h.report(other, 1, map[string]any{"count": 1})
	h.becomes(widgets, other, `{"count":1}`, true)
}

func TestStatusOfKinds(t *testing.T) {
	h := newHub(t, "kindsback")
	h.start()

	t.Run("Deployment", func(t *testing.T) {
		h := h.in(t)
		h.wds.create(t, deployments, deployment(h.ns, "d"))
		ref := objref.New(deployments.GroupResource(), h.ns, "d")
		h.wants(ref, 1)
		h.report(ref, 1, map[string]any{"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 4, "fromTheFuture": true})
		testenv.Eventually(t, patience, func() (bool, string) {
			n, _, _ := unstructured.NestedInt64(h.object(deployments, ref).Object, "status", "availableReplicas")
			return n == 2, fmt.Sprint(n)
		})
		h.wants(ref)
		testenv.Eventually(t, patience, func() (bool, string) {
			n, _, _ := unstructured.NestedInt64(h.object(deployments, ref).Object, "status", "availableReplicas")
			return n == 0 && !hasLabel(h.object(deployments, ref)), fmt.Sprint(n)
		})
	})
	t.Run("ServiceWhoseServerInsistsOnFields", func(t *testing.T) {
		h := h.in(t)
		h.wds.create(t, services, map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "s", "namespace": h.ns},
			"spec": map[string]any{"ports": []any{map[string]any{"port": 80}}},
		})
		ref := objref.New(services.GroupResource(), h.ns, "s")
		h.wants(ref, 1)
		h.report(ref, 1, map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}})
		testenv.Eventually(t, patience, func() (bool, string) {
			conditions, _, _ := unstructured.NestedSlice(h.object(services, ref).Object, "status", "conditions")
			return len(conditions) == 1, asJSON(h.object(services, ref).Object["status"])
		})
	})
	t.Run("WithoutStatusSubresource", func(t *testing.T) {
		h := h.in(t)
		h.wds.create(t, gadgets, map[string]any{
			"apiVersion": "test.example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "g"}, "spec": map[string]any{"size": 1},
		})
		ref := objref.New(gadgets.GroupResource(), "", "g")
		h.wants(ref, 1)
		h.report(ref, 1, map[string]any{"anything": []any{"a"}})
		h.becomes(gadgets, ref, `{"anything":["a"]}`, true)
		h.report(ref, 1, map[string]any{"other": 1})
		h.becomes(gadgets, ref, `{"other":1}`, true)
		h.wants(ref)
		h.becomes(gadgets, ref, "", false)
	})
	t.Run("NeverNamespaces", func(t *testing.T) {
		h := h.in(t)
		ref := objref.New(namespaces.GroupResource(), "", h.ns)
		h.wants(ref, 1)
		h.report(ref, 1, map[string]any{"phase": "Terminating"})
		h.stays(namespaces, ref, `{"phase":"Active"}`, "")
	})
}

func TestStatusControllerRestartWritesNothing(t *testing.T) {
	h := newHub(t, "again")
	h.start()
	one, two := h.widget("one"), h.widget("two")
	h.wds.create(t, services, map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "s", "namespace": h.ns},
		"spec": map[string]any{"ports": []any{map[string]any{"port": 80}}},
	})
	service := objref.New(services.GroupResource(), h.ns, "s")
	for _, ref := range []objref.Ref{one, two, service} {
		h.wants(ref, 1)
	}
	h.report(one, 1, map[string]any{"count": 1})
	h.report(two, 1, map[string]any{"count": 2, "unknownToTheWDS": map[string]any{"x": 1}})
	h.report(service, 1, map[string]any{"conditions": []any{}})
	h.becomes(widgets, one, `{"count":1}`, true)
	h.becomes(widgets, two, `{"count":2}`, true)
	testenv.Eventually(t, patience, func() (bool, string) { return hasLabel(h.object(services, service)), "not labelled" })
	h.sent.Idle(t)
	h.stop()

	t.Run("Unchanged", func(t *testing.T) {
		h := h.in(t)
		h.start()
		h.sent.Nothing(t, "", 0)
		h.stop()
	})
	t.Run("PoliciesNotEvaluated", func(t *testing.T) {
		h := h.in(t)
		h.policies.unknown = true
		h.report(one, 1, map[string]any{"count": 11})
		h.start()
		h.sent.Nothing(t, "", 0)
		h.policies.mu.Lock()
		h.policies.unknown = false
		delete(h.policies.ask, two)
		h.policies.mu.Unlock()
		h.controller.OnKnown(widgets.GroupResource())
		h.becomes(widgets, one, `{"count":11}`, true)
		h.becomes(widgets, two, "", false)
		h.stop()
	})
	t.Run("InventoryNotRead", func(t *testing.T) {
		h := h.in(t)
		line := newWire(t, h.itsConfig)
		line.cut()
		h.itsConfig = line.config
		h.start()
		h.sent.Nothing(t, "", 0)
		if h.reports.Ready() == nil {
			t.Error("ready without having read the ITS")
		}
		h.its.Delete(t, workStatuses, h.ns+"-1", corestatus.ReportName(one))
		line.restore()
		h.becomes(widgets, one, "", false)
	})
}

// TestStatusReads: what was returned is not read again for each report. It logs how long the way
// from a WorkStatus to the object takes, beside a bare write and its event.
func TestStatusReads(t *testing.T) {
	h := newHub(t, "latency")
	h.start()
	ref := h.widget("one")
	h.wants(ref, 1)
	h.report(ref, 1, map[string]any{"count": 0})
	h.becomes(widgets, ref, `{"count":0}`, true)
	h.widget("bare") // no status is requested for it
	watcher, err := h.wds.Client.Resource(widgets).Namespace(h.ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	shown := func(is func(obj *unstructured.Unstructured) bool) {
		t.Helper()
		for event := range watcher.ResultChan() {
			if obj, ok := event.Object.(*unstructured.Unstructured); ok && is(obj) {
				return
			}
		}
		t.Fatal("the watch ended")
	}
	var took, bare []time.Duration
	for i := range 50 {
		start := time.Now()
		h.report(ref, 1, map[string]any{"count": i + 1})
		shown(func(obj *unstructured.Unstructured) bool {
			n, _, _ := unstructured.NestedInt64(obj.Object, "status", "count")
			return obj.GetName() == "one" && n == int64(i+1)
		})
		took = append(took, time.Since(start))
		start = time.Now()
		h.wds.patch(t, widgets, h.ns, "bare", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"n": fmt.Sprint(i)}}})
		shown(func(obj *unstructured.Unstructured) bool {
			return obj.GetName() == "bare" && obj.GetAnnotations()["n"] == fmt.Sprint(i)
		})
		bare = append(bare, time.Since(start))
	}
	slices.Sort(took)
	slices.Sort(bare)
	p50, machine := took[len(took)/2], bare[len(bare)/2]
	t.Logf("from the write of a WorkStatus to the object in the WDS: p50 %s, maximum %s; a bare write to its event: p50 %s", p50, took[len(took)-1], machine)
	if reads := h.sent.Reads(""); reads > 40 {
		t.Errorf("%d reads of the WDS for 50 changes of one object", reads)
	}
}

func hasLabel(obj *unstructured.Unstructured) bool {
	_, ok := obj.GetLabels()[singletonLabel]
	return ok
}
