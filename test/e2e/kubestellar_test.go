package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// The stories of this file are those that KubeStellar promises its users and no other test tells:
// with its API, Starling must keep these promises. Each of them ends with nothing of it left.

var jobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// Selectors of one cluster, and of both in the way of KubeStellar's users: several selectors, one
// of which names a cluster that does not exist.
const (
	first  = "{matchLabels: {name: cluster1}}"
	second = "{matchLabels: {name: cluster2}}"
	either = first + ", {matchExpressions: [{key: name, operator: In, values: [cluster1, cluster2, no-such-cluster]}]}"
)

// deployment creates a Deployment of two replicas with these labels, in YAML.
func (s *story) deployment(name, labels string) {
	s.Helper()
	s.create("wds1", deployments, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: $NAME, labels: {%s}}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: server, image: "example.com/server:1"}]}`, name, labels))
}

// policyOf creates a policy that delivers the story's Namespace, and what the clause, in YAML,
// selects. Its name is that of the story and a suffix.
func (s *story) policyOf(suffix, selectors, clause string) (name string) {
	s.Helper()
	s.create("wds1", controlv1alpha1.BindingPolicies, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME%s}
spec:
  clusterSelectors: [%s]
  downsync:
  - {resources: [namespaces], objectNames: [$NAME]}
  - {%s}`, suffix, selectors, clause))
	return s.name + suffix
}

// has waits until the story's namespace in the cluster has just these Deployments, and returns
// their UIDs by name.
func (s *story) has(cluster string, names ...string) map[string]types.UID {
	s.Helper()
	slices.Sort(names)
	uids := map[string]types.UID{}
	testenv.Eventually(s, arrival, func() (bool, string) {
		list, err := s.space(cluster, deployments).Namespace(s.name).List(contextOf(s.T), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		clear(uids)
		got := make([]string, 0, len(list.Items))
		for i := range list.Items {
			got = append(got, list.Items[i].GetName())
			uids[list.Items[i].GetName()] = list.Items[i].GetUID()
		}
		return slices.Equal(got, names), fmt.Sprintf("%s has Deployments %q, want %q", cluster, got, names)
	})
	return uids
}

// replicas waits until the Deployment in the space has that number of replicas.
func (s *story) replicas(space, name string, want int64) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		obj, err := s.get(space, deployments, s.name, name)
		if err != nil {
			return false, err.Error()
		}
		got, _, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		return err == nil && got == want, fmt.Sprintf("%s: %d replicas, want %d (%v)", space, got, want, err)
	})
}

// available waits until the Deployment in the WDS shows that number of available replicas.
func (s *story) available(name string, want int64) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		obj, err := s.get("wds1", deployments, s.name, name)
		if err != nil {
			return false, err.Error()
		}
		got, _, err := unstructured.NestedInt64(obj.Object, "status", "availableReplicas")
		return err == nil && got == want, fmt.Sprintf("%d available replicas in the WDS, want %d (%v)", got, want, err)
	})
}

// ends deletes policies of the story, and waits until nothing of them is left: in the clusters, in
// the mailboxes, and in the WDS except for what the user wrote.
func (s *story) ends(policies ...string) {
	s.Helper()
	for _, name := range policies {
		s.remove("wds1", controlv1alpha1.BindingPolicies, "", name)
		s.leaves("wds1", controlv1alpha1.Bindings, "", name)
	}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.leaves(cluster, namespaces, "", s.name)
	}
	testenv.Eventually(s, arrival, func() (bool, string) {
		var left []string
		list := func(space string, gvr schema.GroupVersionResource, namespace string, isOurs func(*unstructured.Unstructured) bool) {
			found, err := s.space(space, gvr).Namespace(namespace).List(contextOf(s.T), metav1.ListOptions{})
			if err != nil {
				left = append(left, err.Error())
				return
			}
			for i := range found.Items {
				if isOurs(&found.Items[i]) {
					left = append(left, space+" "+gvr.Resource+" "+found.Items[i].GetNamespace()+"/"+found.Items[i].GetName())
				}
			}
		}
		list("its1", manifestWorks, "", func(o *unstructured.Unstructured) bool {
			return slices.Contains(policies, o.GetAnnotations()[controlv1alpha1.AnnotationBinding])
		})
		list("its1", controlv1alpha1.WorkStatuses, "", func(o *unstructured.Unstructured) bool {
			namespace, _, _ := unstructured.NestedString(o.Object, "spec", "sourceRef", "namespace")
			return namespace == s.name
		})
		list("wds1", controlv1alpha1.CombinedStatuses, s.name, func(*unstructured.Unstructured) bool { return true })
		return len(left) == 0, fmt.Sprintf("left: %q", left)
	})
}

// TestTransformedDeployment: a CustomTransform removes a label on the way, and the Deployment in
// the WDS keeps it. Without the CustomTransform the label arrives.
func TestTransformedDeployment(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.deployment("server", "story: $NAME, internal: here")
	s.create("wds1", controlv1alpha1.CustomTransforms, `
apiVersion: control.kubestellar.io/v1alpha1
kind: CustomTransform
metadata: {name: $NAME}
spec: {apiGroup: apps, resource: deployments, remove: ['$.metadata.labels["internal"]']}`)
	policy := s.policyOf("", both, "objectSelectors: [{matchLabels: {story: $NAME}}]")
	label := func(space string) string {
		obj, err := s.get(space, deployments, s.name, "server")
		if err != nil {
			t.Fatal(err)
		}
		return obj.GetLabels()["internal"]
	}
	s.isReady()
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.has(cluster, "server")
		if got := label(cluster); got != "" {
			t.Errorf("%s has the label %q that is to be removed", cluster, got)
		}
	}
	if got := label("wds1"); got != "here" {
		t.Errorf("the label in the WDS is %q", got)
	}

	s.Log("the CustomTransform goes")
	s.remove("wds1", controlv1alpha1.CustomTransforms, "", s.name)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		testenv.Eventually(t, arrival, func() (bool, string) { got := label(cluster); return got == "here", cluster + " has label " + got })
	}
	s.ends(policy)
}

// TestCreateOnlyClause: with createOnly in a clause, an edit does not arrive, and neither does it
// when further objects are delivered. Without it, the same objects follow the WDS again.
func TestCreateOnlyClause(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.deployment("server", "story: $NAME")
	policy := s.policyOf("", both, "resources: [deployments], objectSelectors: [{matchLabels: {story: $NAME}}], createOnly: true")
	before := map[string]map[string]types.UID{"cluster1": s.has("cluster1", "server"), "cluster2": s.has("cluster2", "server")}
	obj, err := s.get("wds1", controlv1alpha1.Bindings, "", policy)
	if err != nil {
		t.Fatal(err)
	}
	binding := testenv.Into[controlv1alpha1.Binding](t, obj)
	if w := binding.Spec.Workload; len(w.ClusterScope) != 1 || w.ClusterScope[0].CreateOnly || len(w.NamespaceScope) != 1 || !w.NamespaceScope[0].CreateOnly {
		t.Errorf("the Binding lists %+v; only the Deployment is to be created only", w)
	}

	s.patch("wds1", deployments, s.name, "server", `{"spec":{"replicas":5}}`)
	s.deployment("another", "story: $NAME") // that it arrives shows that the edit had the time to do so
	for _, cluster := range []string{"cluster1", "cluster2"} {
		uids := s.has(cluster, "server", "another")
		if uids["server"] != before[cluster]["server"] {
			t.Errorf("%s: the first Deployment was re-created", cluster)
		}
		s.replicas(cluster, "server", 2)
	}

	s.Log("without createOnly, the edit arrives in the same object")
	s.patch("wds1", controlv1alpha1.BindingPolicies, "", policy, fmt.Sprintf(
		`{"spec":{"downsync":[{"resources":["namespaces"],"objectNames":[%q]},{"resources":["deployments"],"objectSelectors":[{"matchLabels":{"story":%[1]q}}]}]}}`, s.name))
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.replicas(cluster, "server", 5)
		if uids := s.has(cluster, "server", "another"); uids["server"] != before[cluster]["server"] {
			t.Errorf("%s: the first Deployment was re-created", cluster)
		}
	}
	s.ends(policy)
}

// TestPolicyChangesItsMind: what a policy selects changes with its spec: by labels, by several
// labels together, by labels and name. Objects come and go with it, and clusters too.
func TestPolicyChangesItsMind(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.deployment("one", "story: $NAME, tier: a")
	s.deployment("two", "story: $NAME, tier: a, zone: x")
	s.deployment("three", "story: $NAME, tier: b")
	policy := s.policyOf("", either, `objectSelectors: [{matchLabels: {story: $NAME, tier: a}}, {matchLabels: {story: $NAME, tier: b}}]`)
	selects := func(clause string) {
		t.Helper()
		s.patch("wds1", controlv1alpha1.BindingPolicies, "", policy, strings.ReplaceAll(
			`{"spec":{"downsync":[{"resources":["namespaces"],"objectNames":["$NAME"]},{`+clause+`}]}}`, "$NAME", s.name))
	}
	sends := func(selectors string) {
		t.Helper()
		s.patch("wds1", controlv1alpha1.BindingPolicies, "", policy, `{"spec":{"clusterSelectors":[`+selectors+`]}}`)
	}
	s.has("cluster1", "one", "two", "three")
	s.has("cluster2", "one", "two", "three")

	s.Log("a selector that matches nothing removes the Deployments; the former one brings them back")
	selects(`"objectSelectors":[{"matchLabels":{"story":"$NAME","tier":"none"}}]`)
	s.has("cluster1")
	s.has("cluster2")
	selects(`"objectSelectors":[{"matchLabels":{"story":"$NAME","tier":"a"}}]`)
	s.has("cluster1", "one", "two")
	s.has("cluster2", "one", "two")

	s.Log("an object must have all labels of a selector")
	selects(`"objectSelectors":[{"matchLabels":{"story":"$NAME","tier":"a","zone":"x"}}]`)
	s.has("cluster1", "two")
	s.has("cluster2", "two")

	s.Log("one cluster, and then the other one only")
	sends(`{"matchLabels":{"name":"cluster1"}}`)
	s.has("cluster2")
	sends(`{"matchLabels":{"name":"cluster2"}}`)
	s.has("cluster1")
	s.has("cluster2", "two")
	s.leaves("cluster1", namespaces, "", s.name)

	s.Log("a name and labels must both match")
	selects(`"resources":["deployments"],"namespaces":["$NAME"],"objectNames":["three","one"],"objectSelectors":[{"matchLabels":{"tier":"b"}}]`)
	s.has("cluster2", "three")

	s.Log("the label of an object changes")
	s.patch("wds1", deployments, s.name, "one", `{"metadata":{"labels":{"tier":"b"}}}`)
	s.has("cluster2", "one", "three")
	s.ends(policy)
}

// TestPoliciesOverlap: two policies select the same objects for the same clusters. Each of them can
// go without the objects being touched, until the last one goes.
func TestPoliciesOverlap(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.deployment("server", "story: $NAME")
	const clause = "objectSelectors: [{matchLabels: {story: $NAME}}]"
	a := s.policyOf("-a", both, clause)
	before := map[string]map[string]types.UID{"cluster1": s.has("cluster1", "server"), "cluster2": s.has("cluster2", "server")}
	unchanged := func(when string) {
		t.Helper()
		for cluster, uids := range before {
			if diff := cmp.Diff(uids, s.has(cluster, "server")); diff != "" {
				t.Errorf("%s: %s: the Deployment was re-created (-before +now):\n%s", cluster, when, diff)
			}
		}
	}
	b := s.policyOf("-b", both, clause)
	s.policyIsReady(b)
	unchanged("a second policy selects it")

	s.remove("wds1", controlv1alpha1.BindingPolicies, "", a)
	s.leaves("wds1", controlv1alpha1.Bindings, "", a)
	s.policyIsReady(b)
	unchanged("the first policy is gone")

	s.patch("wds1", deployments, s.name, "server", `{"spec":{"replicas":3}}`)
	s.replicas("cluster1", "server", 3)
	s.replicas("cluster2", "server", 3)
	unchanged("it was edited")
	s.ends(a, b)
}

// policyIsReady waits until a policy says that all is applied.
func (s *story) policyIsReady(name string) {
	s.Helper()
	testenv.Eventually(s, arrival, func() (bool, string) {
		obj, err := s.get("wds1", controlv1alpha1.BindingPolicies, "", name)
		if err != nil {
			return false, err.Error()
		}
		policy := testenv.Into[controlv1alpha1.BindingPolicy](s, obj)
		c := meta.FindStatusCondition(policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionReady)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == policy.Generation, fmt.Sprintf("%s: Ready is %+v", name, c)
	})
}

// TestSingletonIsToggled: a status comes back while it is wanted from one cluster, and is cleared
// when it is not wanted, when there are two clusters, and when there is none.
func TestSingletonIsToggled(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.deployment("server", "story: $NAME")
	policy := s.policyOf("", first, "resources: [deployments], objectSelectors: [{matchLabels: {story: $NAME}}], wantSingletonReportedState: true")
	change := func(selectors string, want bool) {
		t.Helper()
		s.patch("wds1", controlv1alpha1.BindingPolicies, "", policy, fmt.Sprintf(`{"spec":{"clusterSelectors":[%s],"downsync":[`+
			`{"resources":["namespaces"],"objectNames":[%q]},{"resources":["deployments"],"objectSelectors":[{"matchLabels":{"story":%[2]q}}],"wantSingletonReportedState":%t}]}}`,
			selectors, s.name, want))
	}
	const one, two, none = `{"matchLabels":{"name":"cluster1"}}`, `{"matchLabels":{"name":"cluster1"}},{"matchLabels":{"name":"cluster2"}}`, `{"matchLabels":{"name":"no-such-cluster"}}`
	s.available("server", 2)
	before := s.has("cluster1", "server")

	change(one, false)
	s.available("server", 0)
	change(one, true)
	s.available("server", 2)

	s.Log("two clusters: none of them is the one")
	change(two, true)
	s.has("cluster2", "server")
	s.available("server", 0)
	testenv.Eventually(t, arrival, func() (bool, string) {
		errors := s.observed().Status.Errors
		return len(errors) == 1 && strings.HasPrefix(errors[0], "Singleton reported status return is requested but some objects have the wrong number of associated WECs"),
			fmt.Sprintf("status.errors of the policy: %q", errors)
	})
	change(one, true)
	s.has("cluster2")
	s.available("server", 2)
	if diff := cmp.Diff(before, s.has("cluster1", "server")); diff != "" {
		t.Errorf("the Deployment was re-created (-before +now):\n%s", diff)
	}

	s.Log("no cluster")
	change(none, true)
	s.has("cluster1")
	s.available("server", 0)
	obj, err := s.get("wds1", deployments, s.name, "server")
	if err != nil {
		t.Fatal(err)
	}
	if _, labelled := obj.GetLabels()[controlv1alpha1.LabelSingletonStatus]; labelled {
		t.Error("the object has the label of a returned status, and no status")
	}
	s.ends(policy)
}

// TestServiceAndJob: what an API server fills in for a Service and a Job in the WDS does not keep
// the clusters from running them.
func TestServiceAndJob(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.create("wds1", services, `
apiVersion: v1
kind: Service
metadata: {name: door, namespace: $NAME, labels: {story: $NAME}}
spec: {type: NodePort, selector: {app: server}, ports: [{port: 80}]}`)
	job := s.create("wds1", jobs, `
apiVersion: batch/v1
kind: Job
metadata: {generateName: once-, namespace: $NAME, labels: {story: $NAME}}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: work, image: "example.com/work:1"}]}`)
	policy := s.policyOf("", first, "objectSelectors: [{matchLabels: {story: $NAME}}]")
	testenv.Eventually(t, arrival, func() (bool, string) {
		obj, err := s.get("cluster1", services, s.name, "door")
		if err != nil {
			return false, err.Error()
		}
		ip, _, _ := unstructured.NestedString(obj.Object, "spec", "clusterIP")
		return ip != "", "the Service has no address of the cluster"
	})
	testenv.Eventually(t, arrival, func() (bool, string) {
		obj, err := s.get("cluster1", jobs, s.name, job.GetName())
		if err != nil {
			return false, err.Error()
		}
		uid, _, _ := unstructured.NestedString(obj.Object, "spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid")
		start, _, _ := unstructured.NestedString(obj.Object, "status", "startTime")
		return uid == string(obj.GetUID()) && start != "", fmt.Sprintf("the Job selects pods of %q, is %q, and started at %q", uid, obj.GetUID(), start)
	})
	s.isReady()
	s.ends(policy)
}

// TestCombinedStatusOfDeployments: the tables that StatusCollectors define, over both clusters:
// the whole status, a sum, the clusters that pass a filter, and aggregates over none.
func TestCombinedStatusOfDeployments(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.deployment("server", "story: $NAME")
	collector := func(name, spec string) string {
		t.Helper()
		s.create("wds1", controlv1alpha1.StatusCollectors, fmt.Sprintf(
			`{apiVersion: control.kubestellar.io/v1alpha1, kind: StatusCollector, metadata: {name: $NAME-%s}, spec: {%s}}`, name, spec))
		return s.name + "-" + name
	}
	all := collector("all", `select: [{name: wec, def: inventory.name}, {name: status, def: returned.status}], limit: 20`)
	filled := collector("filled", `filter: obj.spec.replicas == returned.status.availableReplicas, select: [{name: wec, def: inventory.name}], limit: 10`)
	nothing := collector("nothing", `filter: "false", combinedFields: [{name: count, type: COUNT}, {name: max, type: MAX, subject: "2"}, `+
		`{name: min, type: MIN, subject: "2"}, {name: sum, type: SUM, subject: "2"}, {name: avg, type: AVG, subject: "2"}], limit: 20`)
	sum := collector("sum", `combinedFields: [{name: sum, type: SUM, subject: returned.status.availableReplicas}], limit: 10`)
	policy := s.policyOf("", both, fmt.Sprintf("resources: [deployments], objectSelectors: [{matchLabels: {story: $NAME}}], statusCollectors: [%s, %s, %s, %s]",
		all, filled, nothing, sum))

	want := map[string][][]string{
		all: {{"cluster1", "Object"}, {"cluster2", "Object"}}, filled: {{"cluster1"}, {"cluster2"}}, nothing: {{"0", "-Inf", "+Inf", "0", "NaN"}}, sum: {{"4"}},
	}
	eventually := func(want map[string][][]string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			diff := cmp.Diff(want, s.tables(policy))
			return diff == "", "tables (-want +got):\n" + diff
		})
	}
	eventually(want)
	obj, err := s.get("wds1", controlv1alpha1.BindingPolicies, "", policy)
	if err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(testenv.Into[controlv1alpha1.BindingPolicy](t, obj).Status.Conditions, controlv1alpha1.BindingPolicyConditionCollectors); c == nil ||
		c.Status != metav1.ConditionTrue {
		t.Errorf("the condition about StatusCollectors is %+v", c)
	}

	s.Log("the tables follow the clusters, and the policy")
	s.patch("wds1", deployments, s.name, "server", `{"spec":{"replicas":3}}`)
	want[sum] = [][]string{{"6"}}
	eventually(want)
	s.patch("wds1", controlv1alpha1.BindingPolicies, "", policy, fmt.Sprintf(`{"spec":{"downsync":[{"resources":["namespaces"],"objectNames":[%q]},`+
		`{"resources":["deployments"],"objectSelectors":[{"matchLabels":{"story":%[1]q}}],"statusCollectors":[%[2]q]}]}}`, s.name, sum))
	eventually(map[string][][]string{sum: {{"6"}}})
	s.ends(policy)
}

// tables returns the rows of each StatusCollector for the Deployment of a story. Of an object it
// shows the type only.
func (s *story) tables(policy string) map[string][][]string {
	s.Helper()
	list, err := s.space("wds1", controlv1alpha1.CombinedStatuses).Namespace(s.name).List(s.Context(), metav1.ListOptions{
		LabelSelector: controlv1alpha1.LabelSubjectName + "=server," + controlv1alpha1.LabelBindingPolicy + "=" + policy,
	})
	if err != nil {
		s.Fatal(err)
	}
	tables := map[string][][]string{}
	for i := range list.Items {
		for _, result := range testenv.Into[controlv1alpha1.CombinedStatus](s, &list.Items[i]).Results {
			rows := [][]string{}
			for _, row := range result.Rows {
				var cells []string
				for _, value := range row.Columns {
					cells = append(cells, cell(value))
				}
				rows = append(rows, cells)
			}
			tables[result.Name] = rows
		}
	}
	return tables
}

// cell returns the text or number of a value, and the type of any other value.
func cell(value controlv1alpha1.Value) string {
	if value.String != nil {
		return *value.String
	}
	if value.Number != nil {
		return *value.Number
	}
	return string(value.Type)
}
