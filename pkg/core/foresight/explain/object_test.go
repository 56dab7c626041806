package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/golden"
)

// situation is one in which an object may be. Its name is that of its golden file.
type situation struct {
	name   string
	change func(w *world)
	// want is the first link that is not good, "" if all are.
	want  string
	state foresight.State
}

const (
	broken  = foresight.Broken
	waiting = foresight.Waiting
	unknown = foresight.Unknown
)

// situations are those of an object up to its Binding.
var situations = []situation{
	{"well", func(*world) {}, "", ""},
	{"well-in-one-cluster", func(w *world) { w.only("c1") }, "", ""},
	{"absent", func(w *world) { w.Live.Value = nil; w.unlisted() }, LinkExists, broken},
	{"absent-and-listed", func(w *world) { w.Live.Value = nil }, LinkExists, waiting},
	{"unreadable", func(w *world) {
		w.Live = foresight.Unread[*unstructured.Unstructured]("you may not get deployments.apps")
	}, LinkExists, unknown},
	{"being-deleted", func(w *world) {
		at := metav1.NewTime(now)
		w.live().SetDeletionTimestamp(&at)
		w.live().SetFinalizers([]string{"example.com/wait"})
	}, "", ""},
	{"never-workload", func(w *world) { w.Ref.Group, w.Ref.Resource = "coordination.k8s.io", "leases"; w.unlisted() }, LinkWorkload, broken},
	{"of-the-wds", func(w *world) {
		w.Ref.Namespace = "starling-system"
		w.live().SetNamespace("starling-system")
		w.unlisted()
	}, LinkWorkload, broken},
	{"generated", func(w *world) {
		w.Ref = objref.Ref{Resource: "configmaps", Namespace: "shop", Name: "kube-root-ca.crt"}
		w.live().SetName("kube-root-ca.crt")
		w.unlisted()
	}, LinkWorkload, broken},
	{"no-policy", func(w *world) { w.Policies.Value = nil }, LinkSelected, broken},
	{"policy-absent", func(w *world) { w.Policies.Value, w.Policy = nil, "shop" }, LinkSelected, broken},
	{"policies-unreadable", func(w *world) { w.Policies = foresight.Unread[[]Selection]("you may not list bindingpolicies") }, LinkSelected, unknown},
	{"label-missing", func(w *world) { w.live().SetLabels(nil); w.unlisted() }, LinkSelected, broken},
	{"label-differs", func(w *world) { w.live().SetLabels(map[string]string{"app": "api"}); w.unlisted() }, LinkSelected, broken},
	{"namespace-label-missing", func(w *world) {
		w.policy.Spec.Downsync[0].NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "b"}}}
		w.unlisted()
	}, LinkSelected, broken},
	{"namespace-unreadable", func(w *world) {
		w.policy.Spec.Downsync[0].NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "b"}}}
		w.Namespace = foresight.Unread[map[string]string]("you may not get namespaces")
		w.unlisted()
	}, LinkSelected, broken},
	{"other-name", func(w *world) { w.policy.Spec.Downsync[0].ObjectNames = []string{"api"}; w.unlisted() }, LinkSelected, broken},
	{"other-kind", func(w *world) { w.policy.Spec.Downsync[0].Resources = []string{"configmaps"}; w.unlisted() }, LinkSelected, broken},
	{"no-clause", func(w *world) { w.policy.Spec.Downsync = nil; w.unlisted() }, LinkSelected, broken},
	{"kube-system", func(w *world) {
		w.Ref.Namespace = "kube-system"
		w.live().SetNamespace("kube-system")
		w.unlisted()
	}, LinkSelected, broken},
	{"several-policies", func(w *world) {
		w.live().SetLabels(map[string]string{"app": "api"})
		w.unlisted()
		other := policyOf("other")
		other.Spec.Downsync[0].Resources = []string{"configmaps"}
		w.Policies.Value = append(w.Policies.Value, Selection{Policy: other})
	}, LinkSelected, broken},
	{"removal-blocked", func(w *world) {
		w.live().SetLabels(nil)
		w.block()
	}, LinkSelected, broken},
	{"addition-blocked", func(w *world) {
		w.unlisted()
		w.block()
	}, LinkSynced, broken},
	{"invalid-policy", func(w *world) {
		w.policy.Spec.ClusterSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"-": "x"}}}
		w.synced(metav1.ConditionFalse, "InvalidSpec", "invalid spec: spec.clusterSelectors[0].matchLabels: Invalid value. The Bindings stay unchanged until it is corrected")
		w.unlisted()
	}, LinkSelected, broken},
	{"invalid-policy-that-lists-it", func(w *world) {
		w.policy.Spec.ClusterSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"-": "x"}}}
		w.synced(metav1.ConditionFalse, "InvalidSpec", "invalid spec: spec.clusterSelectors[0].matchLabels: Invalid value. The Bindings stay unchanged until it is corrected")
	}, LinkSynced, broken},
	{"policy-not-observed", func(w *world) { w.policy.Generation = 4; w.unlisted() }, LinkSynced, waiting},
	{"no-binding-controller", func(w *world) { w.policy.Status = controlv1alpha1.BindingPolicyStatus{}; w.unlisted() }, LinkSynced, broken},
	{"name-taken", func(w *world) {
		w.synced(metav1.ConditionFalse, "NameTaken", `Binding "web" belongs to another owner. Delete it, or re-create the policy under another name`)
		w.unlisted()
	}, LinkSynced, broken},
	{"policy-not-synced", func(w *world) {
		w.synced(metav1.ConditionUnknown, "NotObserved", "not synced since startup, existing entries are kept: deployments.apps")
		w.unlisted()
	}, LinkSynced, waiting},
	{"policy-deleting", func(w *world) {
		at := metav1.NewTime(now)
		w.policy.DeletionTimestamp = &at
		w.synced(metav1.ConditionFalse, "Deleting", "waiting for the objects to leave the clusters")
	}, LinkSynced, waiting},
	{"bindings-unreadable", func(w *world) {
		w.Policies.Value[0].Bindings = foresight.Unread[[]*controlv1alpha1.Binding]("you may not list bindings.control.kubestellar.io")
	}, LinkListed, unknown},
	{"not-listed-yet", func(w *world) { w.live().SetCreationTimestamp(metav1.NewTime(now)); w.unlisted() }, LinkListed, waiting},
	{"not-listed", func(w *world) { w.unlisted() }, LinkListed, waiting},
	{"no-clusters", func(w *world) {
		w.binding.Spec.Destinations = nil
		w.policy.Status.Conditions = append(w.policy.Status.Conditions,
			condition("Ready", metav1.ConditionFalse, "NoDestinations", "no destinations: no accepted cluster matches spec.clusterSelectors"))
	}, LinkClusters, broken},
	{"only-pending-clusters", func(w *world) {
		w.binding.Spec.Destinations = nil
		w.Clusters.Value["c2"].Accepted = false
	}, LinkClusters, broken},
	{"loose-binding", func(w *world) { w.Policies.Value, w.Loose = nil, []*controlv1alpha1.Binding{w.binding} }, "", ""},
}

// block lets the removal block hold a change of the policy.
func (w *world) block() {
	w.synced(metav1.ConditionFalse, "RemovalBlocked", "see condition RemovalBlocked")
	w.policy.Status.Conditions = append(w.policy.Status.Conditions, condition("RemovalBlocked", metav1.ConditionTrue, "RemovalLimitExceeded",
		"blocked: this change would remove every object (deployments.apps shop/web) from 12 of 12 clusters (c1, c2, c3, c4, c5, c6 … and 6 more). "+
			"Revert it, or allow it with: kubectl annotate bindingpolicy web starling.io/allow-removal=5f0a2b7c9d11"))
}

// onTheWay are situations of an object between its Binding and its status from a cluster.
var onTheWay = []situation{
	{"cluster-absent", func(w *world) { w.only("c9") }, foresight.LinkAccepted, broken},
	{"cluster-gone", func(w *world) { delete(w.Clusters.Value, "c2") }, foresight.LinkAccepted, broken},
	{"cluster-not-accepted", func(w *world) { w.only("c1"); w.Clusters.Value["c1"].Accepted = false }, foresight.LinkAccepted, broken},
	{"cluster-leaving", func(w *world) { w.only("c1"); w.Clusters.Value["c1"].Leaving = true }, foresight.LinkAccepted, broken},
	{"cluster-name-taken", func(w *world) {
		w.only("c1")
		w.Clusters.Value["c1"].NameTaken = "its0 accepted a cluster of this name earlier"
	}, foresight.LinkAccepted, broken},
	{"cluster-not-selected", func(w *world) {
		w.only("c4")
		w.Clusters.Value["c4"] = clusterOf("c4")
		w.Clusters.Value["c4"].Labels = map[string]string{"env": "dev"}
	}, LinkCluster, broken},
	{"cluster-not-listed-yet", func(w *world) { w.only("c4"); w.Clusters.Value["c4"] = clusterOf("c4") }, LinkCluster, waiting},
	{"cluster-unreadable", func(w *world) {
		w.only("c4")
		w.Clusters = foresight.Unread[map[string]*foresight.Cluster]("you may not get managedclusters in ITS its1")
	}, LinkCluster, broken},
	{"held-with-current-content", func(w *world) { w.only("c1"); w.hold("deployments.apps/shop/web") }, "", ""},
	{"held-with-older-content", func(w *world) {
		w.only("c1")
		w.hold("deployments.apps/shop/web, configmaps/shop/a")
		w.item("c1").Hash[0]++
	}, LinkFree, broken},
	{"held-back", func(w *world) { w.only("c1"); w.hold("*"); w.undelivered("c1") }, LinkFree, broken},
	{"held-by-mistake", func(w *world) { w.only("c1"); w.hold("deployment/web"); w.item("c1").Hash[0]++ }, LinkFree, broken},
	{"held-by-transaction", func(w *world) {
		w.only("c1")
		w.binding.Annotations = map[string]string{annotationHeldObjects: plan.EncodeHolds([]plan.TransactionHold{
			plan.NewTransactionHold("tx-aws", []objref.Ref{web}, []string{"c1"}),
		})}
		w.item("c1").Hash[0]++
	}, LinkFree, broken},
	{"conflict", func(w *world) { w.only("c1"); w.claim() }, LinkFree, broken},
	{"conflict-that-is-reported", func(w *world) {
		w.only("c1")
		w.claim()
		w.binding.Status.Errors = []string{`c1: deployments.apps shop/web: WDS "wds2" (Binding "shop") delivers this object, with different content; ` +
			`this Binding does not deliver it: make the contents equal, or remove the object from one of the two`}
	}, LinkFree, broken},
	{"wrong-option", func(w *world) { w.only("c1"); w.annotate("starling.io/apply", "sometimes") }, LinkRendered, broken},
	{"wrong-custom-transform", func(w *world) { w.only("c1"); w.transform("$.metadata") }, LinkRendered, broken},
	{"custom-transform", func(w *world) { w.only("c1"); w.transform("$.spec.paused") }, "", ""},
	{"custom-transforms-unreadable", func(w *world) {
		w.only("c1")
		w.CustomTransforms = foresight.Unread[[]*controlv1alpha1.CustomTransform]("you may not list customtransforms")
	}, LinkRendered, unknown},
	{"wrong-template", func(w *world) { w.only("c1"); w.template("{{.region") }, LinkRendered, broken},
	{"property-missing", func(w *world) { w.template("{{.region}}") }, LinkRendered, broken},
	{"properties-unreadable", func(w *world) {
		w.only("c1")
		w.template("{{.region}}")
		w.Mailboxes["c1"].Properties = foresight.Unread[*customize.Properties]("you may not get configmaps in ITS its1")
	}, LinkRendered, unknown},
	{"transport-may-not-read-it", func(w *world) {
		w.binding.Status.Errors = []string{`deployments.apps shop/web: cannot be read: deployments.apps "web" is forbidden`}
	}, LinkRendered, broken},
	{"binding-not-observed", func(w *world) {
		w.binding.Generation = 8
		w.undelivered("c1")
		w.undelivered("c2")
		w.undelivered("c3")
	}, LinkDelivered, waiting},
	{"not-in-mailbox-yet", func(w *world) { w.undelivered("c2") }, LinkDelivered, waiting},
	{"mailbox-unreadable", func(w *world) {
		w.only("c1")
		w.Mailboxes["c1"] = &Mailbox{Works: foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its1")}
	}, LinkDelivered, unknown},
	{"write-failed", func(w *world) {
		w.only("c1")
		w.undelivered("c1")
		w.binding.Status.Errors = []string{"c1: create work web-1: Forbidden: exceeded quota"}
	}, LinkDelivered, broken},
	{"too-large", func(w *world) {
		w.undelivered("c1")
		w.only("c1")
		w.binding.Status.Errors = []string{"deployments.apps shop/web: is too large for a work. Make it smaller, or raise --max-size-wrapped of the transport-controller"}
	}, LinkRendered, broken},
	{"waits-for-its-namespace", func(w *world) { w.only("c1"); w.namespace(plan.Pending, "") }, LinkDelivered, waiting},
	{"its-namespace-failed", func(w *world) { w.only("c1"); w.namespace(plan.Failed, `namespaces "shop" is forbidden`) }, LinkDelivered, broken},
	{"older-content", func(w *world) { w.item("c1").Hash[0]++ }, LinkDelivered, waiting},
	{"withdrawn", func(w *world) { w.only("c1"); w.item("c1").Withdrawn, w.item("c1").Observe = true, true }, LinkDelivered, waiting},
	{"restored-work", func(w *world) { w.only("c1"); w.Mailboxes["c1"].Works.Value[0].Restored = "r1" }, LinkDelivered, waiting},
	{"not-joined", func(w *world) { w.only("c1"); w.Clusters.Value["c1"].Joined = false; w.item("c1").State = plan.Pending }, foresight.LinkJoined, broken},
	{"agent-silent", func(w *world) { w.silence("c2", 3*time.Hour); w.silence("c3", 4*time.Hour) }, foresight.LinkAgent, broken},
	{"agent-silent-before-it-applied", func(w *world) { w.silence("c2", 3*time.Hour); w.item("c2").State = plan.Pending }, foresight.LinkAgent, broken},
	{"heartbeat-unreadable", func(w *world) {
		w.only("c1")
		w.Clusters.Value["c1"].Lease = foresight.Unread[*foresight.Lease]("you may not get leases in ITS its1")
	}, foresight.LinkAgent, unknown},
	{"api-server-down", func(w *world) {
		w.only("c1")
		w.Clusters.Value["c1"].Available = foresight.Availability{Status: metav1.ConditionFalse, Message: "the kube-apiserver is not ok, status code: 500"}
	}, foresight.LinkAvailable, broken},
	{"not-applied-yet", func(w *world) { w.item("c1").State = plan.Pending }, LinkApplied, waiting},
	{"silent-destination", func(w *world) { w.only("c1"); w.item("c1").State = plan.Silent }, LinkApplied, unknown},
	{"refused", func(w *world) {
		w.fails("c2", `Deployment.apps "web" is invalid: spec.template: Required value`)
		w.fails("c3", `Deployment.apps "web" is invalid: spec.template: Required value`)
	}, LinkApplied, broken},
	{"no-rights", func(w *world) {
		w.only("c1")
		w.fails("c1", `deployments.apps "web" is forbidden: User "system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa" cannot patch`)
	}, LinkApplied, broken},
	{"quota", func(w *world) {
		w.only("c1")
		w.fails("c1", `deployments.apps "web" is forbidden: exceeded quota: all`)
	}, LinkApplied, broken},
	{"no-namespace", func(w *world) { w.only("c1"); w.fails("c1", `namespaces "shop" not found`) }, LinkApplied, broken},
	{"no-namespace-yet", func(w *world) {
		w.only("c1")
		w.fails("c1", `namespaces "shop" not found`)
		w.item("c1").Since = now.Unix()
	}, LinkApplied, waiting},
	{"no-kind", func(w *world) { w.only("c1"); w.fails("c1", `the server doesn't have a resource type "Deployment"`) }, LinkApplied, broken},
	{"field-conflict", func(w *world) {
		w.only("c1")
		w.fails("c1", `Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas`)
	}, LinkApplied, broken},
	{"immutable", func(w *world) { w.only("c1"); w.fails("c1", "spec.selector: Invalid value: field is immutable") }, LinkApplied, broken},
	{"webhook", func(w *world) {
		w.only("c1")
		w.fails("c1", `failed calling webhook "a.example.com": connection refused`)
	}, LinkApplied, broken},
	{"secret-refused", func(w *world) {
		w.only("c1")
		w.is(objref.Ref{Resource: "secrets", Namespace: "shop", Name: "key"}, "Secret")
		w.fails("c1", "hunter2")
	}, LinkApplied, broken},
	{"created-only", func(w *world) { w.only("c1"); w.item("c1").CreateOnly = true }, "", ""},
	{"no-status", func(w *world) {
		w.is(objref.Ref{Resource: "configmaps", Namespace: "shop", Name: "settings"}, "ConfigMap")
		for _, box := range w.Mailboxes {
			box.Report.Value = nil
		}
	}, "", ""},
	{"no-add-on", func(w *world) {
		w.only("c1")
		w.Mailboxes["c1"].Report.Value, w.Clusters.Value["c1"].AddOn.Value = nil, nil
	}, foresight.LinkAddOn, broken},
	{"not-reported-yet", func(w *world) {
		w.only("c1")
		w.Mailboxes["c1"].Report.Value, w.item("c1").Since = nil, now.Unix()-5
	}, LinkReported, waiting},
	{"not-reported", func(w *world) { w.only("c1"); w.Mailboxes["c1"].Report.Value = nil }, LinkReported, broken},
	{"report-unreadable", func(w *world) {
		w.only("c1")
		w.Mailboxes["c1"].Report = foresight.Unread[*status.Report]("you may not get workstatuses in ITS its1")
	}, LinkReported, unknown},
	{"progressing", func(w *world) { w.Mailboxes["c1"].Report.Value.Status["availableReplicas"] = int64(1) }, LinkHealthy, waiting},
	{"unhealthy", func(w *world) {
		w.Mailboxes["c2"].Report.Value.Status["conditions"] = []any{map[string]any{
			"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": `ReplicaSet "web-1" has timed out progressing.`,
		}}
	}, LinkHealthy, broken},
	{"status-asked-of-too-many", func(w *world) { w.asks(true, false) }, LinkReturned, broken},
	{"status-not-returned-yet", func(w *world) { w.asks(false, true) }, LinkReturned, waiting},
	{"status-returned", func(w *world) {
		w.asks(false, true)
		w.live().SetLabels(map[string]string{"app": "web", controlv1alpha1.LabelExecutingCount: "3"})
	}, "", ""},
	{"no-its", func(w *world) { w.noITS() }, "", ""},
	{"no-its-not-applied", func(w *world) {
		w.noITS()
		w.only("c1")
		w.binding.Status.Conditions[1].Status, w.binding.Status.Conditions[2].Status = metav1.ConditionFalse, metav1.ConditionFalse
	}, LinkDelivered, unknown},
	{"no-its-refused", func(w *world) {
		w.noITS()
		w.only("c1")
		w.binding.Status.Errors = []string{`c1: deployments.apps shop/web: Deployment.apps "web" is invalid`}
	}, LinkApplied, broken},
	{"different-outcomes", func(w *world) {
		for i := 4; i < 20; i++ {
			name := fmt.Sprintf("c%d", i)
			w.Clusters.Value[name] = clusterOf(name)
			w.Mailboxes[name] = &Mailbox{Works: foresight.Known([]*plan.Work{workOf(w.t, w.binding, name, web, w.live())}), Report: foresight.Known(healthyReport())}
			w.binding.Spec.Destinations = append(w.binding.Spec.Destinations, controlv1alpha1.Destination{ClusterID: name})
		}
		w.fails("c2", `namespaces "shop" not found`)
		w.fails("c7", `namespaces "shop" not found`)
		w.silence("c5", time.Hour)
		w.Mailboxes["c9"].Report.Value.Status["availableReplicas"] = int64(1)
		w.Mailboxes["c11"].Works = foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its2")
	}, foresight.LinkAgent, broken},
	{"two-policies", func(w *world) {
		second := policyOf("web2")
		second.Spec.Downsync[0].ObjectSelectors[0].MatchLabels["app"] = "web"
		second.Status.Conditions = []metav1.Condition{condition("Synced", metav1.ConditionUnknown, "NotObserved", "not synced since startup, existing entries are kept: deployments.apps")}
		w.Policies.Value = append(w.Policies.Value, Selection{Policy: second})
	}, "", ""},
}

func (w *world) hold(what string) {
	w.binding.Annotations = map[string]string{controlv1alpha1.AnnotationHold: what}
}

// claim lets another WDS deliver the object to c1.
func (w *world) claim() {
	w.item("c1").Observe = true
	other := workOf(w.t, bindingOf("shop", nil), "c1", web, w.live())
	other.BindingUID, other.Foreign = "other", plan.WDS{UID: "uid2", Name: "wds2"}
	w.Mailboxes["c1"].Works.Value = append(w.Mailboxes["c1"].Works.Value, other)
}

func (w *world) transform(remove string) {
	w.CustomTransforms.Value = []*controlv1alpha1.CustomTransform{{
		ObjectMeta: metav1.ObjectMeta{Name: "quiet", UID: "ct"},
		Spec:       controlv1alpha1.CustomTransformSpec{APIGroup: "apps", Resource: "deployments", Remove: []string{remove}},
	}}
}

func (w *world) template(text string) {
	w.annotate(controlv1alpha1.AnnotationExpandTemplates, "true")
	w.annotate("region", text)
}

// namespace puts the Namespace of the object into the mailbox of c1, and not the object.
func (w *world) namespace(state plan.State, message string) {
	item := w.item("c1")
	item.Ref, item.Kind, item.State, item.Reason, item.Message = objref.Ref{Resource: "namespaces", Name: "shop"}, "Namespace", state, "AppliedManifestFailed", message
}

func (w *world) silence(cluster string, since time.Duration) {
	w.Clusters.Value[cluster].Lease.Value.Renewed = now.Add(-since)
}

// is makes the object one of another kind.
func (w *world) is(ref objref.Ref, kind string) {
	w.Ref = ref
	w.live().SetName(ref.Name)
	w.live().SetAPIVersion("v1")
	w.live().SetKind(kind)
	w.binding.Spec = bindingOf("web", []objref.Ref{ref}, "c1", "c2", "c3").Spec
	for name, box := range w.Mailboxes {
		box.Works.Value = []*plan.Work{workOf(w.t, w.binding, name, ref, w.live())}
	}
}

func (w *world) asks(singleton, all bool) {
	m := &w.binding.Spec.Workload.NamespaceScope[0].DownsyncModulation
	m.WantSingletonReportedState, m.WantMultiWECReportedState = singleton, all
}

func (w *world) noITS() {
	w.NoITS = "no ITS is known: name its context with --its-context"
	w.Clusters = foresight.Fact[map[string]*foresight.Cluster]{}
	w.Mailboxes = nil
}

// TestObject has each situation of an object.
func TestObject(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range append(append([]situation(nil), situations...), onTheWay...) {
		if names[s.name] {
			t.Errorf("two situations are called %s", s.name)
		}
		names[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s.change(w)
			e := w.Explain()
			checkFirst(t, e, s.want, s.state)
			golden.Compare(t, "object/"+s.name, draw(e))
		})
	}
}

// checkFirst compares the first link that is not good, and checks what holds of all explanations.
func checkFirst(t *testing.T, e *Explanation, want string, state foresight.State) {
	t.Helper()
	if e.Broken == nil {
		if want != "" {
			t.Errorf("all is good, want %s %s", want, state)
		}
		return
	}
	if e.Broken.Name != want || e.Broken.State != state {
		t.Errorf("the first link that is not good is %s %s, want %s %s: %s", e.Broken.Name, e.Broken.State, want, state, e.Broken.Text)
	}
	for _, links := range append([][]foresight.Link{e.Links}, linksOf(e)...) {
		for i, l := range links {
			if l.Text == "" || strings.Contains(l.Text, "%!") || strings.Contains(l.Text, "\n") {
				t.Errorf("link %s has no text, or a wrong one: %q", l.Name, l.Text)
			}
			if (l.State == broken || l.State == waiting) && i < len(links)-1 && l.Name != foresight.LinkAddOn && l.Name != linkRemoved {
				t.Errorf("a link follows %s, which is %s", l.Name, l.State)
			}
		}
	}
}

func linksOf(e *Explanation) [][]foresight.Link {
	var all [][]foresight.Link
	for i := range e.Groups {
		all = append(all, e.Groups[i].Links)
	}
	return all
}

// TestMask: names of clusters that are parts of other words do not separate them.
func TestMask(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{"cluster a cannot apply", "a", "cluster \x00 cannot apply"},
		{"c1: c10 c1-1 c1", "c1", "\x00: c10 c1-1 \x00"},
		{"nothing", "", "nothing"},
	} {
		if got := mask(tc[0], tc[1]); got != tc[2] {
			t.Errorf("mask(%q, %q) = %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}
