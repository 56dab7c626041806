package binding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/test/testenv"
)

const (
	synced = controlv1alpha1.BindingPolicyConditionSynced
	ready  = controlv1alpha1.BindingPolicyConditionReady
)

// deployment returns one that the API server accepts.
func deployment(namespace, name string, labels map[string]string) map[string]any {
	return map[string]any{
		"replicas": int64(1),
		"selector": map[string]any{"matchLabels": map[string]any{"x": "y"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"x": "y"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx"}}},
		},
	}
}

func (e *environment) deployment(namespace, name string, labels map[string]string) {
	e.t.Helper()
	d := object(namespace, name, labels)
	d.Object["spec"] = deployment(namespace, name, labels)
	e.create(deployments, d)
}

func TestClauses(t *testing.T) {
	e := newEnvironment(t)
	ns, mine := e.name, map[string]string{"test": e.name}
	e.patch(namespaces, "", ns, `{"metadata":{"labels":{"team":"clauses"}}}`)
	e.deployment(ns, "web", map[string]string{"test": e.name, "app": "web"})
	e.create(configMaps, object(ns, "settings", map[string]string{"test": e.name, "app": "web"}))
	e.create(configMaps, object(ns, "plain", mine))
	e.create(clusterRole, object("", e.name+"-role", mine))
	e.cluster(e.name+"-a", map[string]string{"test": e.name, "site": "edge"})
	e.cluster(e.name+"-b", mine)
	e.start()

	all := []string{"clusterroles " + e.name + "-role", "configmaps plain", "configmaps settings", "deployments web"}
	own := fmt.Sprintf(`"objectSelectors":[{"matchLabels":{"test":%q}}]`, e.name)
	cases := map[string]struct {
		spec string
		want []string
	}{
		"labels":    {`{"downsync":[{` + own + `}]}`, all},
		"group":     {`{"downsync":[{"apiGroup":"apps",` + own + `}]}`, []string{"deployments web"}},
		"coregroup": {`{"downsync":[{"apiGroup":"",` + own + `}]}`, []string{"configmaps plain", "configmaps settings"}},
		"resource":  {`{"downsync":[{"resources":["deployments"],` + own + `}]}`, []string{"deployments web"}},
		"star":      {`{"downsync":[{"resources":["*"],"namespaces":["*"],"objectNames":["*"],` + own + `}]}`, all},
		// Neither kube-root-ca.crt nor the default ServiceAccount of the namespace is workload.
		"namespace":    {fmt.Sprintf(`{"downsync":[{"namespaces":[%q]}]}`, ns), []string{"configmaps plain", "configmaps settings", "deployments web"}},
		"names":        {fmt.Sprintf(`{"downsync":[{"namespaces":[%q],"objectNames":["plain","web"]}]}`, ns), []string{"configmaps plain", "deployments web"}},
		"nslabels":     {`{"downsync":[{"namespaceSelectors":[{"matchLabels":{"team":"clauses"}}]}]}`, []string{"configmaps plain", "configmaps settings", "deployments web"}},
		"nslabelsnone": {`{"downsync":[{"namespaceSelectors":[{"matchLabels":{"team":"none"}},{}],` + own + `}]}`, all},
		"union": {
			fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q,"site":"edge"}}],"downsync":[`+
				`{"resources":["configmaps"],"createOnly":true,"statusCollectors":["z","a"],`+own+`},`+
				`{"wantSingletonReportedState":true,"objectSelectors":[{"matchLabels":{"test":%q,"app":"web"}}]}]}`, e.name, e.name),
			[]string{"configmaps plain createOnly a+z", "configmaps settings createOnly singleton a+z", "deployments web singleton", "-> " + e.name + "-a"},
		},
		"anycluster": {
			fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}},{"matchLabels":{"no":"where"}}],"downsync":[{"resources":["deployments"],%s}]}`, e.name, own),
			[]string{"deployments web", "-> " + e.name + "-a", "-> " + e.name + "-b"},
		},
		"nothing": {`{"clusterSelectors":[],"downsync":[{"objectNames":["` + e.name + `-nobody"]}]}`, []string{}},
	}
	for name, tc := range cases {
		e.policy(name, tc.spec)
	}
	for name, tc := range cases {
		e.eventuallyBound(e.name+"-"+name, tc.want...)
		e.eventuallyCondition(e.name+"-"+name, synced, "True Synced")
	}
	if got := e.eventuallyCondition(e.name+"-nothing", synced, "True Synced"); got != "no objects: nothing in the WDS matches spec.downsync; no destinations: spec.clusterSelectors is empty" {
		t.Errorf("an empty policy says %q", got)
	}

	// Objects and the labels of their Namespace come and go.
	e.patch(namespaces, "", ns, `{"metadata":{"labels":{"team":"other"}}}`)
	e.eventuallyBound(e.name + "-nslabels")
	e.remove(deployments, ns, "web")
	e.eventuallyBound(e.name + "-group")
	e.patch(configMaps, ns, "plain", `{"metadata":{"labels":{"test":null}}}`)
	e.eventuallyBound(e.name+"-coregroup", "configmaps settings")
}

func TestInvalidPolicyKeepsItsBinding(t *testing.T) {
	e := newEnvironment(t)
	e.create(configMaps, object(e.name, "one", nil))
	c := e.start()
	broken := e.policy("broken", fmt.Sprintf(`{"downsync":[{"namespaces":[%q]}]}`, e.name))
	sound := e.policy("sound", fmt.Sprintf(`{"downsync":[{"namespaces":[%q]}]}`, e.name))
	e.eventuallyBound(broken, "configmaps one")

	e.patch(policies, "", broken, `{"spec":{"downsync":[{"objectNames":["x"]},{"objectSelectors":[{"matchLabels":{"app":"not a value"}}]}]}}`)
	message := e.eventuallyCondition(broken, synced, "False InvalidSpec")
	if want := "spec.downsync[1].objectSelectors[0].matchLabels: "; !strings.HasPrefix(message, "invalid spec: "+want) {
		t.Errorf("the message is %q, want %q…", message, want)
	}
	e.eventuallyCondition(broken, ready, "False NotSynced")
	if errs := e.getPolicy(broken).Status.Errors; len(errs) != 1 || !strings.Contains(errs[0], "spec.downsync[1]") {
		t.Errorf("status.errors are %q", errs)
	}
	e.create(configMaps, object(e.name, "two", nil))
	e.eventuallyBound(sound, "configmaps one", "configmaps two")
	e.eventuallyBound(broken, "configmaps one")
	e.eventuallyCondition(sound, ready, "False NoDestinations") // else a restart has this to write

	c.stop()
	restarted := e.start()
	e.expectNoWrites(restarted)
	e.eventuallyBound(broken, "configmaps one")

	e.patch(policies, "", broken, fmt.Sprintf(`{"spec":{"downsync":[{"namespaces":[%q]}]}}`, e.name))
	e.eventuallyBound(broken, "configmaps one", "configmaps two")
	e.eventuallyCondition(broken, synced, "True Synced")
}

func TestUnknownResources(t *testing.T) {
	e := newEnvironment(t)
	e.create(configMaps, object(e.name, "one", nil))
	e.start()
	policy := e.policy("typo", fmt.Sprintf(`{"downsync":[{"namespaces":[%q],"resources":["configmaps","deploymentz"]},
		{"apiGroup":"no.such.group","resources":["x"]},{"resources":["Deployment"]},{"apiGroup":"apps","resources":["pods"]},{"resources":["events","nodes"]}]}`, e.name))
	e.eventuallyBound(policy, "configmaps one")
	want := []string{
		`spec.downsync[0].resources[1]: the WDS serves no resource "deploymentz"`,
		`spec.downsync[1].apiGroup: the WDS serves no API group "no.such.group"`,
		`spec.downsync[2].resources[0]: the WDS serves no resource "Deployment" (resources are lowercase plurals, such as "deployments")`,
		`spec.downsync[3].resources[0]: the WDS serves no resource "pods" in API group "apps"`,
		`spec.downsync[4].resources[0]: objects of resource "events" are no workload`,
		`spec.downsync[4].resources[1]: objects of resource "nodes" are no workload`,
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		got := e.getPolicy(policy).Status.Errors
		return slices.Equal(want, got), fmt.Sprintf("errors %q", got)
	})
	e.eventuallyCondition(policy, synced, "True Synced")
}

// expectNoWrites waits until a restarted controller has synced everything, and expects that it
// wrote nothing.
func (e *environment) expectNoWrites(c *controller) {
	e.t.Helper()
	e.ready(c)
	// What was enqueued before this policy was synced before it, except what waits for its time.
	marker := e.policy(fmt.Sprint("marker-", time.Now().UnixNano()), `{"downsync":[{"objectNames":["`+e.name+`-none"]}]}`)
	e.eventuallyCondition(marker, synced, "True Synced")
	testenv.Never(e.t, testenv.Held, func() string {
		for _, write := range c.Written("") {
			if !strings.Contains(write.Path+write.Body, e.name+"-marker-") {
				return fmt.Sprintf("after a restart: %s %s", write, write.Body)
			}
		}
		return ""
	})
}

func TestRestartWritesNothing(t *testing.T) {
	e := newEnvironment(t)
	e.cluster(e.name, map[string]string{"test": e.name})
	for i := range 5 {
		e.create(configMaps, object(e.name, fmt.Sprint("c", i), nil))
	}
	e.deployment(e.name, "web", nil)
	c := e.start()
	policy := e.policy("p", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q]},{"resources":["nosuch"]}]}`, e.name, e.name))
	want := []string{"configmaps c0", "configmaps c1", "configmaps c2", "configmaps c3", "configmaps c4", "deployments web", "-> " + e.name}
	e.eventuallyBound(policy, want...)
	e.eventuallyCondition(policy, ready, "False NotDelivered")
	c.stop()

	// A status write is no change of the object, whether it was seen or not.
	e.patch(deployments, e.name, "web", `{"status":{"replicas":1}}`, "status")
	before := e.getBinding(policy)
	c = e.start()
	e.expectNoWrites(c)
	e.patch(deployments, e.name, "web", `{"status":{"replicas":2}}`, "status")
	e.expectNoWrites(c)
	if after := e.getBinding(policy); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Binding was written: %q", entries(after))
	}
	c.stop()

	// What changed meanwhile is done at the next start, in one write of the Binding.
	e.remove(configMaps, e.name, "c0")
	e.create(configMaps, object(e.name, "c9", nil))
	c = e.start()
	e.eventuallyBound(policy, "configmaps c1", "configmaps c2", "configmaps c3", "configmaps c4", "configmaps c9", "deployments web", "-> "+e.name)
	e.ready(c)
	if after := e.getBinding(policy); after.Generation != before.Generation+1 {
		t.Errorf("generation %d, was %d", after.Generation, before.Generation)
	}
}

func TestVersionsFollowEdits(t *testing.T) {
	e := newEnvironment(t)
	e.deployment(e.name, "web", nil)
	e.start()
	policy := e.policy("p", fmt.Sprintf(`{"downsync":[{"namespaces":[%q]}]}`, e.name))
	e.eventuallyBound(policy, "deployments web")
	before := e.getBinding(policy)
	const edits = 40
	begin := time.Now()
	for i := range edits { // in two seconds, or as long as the machine takes
		e.patch(deployments, e.name, "web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, i+2))
		<-time.After(50 * time.Millisecond)
	}
	web, err := e.wds.Resource(deployments).Namespace(e.name).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		got := e.getBinding(policy).Spec.Workload.NamespaceScope[0].ResourceVersion
		return got == web.GetResourceVersion(), fmt.Sprintf("version %s, want %s", got, web.GetResourceVersion())
	})
	took := time.Since(begin)
	if written := e.getBinding(policy).Generation - before.Generation; written < 2 || written > 4+int64(took/time.Second) {
		t.Errorf("%d edits in %s wrote the Binding %d times", edits, took, written)
	}
}

func TestEditedBindingIsRestored(t *testing.T) {
	e := newEnvironment(t)
	e.create(configMaps, object(e.name, "one", nil))
	e.start()
	policy := e.policy("p", fmt.Sprintf(`{"downsync":[{"namespaces":[%q]}]}`, e.name))
	e.eventuallyBound(policy, "configmaps one")
	owner := metav1.GetControllerOf(e.getBinding(policy))
	if owner == nil || owner.Kind != "BindingPolicy" || owner.Name != policy || owner.BlockOwnerDeletion == nil || *owner.BlockOwnerDeletion {
		t.Errorf("the controller of the Binding is %+v", owner)
	}

	for name, patch := range map[string]string{
		"removed": `{"spec":{"workload":{"namespaceScope":null}}}`,
		"added":   `{"spec":{"destinations":[{"clusterId":"nowhere"}]}}`,
		"foreign": `{"spec":{"workload":{"clusterScope":[{"group":"gone.example.com","version":"v1","resource":"things","name":"x","resourceVersion":"1"}]}}}`,
	} {
		before := e.getBinding(policy).Generation
		e.patch(bindings, "", policy, patch)
		testenv.Eventually(t, patience, func() (bool, string) {
			b := e.getBinding(policy)
			return b.Generation == before+2 && slices.Equal([]string{"configmaps one"}, entries(b)), fmt.Sprintf("%s: %q", name, entries(b))
		})
	}
	uid := e.getBinding(policy).UID
	e.remove(bindings, "", policy)
	testenv.Eventually(t, patience, func() (bool, string) {
		b := e.getBinding(policy)
		return b != nil && b.UID != uid, "no new Binding"
	})
	e.eventuallyBound(policy, "configmaps one")
}

func TestPolicyDeletionWaitsForItsBinding(t *testing.T) {
	e := newEnvironment(t)
	e.start()
	policy := e.policy("p", fmt.Sprintf(`{"downsync":[{"namespaces":[%q]}]}`, e.name))
	e.eventuallyBound(policy)
	if got := e.getPolicy(policy).Finalizers; !slices.Equal(got, []string{controlv1alpha1.BindingPolicyFinalizer}) {
		t.Errorf("finalizers %q", got)
	}
	e.patch(bindings, "", policy, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, controlv1alpha1.BindingFinalizer))

	e.delete(policy)
	e.eventuallyCondition(policy, synced, "False Deleting")
	if b := e.getBinding(policy); b.DeletionTimestamp == nil {
		t.Error("the Binding is not being deleted")
	}
	e.patch(bindings, "", policy, `{"status":{"observedGeneration":1,"conditions":[{"type":"Delivered","status":"False","reason":"Deleting",
		"message":"cluster7 still holds works","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
	testenv.Eventually(t, patience, func() (bool, string) {
		message := e.eventuallyCondition(policy, synced, "False Deleting")
		return strings.Contains(message, "cluster7 still holds works"), message
	})
	e.patch(bindings, "", policy, `{"metadata":{"finalizers":null}}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		return e.getPolicy(policy) == nil && e.getBinding(policy) == nil, "the policy or its Binding is still there"
	})
}

func TestClusters(t *testing.T) {
	e := newEnvironment(t)
	site := func(site string) map[string]string { return map[string]string{"test": e.name, "site": site} }
	e.cluster(e.name+"-1", site("edge"))
	e.cluster(e.name+"-2", site("core"))
	pending := object("", e.name+"-3", site("edge"))
	pending.Object["spec"] = map[string]any{"hubAcceptsClient": false}
	e.create(managed, pending)
	e.start()
	policy := e.policy("p", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q},"matchExpressions":[{"key":"site","operator":"In","values":["edge","moon"]}]}],
		"downsync":[{"objectNames":["%s-none"]}]}`, e.name, e.name))
	e.eventuallyBound(policy, "-> "+e.name+"-1")
	e.patch(managed, "", e.name+"-2", `{"metadata":{"labels":{"site":"moon"}}}`)
	e.eventuallyBound(policy, "-> "+e.name+"-1", "-> "+e.name+"-2")
	e.patch(managed, "", e.name+"-3", `{"spec":{"hubAcceptsClient":true}}`)
	e.eventuallyBound(policy, "-> "+e.name+"-1", "-> "+e.name+"-2", "-> "+e.name+"-3")
	e.patch(managed, "", e.name+"-1", `{"spec":{"hubAcceptsClient":false}}`)
	e.patch(managed, "", e.name+"-3", `{"metadata":{"labels":{"site":null}}}`)
	e.eventuallyBound(policy, "-> "+e.name+"-2")
	e.remove(managed, "", e.name+"-2")
	e.eventuallyBound(policy)
	e.eventuallyCondition(policy, ready, "False NoDestinations")
}

// TestPendingCluster: a policy that matches only clusters which are not accepted names them, and is
// not Ready. It selects one as soon as it is accepted, and still names the other.
func TestPendingCluster(t *testing.T) {
	e := newEnvironment(t)
	for _, name := range []string{e.name + "-1", e.name + "-2"} {
		cluster := object("", name, map[string]string{"test": e.name})
		cluster.Object["spec"] = map[string]any{"hubAcceptsClient": false}
		e.create(managed, cluster)
	}
	e.create(configMaps, object(e.name, "one", nil))
	e.start()
	policy := e.policy("p", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q]}]}`, e.name, e.name))
	e.eventuallyBound(policy, "configmaps one")
	e.answer(policy, true)
	names := func(message string, clusters ...string) {
		t.Helper()
		if want := "kubectl starling cluster accept " + strings.Join(clusters, " "); !strings.HasSuffix(message, want) {
			t.Errorf("the message is %q, want one that ends with %q", message, want)
		}
	}
	names(e.eventuallyCondition(policy, ready, "False NoDestinations"), e.name+"-1", e.name+"-2")

	e.patch(managed, "", e.name+"-1", `{"spec":{"hubAcceptsClient":true}}`)
	e.eventuallyBound(policy, "configmaps one", "-> "+e.name+"-1")
	e.answer(policy, true)
	e.eventuallyCondition(policy, ready, "True Applied")
	names(e.eventuallyCondition(policy, synced, "True Synced"), e.name+"-2")
	e.patch(managed, "", e.name+"-2", `{"metadata":{"labels":{"test":null}}}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		message := e.eventuallyCondition(policy, synced, "True Synced")
		return message == "", message
	})
}

// TestDrain: a cluster that is drained is a destination of no policy, also not of one that is new,
// and policies name it. It is one again when the label is removed. A restart changes nothing, and
// neither does the label while the cluster could be in an ITS that does not respond.
func TestDrain(t *testing.T) {
	e := newEnvironment(t)
	const drain, undrain = `{"metadata":{"labels":{"starling.io/drained":"true"}}}`, `{"metadata":{"labels":{"starling.io/drained":null}}}`
	one, two := e.name+"-1", e.name+"-2"
	e.cluster(one, map[string]string{"test": e.name})
	e.cluster(two, map[string]string{"test": e.name})
	e.create(configMaps, object(e.name, "one", nil))
	c := e.start()
	spec := fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q]}]}`, e.name, e.name)
	policy := e.policy("p", spec)
	e.eventuallyBound(policy, "configmaps one", "-> "+one, "-> "+two)

	e.patch(managed, "", one, drain)
	e.eventuallyBound(policy, "configmaps one", "-> "+two)
	says := func(policy, kind, condition, want string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			message := e.eventuallyCondition(policy, kind, condition)
			return message == want, fmt.Sprintf("%s: %q, want %q", kind, message, want)
		})
	}
	is := func(names ...string) string {
		return text.Count(len(names), "cluster matches but is|clusters match but are") + " drained (" + strings.Join(names, ", ") + "). Deliver to " +
			text.Plural(len(names), "it", "them") + " again with: kubectl starling cluster undrain " + strings.Join(names, " ")
	}
	says(policy, synced, "True Synced", is(one))
	e.patch(managed, "", two, drain)
	e.eventuallyBound(policy, "configmaps one")
	says(policy, ready, "False NoDestinations", "no destinations: "+is(one, two))
	late := e.policy("late", spec)
	says(late, ready, "False NoDestinations", "no destinations: "+is(one, two))
	c.stop()

	// The ITS does not respond: what was known of the label is not known any more.
	c = e.start(unreachable("its1"))
	e.eventuallyCondition(policy, synced, "Unknown NotObserved")
	e.eventuallyBound(policy, "configmaps one")
	c.stop()
	e.patch(managed, "", one, undrain)
	c = e.start()
	e.eventuallyBound(policy, "configmaps one", "-> "+one)
	e.eventuallyBound(late, "configmaps one", "-> "+one)
	says(policy, synced, "True Synced", is(two))
	c.stop()

	// It is drained while its ITS does not respond.
	c = e.start(unreachable("its1"))
	e.patch(managed, "", one, drain)
	e.eventuallyCondition(policy, synced, "Unknown NotObserved")
	e.eventuallyBound(policy, "configmaps one", "-> "+one)
	c.stop()
	c = e.start()
	e.eventuallyBound(policy, "configmaps one")
	e.eventuallyCondition(policy, synced, "True Synced")
	c.stop()
	written := e.getBinding(policy).ResourceVersion
	c = e.start()
	e.ready(c)
	e.eventuallyCondition(policy, synced, "True Synced")
	if got := e.getBinding(policy).ResourceVersion; got != written {
		t.Error("a restart wrote the Binding of a policy whose clusters are drained")
	}
}

// TestDrainIsBlocked: draining more than half of the clusters of a policy is blocked like any other
// change that removes every object from them.
func TestDrainIsBlocked(t *testing.T) {
	e := newEnvironment(t)
	var clusters []string
	for i := range 10 {
		clusters = append(clusters, fmt.Sprintf("%s-%d", e.name, i))
		e.cluster(clusters[i], map[string]string{"test": e.name})
	}
	bound := func(from int) []string {
		want := []string{"configmaps one"}
		for _, cluster := range clusters[from:] {
			want = append(want, "-> "+cluster)
		}
		return want
	}
	e.create(configMaps, object(e.name, "one", nil))
	c := e.start()
	policy := e.policy("p", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q]}]}`, e.name, e.name))
	e.eventuallyBound(policy, bound(0)...)
	c.stop()
	for _, cluster := range clusters[:6] {
		e.patch(managed, "", cluster, `{"metadata":{"labels":{"starling.io/drained":"true"}}}`)
	}
	// A watch begins with what the cache of the API server has. Five that are drained before the
	// sixth would not be blocked.
	testenv.Eventually(t, patience, func() (bool, string) {
		list, err := e.its.Resource(managed).List(t.Context(), metav1.ListOptions{LabelSelector: "starling.io/drained,test=" + e.name, ResourceVersion: "0"})
		return err == nil && len(list.Items) == 6, fmt.Sprintf("6 are drained, and the API server lists %d: %v", len(list.Items), err)
	})
	e.start()
	e.eventuallyCondition(policy, "RemovalBlocked", "True RemovalLimitExceeded")
	e.eventuallyBound(policy, bound(0)...)
	e.patch(managed, "", clusters[0], `{"metadata":{"labels":{"starling.io/drained":null}}}`)
	e.patch(managed, "", clusters[5], `{"metadata":{"labels":{"starling.io/drained":null}}}`)
	e.eventuallyCondition(policy, synced, "True Synced")
	e.eventuallyBound(policy, slices.Insert(bound(6), 1, "-> "+clusters[0], "-> "+clusters[5])...)
}

// TestSystemNamespaces: a policy that names kube-system delivers what users created there, and
// nothing that the control plane of the WDS made. A policy that does not name it says what it does
// not deliver.
func TestSystemNamespaces(t *testing.T) {
	e := newEnvironment(t)
	mine := map[string]string{"test": e.name}
	own := object("kube-system", e.name, mine)
	e.create(configMaps, own)
	accounts := e.wds.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace("kube-system")
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := accounts.Get(t.Context(), "namespace-controller", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	e.start()
	named := e.policy("named", `{"downsync":[{"namespaces":["kube-system","kube-public"]}]}`)
	e.eventuallyBound(named, "configmaps "+e.name)
	labelled := e.policy("labelled", fmt.Sprintf(`{"downsync":[{"objectSelectors":[{"matchLabels":{"test":%q}}]}]}`, e.name))
	errors := func(policy, want string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			got := strings.Join(e.getPolicy(policy).Status.Errors, "; ")
			return want == "" && got == "" || want != "" && strings.HasPrefix(got, want), fmt.Sprintf("errors %q, want %q", got, want)
		})
	}
	errors(labelled, "spec.downsync[0]: 1 object is not delivered, because the clause does not name namespace kube-system: configmaps kube-system/"+e.name)
	e.eventuallyBound(labelled)
	errors(named, "")
	e.remove(configMaps, "kube-system", e.name)
	errors(labelled, "")
	e.eventuallyBound(named)
}

func TestNameTaken(t *testing.T) {
	e := newEnvironment(t)
	e.create(configMaps, object(e.name, "one", nil))
	foreign := object("", e.name+"-p", nil)
	foreign.Object["spec"] = map[string]any{"destinations": []any{map[string]any{"clusterId": "theirs"}}}
	e.create(bindings, foreign)
	e.start()
	policy := e.policy("p", fmt.Sprintf(`{"downsync":[{"namespaces":[%q]}]}`, e.name))
	e.eventuallyCondition(policy, synced, "False NameTaken")
	e.eventuallyBound(policy, "-> theirs")
	e.remove(bindings, "", policy)
	e.eventuallyBound(policy, "configmaps one")
	e.eventuallyCondition(policy, synced, "True Synced")
}

func TestStatusFollowsTheBinding(t *testing.T) {
	e := newEnvironment(t)
	e.deployment(e.name, "web", nil)
	c := e.start()
	policy := e.policy("p", fmt.Sprintf(`{"downsync":[{"namespaces":[%q],"resources":["deployments"],"wantSingletonReportedState":true}]}`, e.name))
	e.eventuallyBound(policy, "deployments web singleton")
	e.eventuallyCondition(policy, ready, "False NoDestinations")
	report := func(delivered, applied, errs string) {
		t.Helper()
		c := `{"type":%q,"status":%q,"reason":%q,"message":"says the transport","lastTransitionTime":"2026-01-01T00:00:00Z"}`
		reason := map[string]string{"True": "Delivered", "False": "Failed"}
		e.patch(bindings, "", policy, fmt.Sprintf(`{"status":{"observedGeneration":%d,"errors":%s,"conditions":[`+c+`,`+c+`]}}`, e.getBinding(policy).Generation, errs,
			"Delivered", delivered, reason[delivered], "Applied", applied, reason[applied]), "status")
	}
	miscount := fmt.Sprintf(`Singleton reported status return is requested but some objects have the wrong number of associated WECs, for example: `+
		`[{"ObjectID":{"GVK":{"Group":"apps","Version":"v1","Kind":"Deployment"},"Resource":"deployments","ObjectName":{"Namespace":%q,"Name":"web"}},"NumWECs":0}]`, e.name)
	report("True", "True", `["cluster2: no room","cluster1: no room"]`)
	e.eventuallyCondition(policy, "Applied", "True Delivered")
	if got := e.getPolicy(policy).Status.Errors; !slices.Equal(got, []string{miscount, "cluster1: no room", "cluster2: no room"}) {
		t.Errorf("errors %q", got)
	}

	e.cluster(e.name, map[string]string{"test": e.name})
	e.patch(policies, "", policy, fmt.Sprintf(`{"spec":{"clusterSelectors":[{"matchLabels":{"test":%q}}]}}`, e.name))
	e.eventuallyBound(policy, "deployments web singleton", "-> "+e.name)
	report("False", "True", "null")
	e.eventuallyCondition(policy, "Delivered", "False Failed")
	if got := e.eventuallyCondition(policy, ready, "False NotDelivered"); got != "says the transport" {
		t.Errorf("message %q", got)
	}
	report("True", "False", "null")
	e.eventuallyCondition(policy, ready, "False NotApplied")
	report("True", "True", `["cluster1: no room"]`)
	e.eventuallyCondition(policy, ready, "False Errors")
	report("True", "True", "null")
	e.eventuallyCondition(policy, ready, "True Applied")
	if got := e.getPolicy(policy).Status.Errors; len(got) != 0 {
		t.Errorf("errors %q", got)
	}
	c.stop()
	e.expectNoWrites(e.start())
}

func widgetCRD(versions ...string) map[string]any {
	list := make([]any, 0, len(versions))
	for i, v := range versions {
		list = append(list, map[string]any{
			"name": v, "served": true, "storage": i == 0,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	return map[string]any{
		"group": "binding.example.com", "scope": "Namespaced", "versions": list,
		"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
	}
}

func TestKindComesAndGoes(t *testing.T) {
	e := newEnvironment(t)
	e.create(configMaps, object(e.name, "one", nil))
	c := e.start()
	policy := e.policy("p", fmt.Sprintf(`{"downsync":[{"apiGroup":"binding.example.com","resources":["widgets"]},{"namespaces":[%q],"resources":["configmaps"]}]}`, e.name))
	e.eventuallyBound(policy, "configmaps one")
	unknown := `spec.downsync[0].apiGroup: the WDS serves no API group "binding.example.com"`
	errors := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			got := e.getPolicy(policy).Status.Errors
			return slices.Equal(want, got), fmt.Sprintf("errors %q", got)
		})
	}
	errors(unknown)

	e.defineWidgets()
	e.create(widgets, object(e.name, "w", nil))
	e.eventuallyBound(policy, "configmaps one", "widgets w")
	errors()
	if got := e.getBinding(policy).Spec.Workload.NamespaceScope[1].Version; got != "v1" {
		t.Errorf("version %s", got)
	}
	c.stop()
	restarted := e.start()
	e.expectNoWrites(restarted)

	// A kind that is not served for now keeps its objects, also for a controller that starts then.
	e.serveWidgets(false)
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := e.wds.Resource(widgets).Namespace(e.name).Get(t.Context(), "w", metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint("still served: ", err)
	})
	e.create(configMaps, object(e.name, "two", nil))
	e.eventuallyBound(policy, "configmaps one", "configmaps two", "widgets w")
	const notServed = "not served for now, existing entries are kept: widgets.binding.example.com. Set served: true in a version of its " +
		"CustomResourceDefinition, or delete the CustomResourceDefinition to remove the objects from the clusters"
	if got := e.eventuallyCondition(policy, synced, "Unknown NotObserved"); got != notServed {
		t.Errorf("the message is %q", got)
	}
	e.serveWidgets(true)
	e.fleet.Space(t, "wds1").Served(t, widgets)
	e.eventuallyCondition(policy, synced, "True Synced")
	e.serveWidgets(false)
	e.eventuallyCondition(policy, synced, "Unknown NotObserved")
	restarted.stop()
	restarted = e.start()
	e.create(configMaps, object(e.name, "three", nil))
	e.eventuallyBound(policy, "configmaps one", "configmaps three", "configmaps two", "widgets w")
	if got := e.eventuallyCondition(policy, synced, "Unknown NotObserved"); got != notServed {
		t.Errorf("the message after a restart is %q", got)
	}
	e.serveWidgets(true)
	e.fleet.Space(t, "wds1").Served(t, widgets)
	e.eventuallyCondition(policy, synced, "True Synced")

	// A policy can be deleted all the same.
	brief := e.policy("brief", `{"downsync":[{"apiGroup":"binding.example.com","resources":["widgets"]}]}`)
	e.eventuallyBound(brief, "widgets w")
	e.serveWidgets(false)
	e.eventuallyCondition(brief, synced, "Unknown NotObserved")
	e.delete(brief)
	testenv.Eventually(t, patience, func() (bool, string) { return e.getBinding(brief) == nil, "Binding " + brief })
	e.serveWidgets(true)
	e.fleet.Space(t, "wds1").Served(t, widgets)
	e.eventuallyCondition(policy, synced, "True Synced")

	testenv.DeleteKind(t, e.wds, "widgets.binding.example.com")
	e.eventuallyBound(policy, "configmaps one", "configmaps three", "configmaps two")
	errors(unknown)
	e.eventuallyCondition(policy, synced, "True Synced")
	e.ready(restarted)
}

// defineWidgets creates the kind Widget.
func (e *environment) defineWidgets() {
	e.t.Helper()
	crd := object("", "widgets.binding.example.com", nil)
	crd.Object["spec"] = widgetCRD("v1", "v1alpha1")
	e.create(crds, crd)
	e.fleet.Space(e.t, "wds1").Served(e.t, widgets)
}

// serveWidgets sets whether the WDS serves Widgets.
func (e *environment) serveWidgets(served bool) {
	e.t.Helper()
	crd := e.fleet.Space(e.t, "wds1").Get(e.t, crds, "", "widgets.binding.example.com")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		e.t.Fatal(err)
	}
	for _, version := range versions {
		version.(map[string]any)["served"] = served //nolint:forcetypeassert // the test wrote it
	}
	crd.Object["spec"].(map[string]any)["versions"] = versions //nolint:forcetypeassert // the test wrote it
	if _, err := e.wds.Resource(crds).Update(e.t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// TestWhatCannotBeReadStays: neither an inventory nor an API that cannot be read makes anything
// leave a Binding, nor holds up anything else.
func TestWhatCannotBeReadStays(t *testing.T) {
	e := newEnvironment(t)
	e.create(configMaps, object(e.name, "one", nil))
	e.cluster(e.name, map[string]string{"test": e.name})
	e.defineWidgets()
	e.create(widgets, object(e.name, "w", nil))
	c := e.start()
	policy := e.policy("p", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"namespaces":[%q]}]}`, e.name, e.name))
	e.eventuallyBound(policy, "configmaps one", "widgets w", "-> "+e.name)
	e.eventuallyCondition(policy, synced, "True Synced")
	c.stop()

	// The API of the Widgets becomes one of a server that is not there, and the inventory is out of
	// reach.
	testenv.DeleteKind(t, e.wds, "widgets.binding.example.com")
	api := object("", "v1.binding.example.com", nil)
	api.Object["spec"] = map[string]any{
		"group": "binding.example.com", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
		"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": e.name, "name": "nobody"},
	}
	testenv.Eventually(t, patience, func() (bool, string) { // the API server's own entry for the CRD must go first
		api.SetAPIVersion("apiregistration.k8s.io/v1")
		api.SetKind("APIService")
		_, err := e.wds.Resource(apiServices).Create(t.Context(), api, metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	t.Cleanup(func() { e.remove(apiServices, "", "v1.binding.example.com") })

	c = e.start(unreachable("its9"))
	e.create(configMaps, object(e.name, "two", nil))
	e.eventuallyBound(policy, "configmaps one", "configmaps two", "widgets w", "-> "+e.name)
	message := e.eventuallyCondition(policy, synced, "Unknown NotObserved")
	for _, want := range []string{"the API server of this resource does not respond, existing entries are kept: widgets.binding.example.com. Repair it", "ITS its9"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message %q does not name %q", message, want)
		}
	}
	e.eventuallyCondition(policy, ready, "Unknown NotSynced")
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), "its9") || !strings.Contains(err.Error(), "binding.example.com") {
		t.Errorf("Ready says %v", err)
	}
	// A policy can be deleted all the same.
	e.delete(policy)
	testenv.Eventually(t, patience, func() (bool, string) { return e.getBinding(policy) == nil, "Binding " + policy })
}

func TestSchemaRefuses(t *testing.T) {
	e := newEnvironment(t)
	cases := map[string]struct{ spec, want string }{
		"Valid":           {`{"clusterSelectors":[{}],"downsync":[{"objectNames":["*"]}]}`, ""},
		"Empty":           {`{}`, ""},
		"EmptyClause":     {`{"downsync":[{"objectNames":["*"]},{}]}`, "a clause must have at least one of"},
		"EmptyLists":      {`{"downsync":[{"resources":[],"namespaces":[],"createOnly":true}]}`, "a clause must have at least one of"},
		"CoreGroupAlone":  {`{"downsync":[{"apiGroup":""}]}`, ""},
		"NoList":          {`{"downsync":{"objectNames":["*"]}}`, "must be of type array"},
		"NoOperator":      {`{"clusterSelectors":[{"matchExpressions":[{"key":"a"}]}]}`, "operator: Required value"},
		"CollectorsTwice": {`{"downsync":[{"objectNames":["*"],"statusCollectors":["a","a"]}]}`, "Duplicate value"},
		"LongName":        {`{"downsync":[{"objectNames":["` + strings.Repeat("x", 254) + `"]}]}`, "Too long"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			fields := map[string]any{}
			if err := json.Unmarshal([]byte(tc.spec), &fields); err != nil {
				t.Fatal(err)
			}
			p := object("", e.name+"-"+strings.ToLower(name), nil)
			p.SetAPIVersion(policies.GroupVersion().String())
			p.SetKind("BindingPolicy")
			p.Object["spec"] = fields
			_, err := e.wds.Resource(policies).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if tc.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
		})
	}
}
