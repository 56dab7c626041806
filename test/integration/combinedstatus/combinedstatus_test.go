package combinedstatus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/test/testenv"
)

func (e *environment) configMap(name string) (*unstructured.Unstructured, objref.Ref) {
	e.t.Helper()
	return e.create(configMaps, e.name, name, map[string]any{"data": map[string]any{"replicas": "3"}}), objref.New(configMaps.GroupResource(), e.name, name)
}

// selectAll is a StatusCollector that shows what it can.
const selectAll = `{"select": [{"name": "c", "def": "inventory.name"}, {"name": "s", "def": "returned.status"},
	{"name": "known", "def": "propagation.lastReturnedUpdateTimestamp != null"}], "limit": 50}`

const counts = `{"groupBy": [{"name": "phase", "def": "returned.status.phase"}],
	"combinedFields": [{"name": "n", "type": "COUNT"}, {"name": "sum", "type": "SUM", "subject": "returned.status.?n"}], "limit": 50}`

func TestLife(t *testing.T) {
	e := newEnvironment(t)
	e.clusters(3)
	all, phases := e.collector("all", selectAll), e.collector("phases", counts)
	object, ref := e.configMap("o")
	policy := e.policy("p", nil, all, phases)
	c := e.start()

	// A row for each destination, also when nothing was reported.
	cs := e.shows(object, policy, `all: c, s, known
		c01, -, false
		c02, -, false
		c03, -, false
		phases: phase, n, sum
		! c01 phase: no such key: phase (and 2 more clusters)`)
	wantLabels := map[string]string{
		"status.kubestellar.io/api-group": "", "status.kubestellar.io/resource": "configmaps", "status.kubestellar.io/namespace": e.name,
		"status.kubestellar.io/name": "o", "status.kubestellar.io/binding-policy": policy.GetName(),
	}
	if diff := cmp.Diff(wantLabels, cs.Labels); diff != "" || len(cs.Annotations) != 0 {
		t.Errorf("annotations %v, labels (-want +got):\n%s", cs.Annotations, diff)
	}
	wantOwners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: object.GetUID()}}
	if diff := cmp.Diff(wantOwners, cs.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}

	e.report(ref, 1, `{"phase": "a", "n": 1.5, "list": [1, null, {"x": null, "<": 2.0}]}`)
	e.report(ref, 2, "") // it is there, without a status
	e.report(ref, 3, `{"phase": "a", "n": 2}`)
	e.shows(object, policy, `all: c, s, known
		c01, {"list":[1,null,{"<":2,"x":null}],"n":1.5,"phase":"a"}, true
		c02, -, true
		c03, {"n":2,"phase":"a"}, true
		phases: phase, n, sum
		a, #2, #3.5
		! c02 phase: no such key: phase`)

	t.Run("RestartWritesNothing", func(t *testing.T) {
		e := e.in(t)
		c.Idle(t)
		c.stop()
		c = e.start()
		e.becomesReady(c)
		c.Nothing(t, "", 0)
		c.stop()
	})
	c = e.start()
	e.report(ref, 2, `{"phase": ["b"], "n": "4"}`)
	e.report(ref, 3, `{"phase": ["b"], "n": "many"}`)
	e.report(ref, 1, "-")
	e.shows(object, policy, `all: c, s, known
		c01, -, false
		c02, {"n":"4","phase":["b"]}, true
		c03, {"n":"many","phase":["b"]}, true
		phases: phase, n, sum
		["b"], #2, #4
		! c01 phase: no such key: phase
		! sum: for WEC c03, failed to parse combinedField subject as a float: strconv.ParseFloat: parsing "many": invalid syntax`)

	// A change of an error alone is a change.
	e.report(ref, 3, `{"phase": ["b"], "n": "few"}`)
	e.shows(object, policy, `all: c, s, known
		c01, -, false
		c02, {"n":"4","phase":["b"]}, true
		c03, {"n":"few","phase":["b"]}, true
		phases: phase, n, sum
		["b"], #2, #4
		! c01 phase: no such key: phase
		! sum: for WEC c03, failed to parse combinedField subject as a float: strconv.ParseFloat: parsing "few": invalid syntax`)

	// A cluster less, a limit, and a collector less.
	e.patch(managed, "", e.clusterName(3), `{"metadata":{"labels":{"of":null}}}`)
	e.patch(collectors, "", all, `{"spec":{"limit":1}}`)
	e.patch(policies, "", policy.GetName(), `{"spec":{"downsync":[{"namespaces":["`+e.name+`"],"statusCollectors":["`+all+`"]}]}}`)
	e.shows(object, policy, `all: c, s, known
		c01, -, false
		1 omitted`)

	// The object is deleted, and re-created: it is another one.
	e.remove(configMaps, e.name, "o")
	e.gone(object, policy)
	again, _ := e.configMap("o")
	e.shows(again, policy, `all: c, s, known
		c01, -, false
		1 omitted`)
	e.remove(policies, "", policy.GetName())
	e.gone(again, policy)
}

func (e *environment) in(t *testing.T) *environment {
	sub := *e
	sub.t = t
	return &sub
}

func (e *environment) gone(object, policy *unstructured.Unstructured) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) { return e.of(object, policy) == nil, "the CombinedStatus is there" })
}

func TestMistakesInCollectors(t *testing.T) {
	e := newEnvironment(t)
	e.clusters(1)
	object, _ := e.configMap("o")
	policy := e.policy("p", nil, e.name+"-a", e.name+"-b")
	e.start()
	e.condition("p", "False ReconcileError: Missing StatusCollector(s) [a b]")
	e.shows(object, policy, "")

	errorsOf := func(name string, want ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			o, err := e.wds.Client.Resource(collectors).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			got, _, _ := unstructured.NestedStringSlice(o.Object, "status", "errors")
			generation, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			return slices.Equal(got, want) && generation == o.GetGeneration(), fmt.Sprintf("errors %q at generation %d", got, generation)
		})
	}
	a := e.collector("a", `{"select": [{"name": "x", "def": "nobody"}], "groupBy": [{"name": "g", "def": "1"}]}`)
	errorsOf(a, "groupBy and combinedFields must be empty if select is not", "groupBy must be empty if combinedFields is",
		"select expression (x) invalid: 1:1: undeclared reference to 'nobody'")
	e.condition("p", "False ReconcileError: Missing StatusCollector(s) [b]; StatusCollector(s) with errors, see their status.errors: [a]")

	b := e.collector("b", `{"select": [{"name": "c", "def": "inventory.name"}]}`)
	errorsOf(b)
	e.shows(object, policy, "b: c\nc01")
	e.condition("p", "False ReconcileError: StatusCollector(s) with errors, see their status.errors: [a]")
	o, err := e.wds.Client.Resource(collectors).Get(t.Context(), b, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if limit, _, _ := unstructured.NestedInt64(o.Object, "spec", "limit"); limit != 20 {
		t.Errorf("the limit is %d by default", limit)
	}

	// One that costs too much says so, and stops nobody else.
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	endless := "true"
	for i := range 7 {
		endless = fmt.Sprintf("%s.all(v%d, %s)", ten, i, endless)
	}
	e.patch(collectors, "", a, `{"spec":{"groupBy":null,"select":[{"name":"x","def":"`+endless+`"}]}}`)
	errorsOf(a)
	const cost = "the evaluation costs more than the limit of 50000: use fewer elements, or fewer nested loops"
	e.shows(object, policy, "a: x\n"+cost+"\n! c01 x: "+cost+"\nb: c\nc01")
	e.condition("p", "True ReconcileSuccess: All StatusCollector(s) are available")

	e.remove(collectors, "", a)
	e.shows(object, policy, "b: c\nc01")
	e.condition("p", "False ReconcileError: Missing StatusCollector(s) [a]")
	e.patch(policies, "", policy.GetName(), `{"spec":{"downsync":[{"namespaces":["`+e.name+`"]}]}}`)
	e.condition("p", "none")
	e.gone(object, policy)
}

func TestEditedCombinedStatusIsRestored(t *testing.T) {
	e := newEnvironment(t)
	e.clusters(1)
	object, ref := e.configMap("o")
	policy := e.policy("p", nil, e.collector("all", selectAll))
	c := e.start()
	e.report(ref, 1, `{"x": 1}`)
	const want = "all: c, s, known\nc01, {\"x\":1}, true"
	cs := e.shows(object, policy, want)
	healed := func(t *testing.T) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			now := e.of(object, policy)
			if now == nil || e.print(now) != want {
				return false, e.print(now)
			}
			same := maps.Equal(now.Labels, cs.Labels) && maps.Equal(now.Annotations, cs.Annotations) && cmp.Equal(now.OwnerReferences, cs.OwnerReferences)
			return same, fmt.Sprintf("labels %v, annotations %v, owners %v", now.Labels, now.Annotations, now.OwnerReferences)
		})
	}
	for name, patch := range map[string]string{
		"Results":     `{"results":[{"name":"mine","columnNames":["a"]}]}`,
		"NoResults":   `{"results":null}`,
		"Labels":      `{"metadata":{"labels":{"status.kubestellar.io/name":"other","status.kubestellar.io/resource":null}}}`,
		"AllLabels":   `{"metadata":{"labels":null}}`,
		"Annotations": `{"metadata":{"annotations":{"status.kubestellar.io/name":"other"}}}`,
		"Owner":       `{"metadata":{"ownerReferences":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			e.in(t).patch(combineds, cs.Namespace, cs.Name, patch)
			healed(t)
		})
	}
	t.Run("Deleted", func(t *testing.T) {
		e.in(t).remove(combineds, cs.Namespace, cs.Name)
		testenv.Eventually(t, patience, func() (bool, string) {
			now := e.of(object, policy)
			return now != nil && now.UID != cs.UID, "not re-created"
		})
		healed(t)
	})
	t.Run("ForeignLabelsStay", func(t *testing.T) {
		e := e.in(t)
		c.Idle(t)
		before := len(c.Written(cs.Name))
		e.patch(combineds, cs.Namespace, cs.Name, `{"metadata":{"labels":{"mine":"x"},"annotations":{"mine":"y"}}}`)
		c.Nothing(t, cs.Name, before)
		e.report(ref, 1, `{"x": 2}`)
		now := e.shows(object, policy, "all: c, s, known\nc01, {\"x\":2}, true")
		if now.Labels["mine"] != "x" || now.Annotations["mine"] != "y" {
			t.Errorf("labels %v, annotations %v", now.Labels, now.Annotations)
		}
	})
	t.Run("WhileNobodyRan", func(t *testing.T) {
		e := e.in(t)
		c.stop()
		e.patch(combineds, cs.Namespace, cs.Name, `{"metadata":{"annotations":{"status.kubestellar.io/name":"other"}},"results":null}`)
		other := e.policyUIDs(object) // one of a policy that is gone
		c := e.start()
		e.shows(object, policy, "all: c, s, known\nc01, {\"x\":2}, true")
		testenv.Eventually(t, patience, func() (bool, string) {
			_, err := e.wds.Client.Resource(combineds).Namespace(e.name).Get(t.Context(), other, metav1.GetOptions{})
			return apierrors.IsNotFound(err), "a CombinedStatus without a policy is there"
		})
		c.stop()
	})
}

// policyUIDs creates a CombinedStatus as one that KubeStellar left behind, of a policy that is
// gone, and returns its name.
func (e *environment) policyUIDs(object *unstructured.Unstructured) string {
	e.t.Helper()
	name := string(object.GetUID()) + ".00000000-0000-0000-0000-000000000000"
	e.create(combineds, e.name, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{
		"status.kubestellar.io/api-group": "", "status.kubestellar.io/resource": "configmaps", "status.kubestellar.io/namespace": e.name,
		"status.kubestellar.io/name": object.GetName(), "status.kubestellar.io/binding-policy": "gone",
	}}})
	return name
}

func TestNames(t *testing.T) {
	e := newEnvironment(t)
	e.clusters(1)
	all := e.collector("all", `{"select": [{"name": "s", "def": "returned.status"}]}`)
	e.start()

	t.Run("SameNameInTwoNamespaces", func(t *testing.T) {
		e := e.in(t)
		other := e.name + "-other"
		e.create(namespaces, "", other, nil)
		here, ref := e.configMap("same")
		there := e.create(configMaps, other, "same", nil)
		policy := e.policy("two", map[string]any{"namespaces": []any{e.name, other}, "objectNames": []any{"same"}}, all)
		e.report(ref, 1, `{"in": "here"}`)
		e.report(objref.New(configMaps.GroupResource(), other, "same"), 1, `{"in": "there"}`)
		e.shows(here, policy, "all: s\n{\"in\":\"here\"}")
		e.shows(there, policy, "all: s\n{\"in\":\"there\"}")
	})
	t.Run("ClusterScopedLongAndWithColons", func(t *testing.T) {
		e := e.in(t)
		name := e.name + ":reads:" + strings.Repeat("everything-", 10) + "end:"
		role := e.create(roles, "", name, nil)
		policy := e.policy("rbac", map[string]any{"resources": []any{"clusterroles"}, "objectNames": []any{name}}, all)
		e.report(objref.New(roles.GroupResource(), "", name), 1, "")
		cs := e.shows(role, policy, "all: s\n-")
		label := cs.Labels["status.kubestellar.io/name"]
		if len(label) != 63 || !strings.HasPrefix(label, e.name+"-reads-everything") {
			t.Errorf("the label is %q", label)
		}
		if diff := cmp.Diff(map[string]string{"status.kubestellar.io/name": name}, cs.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if cs.Namespace != "kubestellar-report" {
			t.Errorf("it is in %q", cs.Namespace)
		}
		e.patch(policies, "", policy.GetName(), `{"spec":{"downsync":[{"objectNames":["nothing"]}]}}`)
		e.gone(role, policy)
	})
	t.Run("NoOtherNamespaceCanBeMade", func(t *testing.T) {
		wds, err := dynamic.NewForConfig(e.in(t).identity("wds1"))
		if err != nil {
			t.Fatal(err)
		}
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": e.name + "-mine"}}}
		_, err = wds.Resource(namespaces).Create(t.Context(), ns, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "may create the namespace kubestellar-report and no other") {
			t.Errorf("created a namespace: %v", err)
		}
	})
}

func TestObjects(t *testing.T) {
	e := newEnvironment(t)
	e.clusters(2)
	object := e.create(deploys, e.name, "o", map[string]any{
		"spec": map[string]any{
			"replicas": int64(3), "selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}},
		},
	})
	ref := objref.New(deploys.GroupResource(), e.name, "o")
	secret := e.create(secrets, e.name, "s", map[string]any{"stringData": map[string]any{"key": "hush"}})
	policy := e.policy("p", nil, e.collector("obj", `{"select": [
		{"name": "missing", "def": "obj.?spec.?replicas.orValue(0) - returned.?status.?ready.orValue(0)"},
		{"name": "holds", "def": "obj.filter(k, k != 'spec' && k != 'metadata')"},
		{"name": "number", "def": "inventory.labels.number"}]}`))
	c := e.start()
	e.report(ref, 1, `{"ready": 1}`)
	cs := e.shows(object, policy, "obj: missing, holds, number\n#2, [\"apiVersion\",\"kind\"], 1\n#3, [\"apiVersion\",\"kind\"], 2")
	e.shows(secret, policy, "obj: missing, holds, number\n#0, [\"apiVersion\",\"kind\",\"type\"], 1\n#0, [\"apiVersion\",\"kind\",\"type\"], 2")

	path := "/apis/apps/v1/namespaces/" + e.name + "/deployments/o"
	c.Idle(t)
	reads, before := c.Reads(path), evaluations(t)
	e.patch(deploys, e.name, "o", `{"status":{"observedGeneration":1}}`, "status")
	e.report(ref, 2, `{"ready": 3}`)
	e.shows(object, policy, "obj: missing, holds, number\n#2, [\"apiVersion\",\"kind\"], 1\n#0, [\"apiVersion\",\"kind\"], 2")
	if n, rows := c.Reads(path)-reads, evaluations(t)-before; n != 0 || rows > 2 { // the report's creation and its status
		t.Errorf("a report and a change of status cost %d reads and %d evaluations", n, rows)
	}
	e.patch(deploys, e.name, "o", `{"spec":{"replicas":5}}`)
	e.shows(object, policy, "obj: missing, holds, number\n#4, [\"apiVersion\",\"kind\"], 1\n#2, [\"apiVersion\",\"kind\"], 2")
	if n := c.Reads(path) - reads; n != 1 {
		t.Errorf("an edit costs %d reads", n)
	}
	e.patch(managed, "", e.clusterName(2), `{"metadata":{"labels":{"number":"two"}}}`)
	e.shows(object, policy, "obj: missing, holds, number\n#4, [\"apiVersion\",\"kind\"], 1\n#2, [\"apiVersion\",\"kind\"], two")
	if got := e.of(object, policy); got.UID != cs.UID {
		t.Error("it was re-created")
	}
}

// TestUnknownClearsNothing: an ITS that does not answer, at a start, changes nothing.
func TestUnknownClearsNothing(t *testing.T) {
	e := newEnvironment(t)
	e.clusters(2)
	object, ref := e.configMap("o")
	all := e.collector("all", selectAll)
	policy := e.policy("p", nil, all)
	c := e.start()
	e.report(ref, 1, `{"x": 1}`)
	const want = "all: c, s, known\nc01, {\"x\":1}, true\nc02, -, false"
	cs := e.shows(object, policy, want)
	c.Idle(t)
	c.stop()

	unreachable := clusters.ITS{Name: "its1", Connect: func(ctx context.Context) (clusters.Source, error) {
		<-ctx.Done()
		return clusters.Source{}, ctx.Err()
	}}
	c = e.start(unreachable)
	testenv.Eventually(t, patience, func() (bool, string) {
		return !strings.Contains(fmt.Sprint(c.ready()), "BindingPolicies"), fmt.Sprint(c.ready())
	})
	c.Nothing(t, "combinedstatuses", 0)
	e.patch(collectors, "", all, `{"metadata":{"labels":{"touched":"yes"}}}`)
	c.Nothing(t, "combinedstatuses", 0)
	if now := e.of(object, policy); now == nil || now.ResourceVersion != cs.ResourceVersion {
		t.Errorf("it is %s now", e.print(now))
	}
	c.stop()
	c = e.start()
	e.becomesReady(c)
	e.report(ref, 2, `{"x": 2}`)
	e.shows(object, policy, "all: c, s, known\nc01, {\"x\":1}, true\nc02, {\"x\":2}, true")
}

// TestOneReportCostsItsRows: of many clusters, what did not report is not evaluated again; and
// under churn writes are few.
func TestOneReportCostsItsRows(t *testing.T) {
	e := newEnvironment(t)
	const n = 30
	e.clusters(n)
	object, ref := e.configMap("o")
	policy := e.policy("p", nil, e.collector("sum", `{"combinedFields": [{"name": "sum", "type": "SUM", "subject": "returned.?status.?n"}, {"name": "n", "type": "COUNT"}]}`),
		e.collector("two", `{"filter": "returned.?status.?n.orValue(0) > 1", "select": [{"name": "c", "def": "inventory.name"}]}`))
	c := e.start()
	for i := 1; i <= n; i++ {
		e.report(ref, i, `{"n": 1}`)
	}
	cs := e.shows(object, policy, "sum: sum, n\n#30, #30\ntwo: c")
	c.Idle(t)
	before, writes := evaluations(t), len(c.Written(cs.Name))
	e.report(ref, 7, `{"n": 5}`)
	e.shows(object, policy, "sum: sum, n\n#34, #30\ntwo: c\nc07")
	if rows, written := evaluations(t)-before, len(c.Written(cs.Name))-writes; rows != 2 || written != 1 {
		t.Errorf("one report costs %d evaluations and %d writes", rows, written)
	}
	c.Idle(t)
	writes = len(c.Written(cs.Name))
	start := time.Now()
	for i := range 60 {
		e.report(ref, 1+i%n, fmt.Sprintf(`{"n": %d}`, i))
	}
	e.report(ref, 1, `{"n": 1000}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		got := e.print(e.of(object, policy))
		return strings.HasPrefix(got, "sum: sum, n\n#2305,"), got // 31 to 59, and 1000
	})
	if most, written := 2+int(time.Since(start)/(500*time.Millisecond)), len(c.Written(cs.Name))-writes; written > most {
		t.Errorf("61 reports cost %d writes, want at most %d", written, most)
	}
}
