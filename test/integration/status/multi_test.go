package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/testenv"
)

// shows waits until the object has a status of that form, made of that number of clusters ("" for
// none), in which the fields are as they are said to be, as JSON; "null" for those that are not
// there.
func (h *hub) shows(gvr schema.GroupVersionResource, ref objref.Ref, form, count string, fields map[string]string) {
	h.t.Helper()
	testenv.Eventually(h.t, patience, func() (bool, string) {
		obj := h.object(gvr, ref)
		status, _ := obj.Object["status"].(map[string]any)
		for field, want := range fields {
			if got := asJSON(status[field]); got != want {
				return false, fmt.Sprintf("%s is %s, want %s", field, got, want)
			}
		}
		got := obj.GetLabels()[countLabel]
		return formOf(obj) == form && got == count, fmt.Sprintf("form %q of %q clusters", formOf(obj), got)
	})
}

func replicas(n int) map[string]any {
	return map[string]any{
		"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": n, "availableReplicas": n,
		"conditions": []any{map[string]any{"type": "Available", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
	}
}

func TestStatusOfSeveralClusters(t *testing.T) {
	h := newHub(t, "several")
	h.start()
	h.wds.create(t, deployments, deployment(h.ns, "d"))
	ref := objref.New(deployments.GroupResource(), h.ns, "d")
	const available = `[{"lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":null,"reason":"R","status":"True","type":"Available"}]`

	h.wantsAll(ref, 1, 2)
	h.shows(deployments, ref, "", "2", map[string]string{"replicas": "null"})
	t.Run("OneHasReported", func(t *testing.T) {
		h := h.in(t)
		h.report(ref, 1, replicas(3))
		h.shows(deployments, ref, multiLabel, "2", map[string]string{"replicas": "3", "readyReplicas": "null", "observedGeneration": "null"})
		conditions := asJSON(h.object(deployments, ref).Object["status"].(map[string]any)["conditions"])
		for _, part := range []string{`"message":"clusters whose status is not known: several-2"`, `"type":"starling.io/Incomplete"`, `"message":"not reported by several-2"`} {
			if !strings.Contains(conditions, part) {
				t.Errorf("conditions are %s, want %s in them", conditions, part)
			}
		}
	})
	t.Run("AllHaveReported", func(t *testing.T) {
		h := h.in(t)
		h.report(ref, 2, replicas(2))
		h.shows(deployments, ref, multiLabel, "2", map[string]string{"replicas": "3", "readyReplicas": "2", "conditions": available})
	})
	t.Run("OverwrittenBySomebody", func(t *testing.T) {
		h := h.in(t)
		h.wds.setStatus(t, deployments, h.ns, "d", map[string]any{"readyReplicas": 3, "conditions": nil})
		h.shows(deployments, ref, multiLabel, "2", map[string]string{"readyReplicas": "2", "conditions": available})
	})
	t.Run("LabelsTakenBySomebody", func(t *testing.T) {
		h := h.in(t)
		h.wds.patch(t, deployments, h.ns, "d", map[string]any{"metadata": map[string]any{"labels": map[string]any{multiLabel: nil, countLabel: "7", singletonLabel: "x"}}})
		h.shows(deployments, ref, multiLabel, "2", map[string]string{"readyReplicas": "2"})
	})
	t.Run("RestartWritesNothing", func(t *testing.T) {
		h := h.in(t)
		h.sent.Idle(t)
		h.stop()
		h.start()
		h.sent.Nothing(t, "", 0)
		h.stop()
	})
	h.start() // the subtest's stopped with it
	t.Run("ReportGone", func(t *testing.T) {
		h := h.in(t)
		h.its.Delete(t, workStatuses, h.ns+"-2", corestatus.ReportName(ref))
		h.shows(deployments, ref, multiLabel, "2", map[string]string{"replicas": "3", "readyReplicas": "null"})
	})
	t.Run("ToOneClusterAndBack", func(t *testing.T) {
		h := h.in(t)
		h.wantsAll(ref, 1)
		h.shows(deployments, ref, singletonLabel, "1", map[string]string{"readyReplicas": "3"})
		h.report(ref, 2, replicas(1))
		h.ask(ref, match.Requests{
			Singleton: true, SingletonClusters: h.mailboxes([]int{1}), MultiWEC: true, MultiWECClusters: h.mailboxes([]int{2}),
		})
		h.shows(deployments, ref, multiLabel, "2", map[string]string{"readyReplicas": "1"})
		h.wants(ref, 1, 2) // a singleton of two
		h.shows(deployments, ref, "", "2", map[string]string{"replicas": "null", "readyReplicas": "null", "conditions": "null"})
		h.wantsAll(ref, 2, 1)
		h.shows(deployments, ref, multiLabel, "2", map[string]string{"readyReplicas": "1"})
	})
	t.Run("NotRequestedAnyMore", func(t *testing.T) {
		h := h.in(t)
		h.wants(ref)
		h.shows(deployments, ref, "", "", map[string]string{"replicas": "null", "readyReplicas": "null", "conditions": "null"})
	})
	if text := h.errors.with(ref); text != "" {
		t.Errorf("reported an error: %s", text)
	}
}

// TestStatusThatMustNotDecrease: fields whose decrease or removal the validation of the WDS refuses
// stay as they are, and no error is reported.
func TestStatusThatMustNotDecrease(t *testing.T) {
	h := newHub(t, "goback")
	h.start()
	t.Run("Collisions", func(t *testing.T) {
		h := h.in(t)
		h.wds.create(t, deployments, deployment(h.ns, "d"))
		ref := objref.New(deployments.GroupResource(), h.ns, "d")
		h.report(ref, 1, map[string]any{"replicas": 1, "collisionCount": 3})
		h.report(ref, 2, map[string]any{"replicas": 2, "collisionCount": 1})
		h.wants(ref, 1)
		h.shows(deployments, ref, singletonLabel, "1", map[string]string{"replicas": "1", "collisionCount": "3"})
		h.wants(ref, 2)
		h.shows(deployments, ref, singletonLabel, "1", map[string]string{"replicas": "2", "collisionCount": "3"})
		h.wants(ref)
		h.shows(deployments, ref, "", "", map[string]string{"replicas": "null", "collisionCount": "3"})
		if text := h.errors.with(ref); text != "" {
			t.Errorf("reported an error: %s", text)
		}
	})
	t.Run("Jobs", func(t *testing.T) {
		h := h.in(t)
		h.wds.create(t, jobs, map[string]any{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "j", "namespace": h.ns},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never", "containers": []any{map[string]any{"name": "c", "image": "example.com/none"}},
			}}},
		})
		ref := objref.New(jobs.GroupResource(), h.ns, "j")
		condition := func(name string) any { return map[string]any{"type": name, "status": "True", "reason": "R"} }
		done := map[string]any{
			"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z", "succeeded": 1, "ready": 0,
			"conditions": []any{condition("SuccessCriteriaMet"), condition("Complete")},
		}
		h.wantsAll(ref, 1, 2)
		h.report(ref, 1, done)
		h.shows(jobs, ref, multiLabel, "2", map[string]string{"completionTime": "null", "succeeded": "null", "startTime": `"2026-01-01T00:00:00Z"`})
		h.report(ref, 2, map[string]any{"startTime": "2026-01-01T00:00:30Z", "active": 1, "ready": 1})
		h.shows(jobs, ref, multiLabel, "2", map[string]string{"active": "1", "completionTime": "null"})
		h.report(ref, 2, done)
		h.shows(jobs, ref, multiLabel, "2", map[string]string{"active": "null", "succeeded": "1", "completionTime": `"2026-01-01T00:01:00Z"`})
		h.report(ref, 2, map[string]any{"startTime": "2026-01-01T00:05:00Z", "active": 1}) // re-created there
		h.stays(jobs, ref, asJSON(h.object(jobs, ref).Object["status"]), multiLabel)
		h.wants(ref)
		h.shows(jobs, ref, "", "", map[string]string{"succeeded": "1", "completionTime": `"2026-01-01T00:01:00Z"`})
		if text := h.errors.with(ref); text != "" {
			t.Errorf("reported an error: %s", text)
		}
	})
}

// TestStatusThatTheWDSRefuses: the error is reported, the rest of the status is returned, and
// nothing is written repeatedly.
func TestStatusThatTheWDSRefuses(t *testing.T) {
	h := newHub(t, "refused")
	fake := clocktesting.NewFakeClock(time.Now())
	h.clock = fake
	h.start()
	expectError := func(t *testing.T, ref objref.Ref, parts ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			text := h.errors.with(ref)
			for _, part := range parts {
				if !strings.Contains(text, part) {
					return false, fmt.Sprintf("the error is %q, want it to contain %q", text, part)
				}
			}
			return len(parts) > 0 || text == "", "still reported: " + text
		})
	}
	create := func(t *testing.T, gvr schema.GroupVersionResource, kind, name string) objref.Ref {
		t.Helper()
		h.wds.create(t, gvr, map[string]any{
			"apiVersion": gvr.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name, "namespace": h.ns},
		})
		return objref.New(gvr.GroupResource(), h.ns, name)
	}
	t.Run("AField", func(t *testing.T) {
		h := h.in(t)
		ref := create(t, pickies, "Picky", "p")
		h.wants(ref, 1)
		h.report(ref, 1, map[string]any{"count": 3, "ready": false})
		h.shows(pickies, ref, singletonLabel, "1", map[string]string{"count": "3", "ready": "false"})
		h.report(ref, 1, map[string]any{"count": 20, "ready": true})
		h.shows(pickies, ref, singletonLabel, "1", map[string]string{"count": "3", "ready": "true"})
		expectError(t, ref, ".status.count", "less than or equal to 10")
		h.sent.Idle(t) // the event of what was written tries the refused field once more
		before := len(h.sent.Written(""))
		fake.Step(time.Hour)
		h.sent.Nothing(t, "", before)
		h.report(ref, 1, map[string]any{"count": 4, "ready": true})
		h.shows(pickies, ref, singletonLabel, "1", map[string]string{"count": "4", "ready": "true"})
		expectError(t, ref)
	})
	t.Run("TheRightIsMissing", func(t *testing.T) {
		h := h.in(t)
		one, two := create(t, things, "Thing", "one"), create(t, things, "Thing", "two")
		for _, ref := range []objref.Ref{one, two} {
			h.report(ref, 1, map[string]any{"count": 3})
			h.wants(ref, 1)
			expectError(t, ref, "kubectl create clusterrole status-return-things --verb=patch --resource=things.ungranted.example.com",
				"docs/custom-resources.md")
		}
		h.sent.Idle(t)
		before := len(h.sent.Written(""))
		h.report(one, 1, map[string]any{"count": 4})
		h.sent.Nothing(t, "", before)
		h.wds.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: status-return-things}
rules: [{apiGroups: [ungranted.example.com], resources: [things], verbs: [patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: status-return-things}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: status-return-things}
subjects: [{kind: ServiceAccount, name: binding-controller, namespace: starling-system}]`)
		testenv.Eventually(t, patience, func() (bool, string) {
			fake.Step(time.Minute)
			return h.errors.with(one)+h.errors.with(two) == "", "still reported: " + h.errors.with(one)
		})
		h.shows(things, one, singletonLabel, "1", map[string]string{"count": "4"})
		h.shows(things, two, singletonLabel, "1", map[string]string{"count": "3"})
		expectError(t, one)
		expectError(t, two)
	})
}

// TestStatusReturnEditsNothing: what status return writes into an object moves neither its
// generation nor anything that is delivered.
func TestStatusReturnEditsNothing(t *testing.T) {
	h := newHub(t, "noedit")
	h.start()
	before := h.wds.create(t, deployments, deployment(h.ns, "d"))
	ref := objref.New(deployments.GroupResource(), h.ns, "d")
	h.report(ref, 1, replicas(3))
	h.report(ref, 2, replicas(3))
	h.wantsAll(ref, 1, 2)
	h.shows(deployments, ref, multiLabel, "2", map[string]string{"readyReplicas": "3"})
	after := h.object(deployments, ref)
	for _, obj := range []*unstructured.Unstructured{before, after} {
		obj.SetManagedFields(nil)
		obj.SetResourceVersion("")
		delete(obj.Object, "status")
	}
	after.SetLabels(nil) // it had none
	if got, want := asJSON(after.Object), asJSON(before.Object); got != want {
		t.Errorf("the object was\n%s\nand is\n%s", want, got)
	}
	if after.GetGeneration() != 1 {
		t.Errorf("generation is %d", after.GetGeneration())
	}
}
