package status

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/pace"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/statusagent/agent"
	"github.com/starlinghq/starling/test/testenv"
)

// wdsUID is the identity of the WDS that the works of these tests come from.
const wdsUID = "11111111-2222-3333-4444-555555555555"

func ourLabels() map[string]any {
	return map[string]any{"starling.io/wds-uid": wdsUID, "transport.kubestellar.io/originWdsName": "wds1"}
}

func manifestWork(cluster, name string, labels map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
		"metadata": map[string]any{"name": name, "namespace": cluster, "labels": labels},
		"spec":     map[string]any{"workload": map[string]any{"manifests": []any{}}},
	}
}

// member is a cluster with its agent, in which the tests play OCM's work agent.
type member struct {
	t        *testing.T
	cluster  string
	its, wec *space
	hub      *rest.Config
	own      *rest.Config
	clock    clock.WithTicker
	pace     pace.Limit
	sent     *testenv.Traffic
	stop     func()
}

// enroll joins a cluster. Its objects live in a namespace of its name.
func enroll(t *testing.T, cluster string) *member {
	t.Helper()
	_, its, wec := fleet(t)
	m := &member{t: t, cluster: cluster, its: its, wec: wec, clock: clock.RealClock{}, pace: pace.PerSecond(20, 1000)}
	m.hub, m.own = join(t, cluster)
	wec.namespace(t, cluster)
	return m
}

// in returns m for a subtest.
func (m *member) in(t *testing.T) *member {
	t.Helper()
	sub := *m
	sub.t = t
	return &sub
}

// start starts the agent.
func (m *member) start() *agent.Agent {
	m.t.Helper()
	excluded, err := corestatus.ParseExcluded(corestatus.DefaultExcludeKinds())
	if err != nil {
		m.t.Fatal(err)
	}
	m.sent = &testenv.Traffic{}
	a, err := agent.New(agent.Config{
		Cluster: m.cluster, Hub: m.sent.Count(m.hub), WEC: m.sent.Count(m.own), Excluded: excluded, Reports: m.pace, Clock: m.clock,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.stop = testenv.Run(m.t, testenv.Workers(a.Run, 4))
	testenv.Ready(m.t, a.Ready)
	return a
}

// work creates a work in the mailbox and its counterpart in the WEC.
func (m *member) work(name string, labels map[string]any) *unstructured.Unstructured {
	m.t.Helper()
	m.its.create(m.t, manifestWorks, manifestWork(m.cluster, name, labels))
	return m.wec.create(m.t, appliedWorks, map[string]any{
		"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
		"metadata": map[string]any{"name": "hash-" + m.cluster + "-" + name},
		"spec":     map[string]any{"hubHash": "hash", "agentID": "agent", "manifestWorkName": name},
	})
}

// holds says which objects the work holds in the WEC.
func (m *member) holds(work string, refs ...objref.Ref) {
	m.t.Helper()
	resources := make([]any, 0, len(refs))
	for _, ref := range refs {
		resources = append(resources, map[string]any{
			"group": ref.Group, "version": "v1", "resource": ref.Resource, "namespace": ref.Namespace, "name": ref.Name, "uid": "u",
		})
	}
	m.wec.setStatus(m.t, appliedWorks, "", "hash-"+m.cluster+"-"+work, map[string]any{"appliedResources": resources})
}

// widget creates an object in the WEC that the work owns; nil for one that is orphaned.
func (m *member) widget(name string, owner *unstructured.Unstructured) objref.Ref {
	m.t.Helper()
	obj := map[string]any{
		"apiVersion": "test.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": m.cluster}, "spec": map[string]any{"size": 1},
	}
	if owner != nil {
		obj["metadata"].(map[string]any)["ownerReferences"] = ownedBy(owner)
	}
	m.wec.create(m.t, widgets, obj)
	return objref.New(widgets.GroupResource(), m.cluster, name)
}

func ownedBy(owner *unstructured.Unstructured) []any {
	return []any{map[string]any{
		"apiVersion": owner.GetAPIVersion(), "kind": owner.GetKind(), "name": owner.GetName(), "uid": string(owner.GetUID()),
	}}
}

func (m *member) report(ref objref.Ref) *unstructured.Unstructured {
	m.t.Helper()
	return m.its.Get(m.t, workStatuses, m.cluster, corestatus.ReportName(ref))
}

// reports waits until the WorkStatus of the object has that status, as JSON; "" for none, "deleted"
// if it says that somebody has deleted the object, "gone" for no WorkStatus.
func (m *member) reports(ref objref.Ref, want string) *unstructured.Unstructured {
	m.t.Helper()
	var ws *unstructured.Unstructured
	testenv.Eventually(m.t, patience, func() (bool, string) {
		ws = m.report(ref)
		got := "gone"
		if ws != nil {
			got = ""
			if status, ok := ws.Object["status"]; ok {
				got = asJSON(status)
			}
			if ws.GetAnnotations()[controlv1alpha1.AnnotationGone] == "true" {
				got += "deleted"
			}
		}
		return got == want, "the WorkStatus of " + ref.String() + " is " + got
	})
	return ws
}

func TestAgentReports(t *testing.T) {
	m := enroll(t, "reports")
	m.start()
	w := m.work("w", ourLabels())
	ref := m.widget("one", w)
	m.holds("w", ref)

	ws := m.reports(ref, "") // existence is status
	if got, want := asJSON(ws.Object["spec"]), `{"sourceRef":{"group":"test.example.com","kind":"Widget","name":"one","namespace":"reports","resource":"widgets","version":"v1"}}`; got != want {
		t.Errorf("spec %s, want %s", got, want)
	}
	if got, want := asJSON(ws.GetLabels()), asJSON(ourLabels()); got != want {
		t.Errorf("labels %s, want %s", got, want)
	}

	t.Run("StatusIsCopied", func(t *testing.T) {
		m := m.in(t)
		m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"ready": true, "count": 1, "items": []any{"a", "b"}})
		m.reports(ref, `{"count":1,"items":["a","b"],"ready":true}`)
		m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"ready": nil, "count": 2, "items": []any{"b"}})
		m.reports(ref, `{"count":2,"items":["b"]}`)
	})
	t.Run("StatusIsRemoved", func(t *testing.T) {
		m := m.in(t)
		m.wec.patch(t, widgets, m.cluster, "one", map[string]any{"status": nil}, "status")
		m.reports(ref, "")
		m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": 7})
		m.reports(ref, `{"count":7}`)
	})
	t.Run("DeletedByHand", func(t *testing.T) {
		m := m.in(t)
		uid := m.report(ref).GetUID()
		m.its.Delete(t, workStatuses, m.cluster, corestatus.ReportName(ref))
		testenv.Eventually(t, patience, func() (bool, string) {
			ws := m.report(ref)
			return ws != nil && ws.GetUID() != uid && asJSON(ws.Object["status"]) == `{"count":7}`, "not healed"
		})
	})
	t.Run("EditedByHand", func(t *testing.T) {
		m := m.in(t)
		name := corestatus.ReportName(ref)
		m.its.patch(t, workStatuses, m.cluster, name, map[string]any{"status": map[string]any{"count": 99, "extra": 1}}, "status")
		m.its.patch(t, workStatuses, m.cluster, name, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"starling.io/wds-uid": "forged", "kept": "x"}},
			"spec":     map[string]any{"sourceRef": map[string]any{"name": "other", "kind": nil}},
		})
		testenv.Eventually(t, patience, func() (bool, string) {
			ws := m.report(ref)
			state := asJSON(ws.Object["spec"]) + asJSON(ws.GetLabels()) + asJSON(ws.Object["status"])
			return strings.Contains(state, `"name":"one"`) && strings.Contains(state, `"kind":"Widget"`) &&
				strings.Contains(state, wdsUID) && strings.Contains(state, `"kept":"x"`) && strings.HasSuffix(state, `{"count":7}`), state
		})
	})
	t.Run("LabelsFollowTheWork", func(t *testing.T) {
		m := m.in(t)
		m.its.patch(t, manifestWorks, m.cluster, "w", map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"transport.kubestellar.io/originWdsName": "renamed"}},
		})
		testenv.Eventually(t, patience, func() (bool, string) {
			labels := m.report(ref).GetLabels()
			return labels["transport.kubestellar.io/originWdsName"] == "renamed", asJSON(labels)
		})
	})
	t.Run("MovedToAnotherWork", func(t *testing.T) {
		m := m.in(t)
		uid := m.report(ref).GetUID()
		m.work("w2", ourLabels())
		m.holds("w2", ref)
		m.holds("w")
		testenv.Never(t, testenv.Held, func() string {
			if ws := m.report(ref); ws == nil || ws.GetUID() != uid {
				return "the WorkStatus did not stay"
			}
			return ""
		})
	})
	t.Run("ObjectDeleted", func(t *testing.T) {
		m := m.in(t)
		m.wec.Delete(t, widgets, m.cluster, "one")
		m.reports(ref, "deleted")
	})
	t.Run("ObjectBack", func(t *testing.T) {
		m := m.in(t)
		m.widget("one", w)
		m.reports(ref, "")
	})
	t.Run("Released", func(t *testing.T) {
		m := m.in(t)
		m.holds("w2")
		m.reports(ref, "gone")
		if m.wec.Get(t, widgets, m.cluster, "one") == nil {
			t.Error("the object is gone")
		}
	})
}

// TestAgentTellsDeliveriesFromClaims: the report on an object is for all WDSes that deliver it, and
// for none that only claims it, however old their works are and whatever the object itself says.
func TestAgentTellsDeliveriesFromClaims(t *testing.T) {
	m := enroll(t, "claims")
	m.start()
	const otherUID = "99999999-2222-3333-4444-555555555555"
	older := m.work("older", map[string]any{"starling.io/wds-uid": otherUID, "transport.kubestellar.io/originWdsName": "wds2"})
	ref := m.widget("one", older)
	m.work("younger", ourLabels())
	m.holds("older", ref)
	m.holds("younger", ref)
	claims := func(work string, refs ...objref.Ref) {
		t.Helper()
		m.its.patch(t, manifestWorks, m.cluster, work, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"starling.io/claims": string(corestatus.NewClaims(refs))}},
		})
	}
	isFor := func(wds, uids string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			ws := m.report(ref)
			if ws == nil {
				return wds == "", "no report"
			}
			got := []string{ws.GetLabels()["starling.io/wds-uid"], ws.GetAnnotations()["starling.io/wds-uids"]}
			return slices.Equal(got, []string{wds, uids}), fmt.Sprintf("the report is for %q", got)
		})
	}
	isFor("several", wdsUID+","+otherUID)
	claims("older", ref)
	isFor(wdsUID, "")
	m.wec.patch(t, widgets, m.cluster, "one", map[string]any{"metadata": map[string]any{
		"labels": map[string]any{"starling.io/wds-uid": otherUID, "transport.kubestellar.io/originWdsName": "wds2"},
		"annotations": map[string]any{
			"starling.io/claims": string(corestatus.NewClaims([]objref.Ref{ref})), "starling.io/wds-uids": otherUID + "," + wdsUID,
		},
	}})
	m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": 1})
	m.reports(ref, `{"count":1}`)
	isFor(wdsUID, "")
	m.its.patch(t, workStatuses, m.cluster, corestatus.ReportName(ref), map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"starling.io/wds-uids": otherUID}},
	})
	isFor(wdsUID, "")
	claims("younger", ref)
	isFor("", "")
	claims("older")
	isFor(otherUID, "")
	claims("younger")
	isFor("several", wdsUID+","+otherUID)
}

// reportBurst is how many changes of one object are reported at once.
const reportBurst = 5

// TestAgentWritesOncePerSecond uses a fake clock, so that it does not depend on the speed of the
// machine: the first changes are written while the clock stands still, and then one for each step
// of the clock.
func TestAgentWritesOncePerSecond(t *testing.T) {
	m := enroll(t, "quiet")
	fake := clocktesting.NewFakeClock(time.Now())
	m.clock = fake
	m.start()
	ref := m.widget("one", m.work("w-quiet", ourLabels()))
	m.holds("w-quiet", ref)
	// becomes advances the clock by a second at a time until the status is reported, and returns
	// how often it did.
	becomes := func(count int) (seconds int) {
		t.Helper()
		want := fmt.Sprintf(`{"count":%d}`, count)
		testenv.Eventually(t, patience, func() (bool, string) {
			if ws := m.report(ref); ws != nil && asJSON(ws.Object["status"]) == want {
				return true, ""
			}
			fake.Step(time.Second)
			seconds++
			return false, "not reported: " + want
		})
		return seconds
	}
	set := func(count int) {
		t.Helper()
		m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": count})
	}
	set(1)
	becomes(1)
	m.sent.Idle(t)
	fake.Step(time.Minute)

	first := len(m.sent.Written(""))
	for i := range reportBurst {
		set(2 + i)
		m.reports(ref, fmt.Sprintf(`{"count":%d}`, 2+i)) // at once
	}
	before := len(m.sent.Written(""))
	if before-first != reportBurst {
		t.Errorf("%d writes of %d changes", before-first, reportBurst)
	}
	for i := range 40 {
		set(100 + i)
	}
	if writes := m.sent.Written("")[before:]; len(writes) > 0 {
		t.Errorf("written again in the same second: %v", writes)
	}
	m.sent.Nothing(t, "", before)
	seconds := becomes(139)
	if writes := m.sent.Written("")[before:]; len(writes) > seconds {
		t.Errorf("%d writes in %d seconds", len(writes), seconds)
	}
}

// TestAgentReportsChangesInARow: with the real clock, each change of a status is reported, with one
// write, also when there are more of them in a row than are reported at once.
func TestAgentReportsChangesInARow(t *testing.T) {
	m := enroll(t, "row")
	m.start()
	ref := m.widget("one", m.work("w-row", ourLabels()))
	m.holds("w-row", ref)
	m.reports(ref, "")
	m.sent.Idle(t) // for longer than the one report of before counts

	before := len(m.sent.Written(""))
	for i := range reportBurst + 1 {
		m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": i})
		m.reports(ref, fmt.Sprintf(`{"count":%d}`, i))
	}
	m.sent.Idle(t)
	if writes := m.sent.Written("")[before:]; len(writes) != reportBurst+1 {
		t.Errorf("want %d writes, got: %v", reportBurst+1, writes)
	}
	m.reports(ref, `{"count":5}`)
}

// TestAgentLimitsAllReports: the limit of all objects together holds, and each object gets its turn
// with its newest status.
func TestAgentLimitsAllReports(t *testing.T) {
	m := enroll(t, "together")
	fake := clocktesting.NewFakeClock(time.Now())
	m.clock = fake
	const burst, objects = 4, 6
	m.pace = pace.PerSecond(2, burst)
	w := m.work("w-together", ourLabels()) // a name of its own: a work of another test would take turns
	var refs []objref.Ref
	for i := range objects {
		name := fmt.Sprintf("o%d", i)
		refs = append(refs, m.widget(name, w))
		m.wec.setStatus(t, widgets, m.cluster, name, map[string]any{"count": 1})
	}
	m.holds("w-together", refs...)
	m.start()
	statuses := func() (current []objref.Ref) {
		for _, write := range m.sent.Written("/status") {
			for _, ref := range refs {
				if strings.HasSuffix(write.Path, "/"+corestatus.ReportName(ref)+"/status") {
					current = append(current, ref)
				}
			}
		}
		return current
	}
	expect := func(want int) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			got := len(statuses())
			return got >= want, fmt.Sprintf("%d reports, want %d", got, want)
		})
		testenv.Never(t, testenv.Held, func() string {
			if got := len(statuses()); got > want {
				return fmt.Sprintf("%d reports, the limit allows %d", got, want)
			}
			return ""
		})
	}
	expect(burst)
	for _, ref := range refs {
		m.wec.setStatus(t, widgets, m.cluster, ref.Name, map[string]any{"count": 2})
	}
	expect(burst)
	fake.Step(500 * time.Millisecond)
	expect(burst + 1)
	fake.Step(500 * time.Millisecond)
	expect(burst + 2)
	// All have had a turn, and the ones that waited have reported what is newest.
	seen := map[objref.Ref]int{}
	for _, ref := range statuses() {
		seen[ref]++
	}
	if len(seen) != objects {
		t.Errorf("reported: %v", seen)
	}
	for _, ref := range statuses()[burst:] {
		m.reports(ref, `{"count":2}`)
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		fake.Step(500 * time.Millisecond)
		for _, ref := range refs {
			if got := asJSON(m.report(ref).Object["status"]); got != `{"count":2}` {
				return false, ref.String() + " is reported as " + got
			}
		}
		return true, ""
	})
	m.sent.Idle(t)
	if got := len(statuses()); got != burst+objects {
		t.Errorf("%d reports, want %d", got, burst+objects)
	}
}

// TestAgentWithoutARight: a kind that the agent may not read is read less and less often, and at
// once when the work with its rights is applied.
func TestAgentWithoutARight(t *testing.T) {
	m := enroll(t, "noright")
	fake := clocktesting.NewFakeClock(time.Now())
	m.clock = fake
	w := m.work("w-noright", ourLabels())
	m.wec.create(t, things, map[string]any{
		"apiVersion": "ungranted.example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "one", "namespace": m.cluster, "ownerReferences": ownedBy(w)},
	})
	thing, widget := objref.New(things.GroupResource(), m.cluster, "one"), m.widget("one", w)
	m.holds("w-noright", thing, widget)
	m.start()
	m.reports(widget, "")
	const path = "/apis/ungranted.example.com/v1/things"
	attempts := 0 // each is one or two requests
	reads := func() {
		t.Helper()
		before := attempts
		testenv.Eventually(t, patience, func() (bool, string) { return m.sent.Reads(path) > before, "not read again" })
		testenv.Still(t, testenv.Held, func() int { return m.sent.Reads(path) })
		attempts = m.sent.Reads(path)
	}
	reads()
	for _, delay := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		fake.Step(delay - time.Millisecond)
		testenv.Never(t, testenv.Held, func() string {
			if m.sent.Reads(path) > attempts {
				return "read again too early"
			}
			return ""
		})
		fake.Step(time.Millisecond)
		reads()
	}

	// The right, as OCM's agent brings it; the clock stands still.
	m.wec.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: noright-things}
rules:
- {apiGroups: [ungranted.example.com], resources: [things], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: noright-things}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: noright-things}
subjects:
- {kind: ServiceAccount, name: status-agent-sa, namespace: open-cluster-management-agent-addon}
`)
	own, err := dynamic.NewForConfig(m.own)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := own.Resource(things).List(t.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint("the right is not in force: ", err)
	})
	testenv.Never(t, testenv.Held, func() string {
		if m.sent.Reads(path) > attempts {
			return "read again too early"
		}
		return ""
	})
	m.its.create(t, manifestWorks, manifestWork(m.cluster, "addon-addon-status-kinds", nil))
	m.reports(thing, "")
	m.wec.setStatus(t, things, m.cluster, "one", map[string]any{"count": 1})
	m.reports(thing, `{"count":1}`)
}

// TestAgentReportsUnobservedChanges: if no controller in the cluster observes a change, the agent
// reports that; otherwise the old status would pass for the current one. A change that is observed
// costs only the write of the resulting status.
func TestAgentReportsUnobservedChanges(t *testing.T) {
	m := enroll(t, "unnoticed")
	m.start()
	w := m.work("w", ourLabels())
	ref := m.widget("one", w)
	m.holds("w", ref)
	m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"observedGeneration": 1})
	m.reports(ref, `{"observedGeneration":1}`)
	m.sent.Idle(t)

	before := len(m.sent.Written(""))
	edit := func(size int) {
		m.wec.patch(t, widgets, m.cluster, "one", map[string]any{"spec": map[string]any{"size": size}})
	}
	edit(2)
	m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"observedGeneration": 2})
	m.reports(ref, `{"observedGeneration":2}`)
	m.sent.Idle(t)
	if writes := m.sent.Written("")[before:]; len(writes) != 1 {
		t.Errorf("a change that was observed cost %v", writes)
	}

	becomes := func(status, generation string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			ws := m.report(ref)
			got := asJSON(ws.Object["status"]) + " of generation " + ws.GetAnnotations()["starling.io/generation"]
			return got == status+" of generation "+generation, got
		})
	}
	edit(3)
	becomes(`{"observedGeneration":2}`, "3")
	m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"observedGeneration": 3})
	becomes(`{"observedGeneration":3}`, "")
}

func TestAgentReportsOurObjectsOnly(t *testing.T) {
	m := enroll(t, "ours")
	m.start()
	foreign := m.work("foreign", map[string]any{"app": "x"})
	w := m.work("w", ourLabels())
	notOurs, mine, both, unlisted := m.widget("foreign", foreign), m.widget("mine", w), m.widget("both", w), m.widget("unlisted", w)
	orphaned := m.widget("orphaned", nil)
	m.wec.setStatus(t, widgets, m.cluster, "orphaned", map[string]any{"count": 3})
	m.wec.create(t, configMaps, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "excluded", "namespace": m.cluster, "ownerReferences": ownedBy(w)},
	})
	excluded := objref.New(configMaps.GroupResource(), m.cluster, "excluded")
	m.holds("foreign", notOurs, both)
	m.holds("w", mine, both, orphaned, excluded)

	m.reports(mine, "")
	m.reports(both, "")
	m.reports(orphaned, `{"count":3}`)
	m.wec.setStatus(t, widgets, m.cluster, "orphaned", map[string]any{"count": 4})
	m.reports(orphaned, `{"count":4}`)
	testenv.Never(t, testenv.Held, func() string {
		for _, ref := range []objref.Ref{notOurs, unlisted, excluded} {
			if m.report(ref) != nil {
				return ref.String() + " is reported"
			}
		}
		return ""
	})
	// A stranger's WorkStatus stays; a forged one with our label goes.
	for name, labels := range map[string]map[string]any{"stranger": {"app": "x"}, "forged": ourLabels()} {
		m.its.create(t, workStatuses, map[string]any{
			"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
			"metadata": map[string]any{"name": name, "namespace": m.cluster, "labels": labels},
			"spec": map[string]any{"sourceRef": map[string]any{
				"group": mine.Group, "resource": mine.Resource, "namespace": mine.Namespace, "name": mine.Name,
			}},
		})
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		return m.its.Get(t, workStatuses, m.cluster, "forged") == nil, "the forged one is still there"
	})
	if m.its.Get(t, workStatuses, m.cluster, "stranger") == nil {
		t.Error("the stranger's is gone")
	}
	// A work that becomes nobody's: its mailbox side goes first, the objects are still there.
	m.its.Delete(t, manifestWorks, m.cluster, "w")
	testenv.Never(t, testenv.Held, func() string {
		if m.report(mine) == nil {
			return "a WorkStatus went because a work was not seen, with its object still there"
		}
		return ""
	})
	m.wec.Delete(t, widgets, m.cluster, "mine")
	m.reports(mine, "gone")
}

// TestAgentReportsNoFormerStatus: an object is re-created before the agent has reported that the
// former one is gone. No version of the WorkStatus has the status of the former one under the name
// of the new one, although its metadata and its status are two writes.
func TestAgentReportsNoFormerStatus(t *testing.T) {
	m := enroll(t, "former")
	m.start()
	w := m.work("w-former", ourLabels())
	var ref objref.Ref
	create := func(uid string, count int) {
		t.Helper()
		ref = m.widget("one", w)
		m.wec.patch(t, widgets, m.cluster, "one", map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			controlv1alpha1.AnnotationSourceGeneration: "0/" + uid,
		}}})
		m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": count})
	}
	create("u1", 1)
	m.holds("w-former", ref)
	last := m.reports(ref, `{"count":1}`)
	watch, err := m.its.Client.Resource(workStatuses).Namespace(m.cluster).Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: last.GetResourceVersion(), FieldSelector: "metadata.name=" + last.GetName(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	m.stop()
	m.wec.Delete(t, widgets, m.cluster, "one")
	create("u2", 2)
	m.start()

	var seen []string
	for event := range watch.ResultChan() {
		ws, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("watch: %v", event.Object)
		}
		seen = append(seen, ws.GetAnnotations()[controlv1alpha1.AnnotationSourceGeneration]+" "+asJSON(ws.Object["status"]))
		if len(seen) == 3 {
			break
		}
	}
	if diff := cmp.Diff([]string{"0/u1 null", "0/u2 null", `0/u2 {"count":2}`}, seen); diff != "" {
		t.Errorf("versions of the WorkStatus (-want +got):\n%s", diff)
	}
}

func TestAgentRestartWritesNothing(t *testing.T) {
	m := enroll(t, "restart")
	m.start()
	w := m.work("w", ourLabels())
	var refs []objref.Ref
	for _, name := range []string{"a", "b", "c"} {
		refs = append(refs, m.widget(name, w))
	}
	m.holds("w", refs...)
	m.wec.setStatus(t, widgets, m.cluster, "a", map[string]any{"count": 1, "inner": map[string]any{"a": "<&>", "b": "ü"}})
	m.reports(refs[0], `{"count":1,"inner":{"a":"\u003c\u0026\u003e","b":"ü"}}`)
	m.reports(refs[1], "")
	m.reports(refs[2], "")
	m.sent.Idle(t)
	m.stop()
	uid := m.report(refs[1]).GetUID()

	t.Run("Unchanged", func(t *testing.T) {
		m := m.in(t)
		m.start()
		m.sent.Nothing(t, "", 0)
		m.stop()
	})
	t.Run("ChangedMeanwhile", func(t *testing.T) {
		m := m.in(t)
		m.wec.setStatus(t, widgets, m.cluster, "a", map[string]any{"count": 2, "inner": nil})
		m.wec.Delete(t, widgets, m.cluster, "c")
		m.start()
		m.reports(refs[0], `{"count":2}`)
		m.reports(refs[2], "deleted")
		if writes := m.sent.Written(""); len(writes) != 2 {
			t.Errorf("want two writes, got: %v", writes)
		}
		if m.report(refs[1]).GetUID() != uid {
			t.Error("the WorkStatus of an object that did not change is another one")
		}
	})
}

func TestAgentWhenAKindGoes(t *testing.T) {
	m := enroll(t, "kinds")
	m.start()
	const kind = "sprockets"
	crd := func() {
		m.wec.Apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sprockets.test.example.com}
spec:
  group: test.example.com
  scope: Cluster
  names: {kind: Sprocket, listKind: SprocketList, plural: sprockets, singular: sprocket}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`)
	}
	sprockets := schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: kind}
	w := m.work("w", ourLabels())
	widget, sprocket := m.widget("one", w), objref.New(sprockets.GroupResource(), "", "s")
	create := func() {
		m.wec.ApplyObject(t, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "test.example.com/v1", "kind": "Sprocket", "metadata": map[string]any{"name": "s", "ownerReferences": ownedBy(w)},
		}})
	}
	// Held before it is served.
	m.holds("w", widget, sprocket)
	m.reports(widget, "")
	crd()
	create()
	m.reports(sprocket, "")

	testenv.DeleteKind(t, m.wec.Client, "sprockets.test.example.com")
	m.reports(sprocket, "gone")
	m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": 5})
	m.reports(widget, `{"count":5}`)

	testenv.Eventually(t, patience, func() (bool, string) {
		return m.wec.Get(t, crds, "", "sprockets.test.example.com") == nil, "the kind is still there"
	})
	crd()
	create()
	m.reports(sprocket, "")
}

// TestAgentStartsWithoutAKind: a kind that went while the agent was not running takes its
// WorkStatuses along, once it is sure that it went; and comes back.
func TestAgentStartsWithoutAKind(t *testing.T) {
	m := enroll(t, "kindgone")
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.gone.example.com}
spec:
  group: gone.example.com
  scope: Cluster
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[3]s}
  versions:
  - {name: v1, served: %[4]v, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`
	cogs := schema.GroupVersionResource{Group: "gone.example.com", Version: "v2", Resource: "cogs"}
	axles := schema.GroupVersionResource{Group: "gone.example.com", Version: "v2", Resource: "axles"}
	m.wec.Apply(t, fmt.Sprintf(definition, "cogs", "Cog", "cog", true))
	m.wec.Apply(t, fmt.Sprintf(definition, "axles", "Axle", "axle", true))
	w := m.work("w-kindgone", ourLabels())
	object := func(kind, name string) {
		m.wec.ApplyObject(t, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gone.example.com/v2", "kind": kind, "metadata": map[string]any{"name": name, "ownerReferences": ownedBy(w)},
		}})
	}
	object("Cog", "c")
	object("Axle", "a")
	cog, axle := objref.New(cogs.GroupResource(), "", "c"), objref.New(axles.GroupResource(), "", "a")
	m.holds("w-kindgone", cog, axle)
	m.start()
	m.reports(cog, "")
	m.reports(axle, "")
	m.stop()

	// One kind goes; of the other the version in which it was applied, so that its list is answered
	// alike.
	testenv.DeleteKind(t, m.wec.Client, "cogs.gone.example.com")
	m.wec.Apply(t, fmt.Sprintf(definition, "axles", "Axle", "axle", false))
	testenv.Eventually(t, patience, func() (bool, string) {
		return m.wec.Get(t, crds, "", "cogs.gone.example.com") == nil, "the kind is still there"
	})
	var silent atomic.Bool
	silent.Store(true)
	reachable := m.own
	m.own = withoutDiscovery(m.own, "/apis/gone.example.com", &silent)
	m.start()
	const asking = 7 * time.Second // longer than it takes to ask
	testenv.Never(t, asking, func() string {
		if m.report(cog) == nil {
			return "a WorkStatus went though discovery did not answer"
		}
		return ""
	})
	silent.Store(false)
	m.reports(cog, "gone")
	if m.report(axle) == nil {
		t.Error("the WorkStatus of an object that exists was deleted")
	}
	m.stop()
	m.own = reachable

	m.start()
	m.wec.Apply(t, fmt.Sprintf(definition, "cogs", "Cog", "cog", true))
	object("Cog", "c")
	m.reports(cog, "")
	m.reports(axle, "")
}

// withoutDiscovery returns the config of a space that does not answer below that path as long as it
// is silent.
func withoutDiscovery(config *rest.Config, path string, silent *atomic.Bool) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if silent.Load() && r.URL.Path == path {
				return nil, errors.New("no answer")
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

func TestAgentWhileTheHubIsDown(t *testing.T) {
	m := enroll(t, "hubloss")
	line := newWire(t, m.hub)
	m.hub = line.config
	m.start()
	w := m.work("w", ourLabels())
	one, two, gone := m.widget("one", w), m.widget("two", w), m.widget("gone", w)
	m.holds("w", one, two, gone)
	m.reports(one, "")
	m.reports(two, "")
	m.reports(gone, "")
	uid := m.report(two).GetUID()

	line.cut()
	for i := range 3 {
		m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": i})
	}
	m.wec.Delete(t, widgets, m.cluster, "gone")
	// Somebody edits what the agent cannot see.
	m.its.patch(t, workStatuses, m.cluster, corestatus.ReportName(two), map[string]any{"status": map[string]any{"count": 9}}, "status")
	testenv.Never(t, testenv.Held, func() string {
		if got := m.report(one).Object["status"]; got != nil {
			return "the hub is not cut off: " + asJSON(got)
		}
		return ""
	})

	line.restore()
	m.reports(one, `{"count":2}`)
	m.reports(gone, "deleted")
	m.reports(two, "")
	if m.report(two).GetUID() != uid {
		t.Error("a WorkStatus of an object that did not change is another one")
	}
}

func TestAgentRenewsItsLease(t *testing.T) {
	m := enroll(t, "lease")
	m.start()
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	start := time.Now().Add(-time.Second)
	testenv.Eventually(t, patience, func() (bool, string) {
		lease := m.wec.Get(t, leases, agentHome, addonName)
		if lease == nil {
			return false, "no Lease"
		}
		text, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
		renewed, err := time.Parse(metav1.RFC3339Micro, text)
		return err == nil && renewed.After(start), "renewed at " + text
	})
}

// wire is a connection to a space that can be cut.
type wire struct {
	config *rest.Config
	target string
	at     string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
}

func newWire(t *testing.T, config *rest.Config) *wire {
	t.Helper()
	w := &wire{target: strings.TrimPrefix(config.Host, "https://"), at: testenv.Address(t), open: map[net.Conn]struct{}{}}
	w.restore()
	w.config = rest.CopyConfig(config)
	w.config.Host = "https://" + w.at
	host, _, err := net.SplitHostPort(w.target)
	if err != nil {
		t.Fatal(err)
	}
	w.config.TLSClientConfig.ServerName = host
	t.Cleanup(w.cut)
	return w
}

func (w *wire) restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	listener, err := net.Listen("tcp", w.at)
	if err != nil {
		panic(err)
	}
	w.listener = listener
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", w.target)
			if err != nil {
				near.Close()
				continue
			}
			w.mu.Lock()
			w.open[near], w.open[far] = struct{}{}, struct{}{}
			if w.listener != listener { // cut since
				near.Close()
				far.Close()
			}
			w.mu.Unlock()
			for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
				go func() {
					defer to.Close()
					buffer := make([]byte, 32<<10)
					for {
						n, err := from.Read(buffer)
						if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
							return
						}
					}
				}()
			}
		}
	}()
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		w.listener.Close()
	}
	w.listener = nil
	for c := range w.open {
		c.Close()
	}
	clear(w.open)
}
