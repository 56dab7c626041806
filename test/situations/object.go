package situations

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
)

// Situation is one in which an object may be. Its name is that of its golden file.
type Situation struct {
	Name   string
	Change func(w *World)
	// Want is the first link that is not good, "" if all are; State is how it is.
	Want  string
	State foresight.State
}

const (
	broken  = foresight.Broken
	waiting = foresight.Waiting
	unknown = foresight.Unknown
)

// situations are those of an object up to its Binding.
var situations = []Situation{
	{"well", func(*World) {}, "", ""},
	{"well-in-one-cluster", func(w *World) { w.only("c1") }, "", ""},
	{"absent", func(w *World) { w.Live.Value = nil; w.Unlist() }, explain.LinkExists, broken},
	{"absent-and-listed", func(w *World) { w.Live.Value = nil }, explain.LinkExists, waiting},
	{"unreadable", func(w *World) {
		w.Live = foresight.Unread[*unstructured.Unstructured]("you may not get deployments.apps")
	}, explain.LinkExists, unknown},
	{"being-deleted", func(w *World) {
		w.endObject()
		w.Unlist()
	}, explain.LinkExists, broken},
	{"being-deleted-and-listed", (*World).endObject, explain.LinkExists, waiting},
	{"never-workload", func(w *World) {
		w.is(objref.Ref{Group: "coordination.k8s.io", Resource: "leases", Namespace: "shop", Name: "web"}, "Lease")
		w.live().SetAPIVersion("coordination.k8s.io/v1")
		delete(w.live().Object, "spec")
		w.Unlist()
	}, explain.LinkWorkload, broken},
	{"of-the-wds", func(w *World) {
		w.Ref.Namespace = "starling-system"
		w.live().SetNamespace("starling-system")
		w.Unlist()
	}, explain.LinkWorkload, broken},
	{"generated", func(w *World) {
		w.Ref = objref.Ref{Resource: "configmaps", Namespace: "shop", Name: "kube-root-ca.crt"}
		w.is(w.Ref, "ConfigMap")
		w.Unlist()
	}, explain.LinkWorkload, broken},
	{"no-policy", func(w *World) { w.Policies.Value = nil }, explain.LinkSelected, broken},
	{"policy-absent", func(w *World) { w.Policies.Value, w.Policy = nil, "shop" }, explain.LinkSelected, broken},
	{"policies-unreadable", func(w *World) { w.Policies = foresight.Unread[[]explain.Selection]("you may not list bindingpolicies") }, explain.LinkSelected, unknown},
	{"label-missing", func(w *World) { w.live().SetLabels(nil); w.Unlist() }, explain.LinkSelected, broken},
	{"label-differs", func(w *World) { w.live().SetLabels(map[string]string{"app": "api"}); w.Unlist() }, explain.LinkSelected, broken},
	{"namespace-label-missing", func(w *World) {
		w.Selecting.Spec.Downsync[0].NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "b"}}}
		w.Unlist()
	}, explain.LinkSelected, broken},
	{"namespace-unreadable", func(w *World) {
		w.Selecting.Spec.Downsync[0].NamespaceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"team": "b"}}}
		w.Namespace = foresight.Unread[map[string]string]("you may not get namespaces")
		w.Unlist()
	}, explain.LinkSelected, broken},
	{"other-name", func(w *World) { w.Selecting.Spec.Downsync[0].ObjectNames = []string{"api"}; w.Unlist() }, explain.LinkSelected, broken},
	{"other-kind", func(w *World) { w.Selecting.Spec.Downsync[0].Resources = []string{"configmaps"}; w.Unlist() }, explain.LinkSelected, broken},
	{"no-clause", func(w *World) { w.Selecting.Spec.Downsync = nil; w.Unlist() }, explain.LinkSelected, broken},
	{"kube-system", func(w *World) {
		w.Ref.Namespace = "kube-system"
		w.live().SetNamespace("kube-system")
		w.Unlist()
	}, explain.LinkSelected, broken},
	{"several-policies", func(w *World) {
		w.live().SetLabels(map[string]string{"app": "api"})
		w.Unlist()
		other := PolicyOf("other")
		other.Spec.Downsync[0].Resources = []string{"configmaps"}
		w.Policies.Value = append(w.Policies.Value, explain.Selection{Policy: other})
	}, explain.LinkSelected, broken},
	{"removal-blocked", func(w *World) {
		w.live().SetLabels(nil)
		w.Block()
	}, explain.LinkSelected, broken},
	{"addition-blocked", func(w *World) {
		w.Unlist()
		w.Block()
	}, explain.LinkSynced, broken},
	{"invalid-policy", func(w *World) {
		w.Selecting.Spec.ClusterSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"-": "x"}}}
		w.SetSynced(metav1.ConditionFalse, "InvalidSpec", "invalid spec: spec.clusterSelectors[0].matchLabels: Invalid value. The Bindings stay unchanged until it is corrected")
		w.Unlist()
	}, explain.LinkSelected, broken},
	{"invalid-policy-that-lists-it", func(w *World) {
		w.Selecting.Spec.ClusterSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"-": "x"}}}
		w.SetSynced(metav1.ConditionFalse, "InvalidSpec", "invalid spec: spec.clusterSelectors[0].matchLabels: Invalid value. The Bindings stay unchanged until it is corrected")
	}, explain.LinkSynced, broken},
	{"policy-not-observed", func(w *World) { w.Selecting.Generation = 4; w.Unlist() }, explain.LinkSynced, waiting},
	{"no-binding-controller", func(w *World) { w.Selecting.Status = controlv1alpha1.BindingPolicyStatus{}; w.Unlist() }, explain.LinkSynced, broken},
	{"name-taken", func(w *World) {
		w.SetSynced(metav1.ConditionFalse, "NameTaken", `Binding "web" belongs to another owner: re-create the policy under another name`)
		w.Unlist()
	}, explain.LinkSynced, broken},
	{"policy-not-synced", func(w *World) {
		w.SetSynced(metav1.ConditionUnknown, "NotObserved", "not synced since startup, existing entries are kept: deployments.apps")
		w.Unlist()
	}, explain.LinkSynced, waiting},
	{"another-kind-cannot-be-read", func(w *World) {
		w.SetSynced(metav1.ConditionTrue, "Synced", "objects that cannot be read are not delivered: widgets.example.com (conversion webhook: connection refused). "+
			"Repair it, or delete its CustomResourceDefinition or APIService")
	}, "", ""},
	{"policy-deleting", func(w *World) {
		at := metav1.NewTime(Now)
		w.Selecting.DeletionTimestamp = &at
		w.SetSynced(metav1.ConditionFalse, "Deleting", "waiting for the objects to leave the clusters")
	}, explain.LinkSynced, waiting},
	{"bindings-unreadable", func(w *World) {
		w.Policies.Value[0].Bindings = foresight.Unread[[]*controlv1alpha1.Binding]("you may not list bindings.control.kubestellar.io")
	}, explain.LinkListed, unknown},
	{"not-listed-yet", func(w *World) { w.live().SetCreationTimestamp(metav1.NewTime(Now)); w.Unlist() }, explain.LinkListed, waiting},
	{"not-listed", func(w *World) { w.Unlist() }, explain.LinkListed, waiting},
	{"no-clusters", func(w *World) {
		w.Binding.Spec.Destinations = nil
		for _, cluster := range w.Clusters.Value {
			cluster.Labels = nil
		}
		w.Selecting.Status.Conditions = append(w.Selecting.Status.Conditions,
			Condition("Ready", metav1.ConditionFalse, "NoDestinations", "no destinations: no accepted cluster matches spec.clusterSelectors"))
	}, explain.LinkClusters, broken},
	{"only-pending-clusters", func(w *World) {
		w.Binding.Spec.Destinations = nil
		w.keep("c2").Accepted = false
	}, explain.LinkClusters, broken},
	{"only-drained-clusters", func(w *World) {
		w.Binding.Spec.Destinations = nil
		w.keep("c2").Labels[controlv1alpha1.LabelDrained] = "true"
	}, explain.LinkClusters, broken},
	{"policy-not-observed-that-lists-it", func(w *World) { w.Selecting.Generation = 4 }, "", ""},
	{"blocked-elsewhere", func(w *World) { w.Block() }, "", ""},
	{"of-a-package", (*World).packaged, "", ""},
	{"of-a-package-and-refused", func(w *World) {
		w.packaged()
		w.Fails("c1", "admission webhook denied the request")
	}, explain.LinkApplied, broken},
	{"of-an-unknown-package", func(w *World) {
		w.packaged()
		w.WithoutITS()
		w.Packages = foresight.Unread[[]*controlv1alpha1.Binding]("works are read in no ITS: see --its-context")
	}, explain.LinkExists, unknown},
	{"loose-binding", func(w *World) { w.Policies.Value, w.Loose = nil, []*controlv1alpha1.Binding{w.Binding} }, "", ""},
}

// packaged makes it an object of a package, not of the WDS.
func (w *World) packaged() {
	w.Live.Value = nil
	w.Unlist()
	w.Policies.Value = nil
	w.Binding.Name, w.Binding.OwnerReferences, w.Binding.Labels = "c1.web", nil, map[string]string{controlv1alpha1.LabelPackageRepository: "c1"}
	w.Binding.Spec.Workload.Packages = []controlv1alpha1.PackageClause{{Namespace: "default", Repository: "c1", Package: "web", Name: "c1.web.v2", Revision: 2, Digest: "sha256:" + strings.Repeat("0", 64)}}
	w.Packages.Value = []*controlv1alpha1.Binding{w.Binding}
}

// keep leaves one cluster.
func (w *World) keep(name string) *foresight.Cluster {
	w.Clusters.Value = map[string]*foresight.Cluster{name: w.Clusters.Value[name]}
	return w.Clusters.Value[name]
}

// Block lets the removal block hold a change of the policy.
func (w *World) Block() {
	w.SetSynced(metav1.ConditionFalse, "RemovalBlocked", "see condition RemovalBlocked")
	w.Selecting.Status.Conditions = append(w.Selecting.Status.Conditions, Condition("RemovalBlocked", metav1.ConditionTrue, "RemovalLimitExceeded",
		"blocked: this change would remove every object (deployments.apps shop/web) from 12 of 12 clusters (c1, c2, c3, c4, c5, c6 … and 6 more). "+
			"Revert it, or allow it with: kubectl annotate bindingpolicy web starling.io/allow-removal=5f0a2b7c9d11"))
}

// onTheWay are situations of an object between its Binding and its status from a cluster.
var onTheWay = []Situation{
	{"cluster-absent", func(w *World) { w.only("c9") }, foresight.LinkAccepted, broken},
	{"cluster-gone", func(w *World) { delete(w.Clusters.Value, "c2") }, foresight.LinkAccepted, broken},
	{"cluster-not-accepted", func(w *World) { w.only("c1"); w.Clusters.Value["c1"].Accepted = false }, foresight.LinkAccepted, broken},
	{"cluster-drained", func(w *World) {
		w.only("c1")
		w.Clusters.Value["c1"].Labels[controlv1alpha1.LabelDrained] = "true"
	}, foresight.LinkAccepted, broken},
	{"cluster-leaving", func(w *World) { w.only("c1"); w.Clusters.Value["c1"].Leaving = true }, foresight.LinkAccepted, broken},
	{"cluster-name-taken", func(w *World) {
		w.only("c1")
		w.Clusters.Value["c1"].NameTaken = "its0 accepted a cluster of this name earlier"
	}, foresight.LinkAccepted, broken},
	{"cluster-not-selected", func(w *World) {
		w.only("c4")
		w.Clusters.Value["c4"] = ClusterOf("c4")
		w.Clusters.Value["c4"].Labels = map[string]string{"env": "dev"}
	}, explain.LinkCluster, broken},
	{"cluster-not-listed-yet", func(w *World) { w.only("c4"); w.Clusters.Value["c4"] = ClusterOf("c4") }, explain.LinkCluster, waiting},
	{"cluster-gained", func(w *World) { w.Clusters.Value["c4"] = ClusterOf("c4") }, explain.LinkCluster, waiting},
	{"cluster-lost", func(w *World) { w.Clusters.Value["c3"].Labels["env"] = "dev" }, explain.LinkCluster, waiting},
	{"cluster-lost-and-blocked", func(w *World) {
		w.Clusters.Value["c3"].Labels["env"] = "dev"
		w.Block()
	}, explain.LinkCluster, broken},
	{"cluster-gained-by-an-edit", func(w *World) {
		w.Clusters.Value["c4"] = ClusterOf("c4")
		w.Selecting.Generation = 4
	}, explain.LinkCluster, waiting},
	{"cluster-gained-and-blocked", func(w *World) {
		w.Clusters.Value["c4"] = ClusterOf("c4")
		w.Block()
	}, explain.LinkCluster, broken},
	{"cluster-unreadable", func(w *World) {
		w.only("c4")
		w.Clusters = foresight.Unread[map[string]*foresight.Cluster]("you may not get managedclusters in ITS its1")
	}, explain.LinkCluster, broken},
	{"held-with-current-content", func(w *World) { w.only("c1"); w.hold("deployments.apps/shop/web") }, "", ""},
	{"held-with-older-content", func(w *World) {
		w.only("c1")
		w.hold("deployments.apps/shop/web, configmaps/shop/a")
		w.Item("c1").Bare[0]++
	}, explain.LinkFree, broken},
	{"held-back", func(w *World) { w.only("c1"); w.hold("*"); w.Undelivered("c1") }, explain.LinkFree, broken},
	{"held-by-mistake", func(w *World) { w.only("c1"); w.hold("deployment/web"); w.Item("c1").Bare[0]++ }, explain.LinkFree, broken},
	{"held-by-transaction", func(w *World) {
		w.only("c1")
		w.HoldFor("tx-aws", "c1")
		w.Item("c1").Bare[0]++
	}, explain.LinkFree, broken},
	{"held-by-running-transaction", func(w *World) {
		w.only("c1")
		w.HoldFor("tx-aws", "c1")
		w.Running.Value = plan.Holder{Transaction: "tx-aws", UID: "t1"}
		w.Item("c1").Bare[0]++
	}, explain.LinkFree, waiting},
	{"held-by-former-transaction", func(w *World) { // another one of its name runs now
		w.only("c1")
		hold := plan.NewTransactionHold(plan.Holder{Transaction: "tx-aws", UID: "t0"}, []objref.Ref{Web}, []string{"c1"})
		w.HoldFor("tx-aws", "c1")
		w.Holds.Value.Annotations[pkgv1.AnnotationHeldObjects] = plan.EncodeHolds([]plan.TransactionHold{hold})
		w.Running.Value = plan.Holder{Transaction: "tx-aws", UID: "t1"}
		w.Item("c1").Bare[0]++
	}, explain.LinkFree, broken},
	{"held-by-transaction-of-which-nothing-is-known", func(w *World) {
		w.only("c1")
		w.HoldFor("tx-aws", "c1")
		w.Running.Unread = "you may not get locks.pkg.crossplane.io"
		w.Item("c1").Bare[0]++
	}, explain.LinkFree, unknown},
	{"held-by-transaction-elsewhere", func(w *World) { w.only("c1"); w.HoldFor("tx-aws", "c2") }, "", ""},
	{"held-by-mistake-of-transactions", func(w *World) {
		w.only("c1")
		w.HoldFor("tx-aws")
		w.Holds.Value.Annotations[pkgv1.AnnotationHeldObjects] = "tx-aws"
		w.Undelivered("c1")
	}, explain.LinkFree, broken},
	{"conflict", func(w *World) { w.only("c1"); w.Claim() }, explain.LinkFree, broken},
	{"conflict-that-is-reported", func(w *World) {
		w.only("c1")
		w.Claim()
		w.Binding.Status.Errors = []string{`c1: deployments.apps shop/web: WDS "wds2" (Binding "shop") delivers this object, with different content; ` +
			`this Binding does not deliver it: make the contents equal, or remove the object from one of the two`}
	}, explain.LinkFree, broken},
	{"wrong-option", func(w *World) { w.only("c1"); w.annotate("starling.io/apply", "sometimes") }, explain.LinkRendered, broken},
	{"wrong-custom-transform", func(w *World) { w.only("c1"); w.transform("$.metadata") }, explain.LinkRendered, broken},
	{"custom-transform", func(w *World) { w.only("c1"); w.transform("$.spec.paused") }, "", ""},
	{"custom-transforms-unreadable", func(w *World) {
		w.only("c1")
		w.CustomTransforms = foresight.Unread[[]*controlv1alpha1.CustomTransform]("you may not list customtransforms")
	}, explain.LinkRendered, unknown},
	{"wrong-template", func(w *World) { w.only("c1"); w.template("{{.region") }, explain.LinkRendered, broken},
	{"property-missing", func(w *World) { w.template("{{.region}}") }, explain.LinkRendered, broken},
	{"properties-unreadable", func(w *World) {
		w.only("c1")
		w.template("{{.region}}")
		w.Mailboxes["c1"].Properties = foresight.Unread[*customize.Properties]("you may not get configmaps in ITS its1")
	}, explain.LinkRendered, unknown},
	{"transport-may-not-read-it", func(w *World) {
		w.Binding.Status.Errors = []string{`deployments.apps shop/web: cannot be read: deployments.apps "web" is forbidden`}
	}, explain.LinkRendered, broken},
	{"binding-not-observed", func(w *World) {
		w.Binding.Generation = 8
		w.Undelivered("c1")
		w.Undelivered("c2")
		w.Undelivered("c3")
	}, explain.LinkDelivered, waiting},
	{"not-in-mailbox-yet", func(w *World) { w.Undelivered("c2") }, explain.LinkDelivered, waiting},
	{"mailbox-unreadable", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"] = &explain.Mailbox{Works: foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its1")}
	}, explain.LinkDelivered, unknown},
	{"write-failed", func(w *World) {
		w.only("c1")
		w.Undelivered("c1")
		w.Binding.Status.Errors = []string{"c1: create work web-1: Forbidden: exceeded quota"}
	}, explain.LinkDelivered, broken},
	{"too-large", func(w *World) {
		w.Undelivered("c1")
		w.only("c1")
		w.Binding.Status.Errors = []string{"deployments.apps shop/web: is too large for a work. Make it smaller, or raise --max-size-wrapped of the transport-controller"}
	}, explain.LinkRendered, broken},
	{"waits-for-its-namespace", func(w *World) { w.only("c1"); w.namespace(plan.Pending, "") }, explain.LinkDelivered, waiting},
	{"its-namespace-failed", func(w *World) { w.only("c1"); w.namespace(plan.Failed, `namespaces "shop" is forbidden`) }, explain.LinkDelivered, broken},
	{"older-content", func(w *World) { w.Item("c1").Bare[0]++ }, explain.LinkDelivered, waiting},
	{"withdrawn", func(w *World) { w.only("c1"); w.Item("c1").Withdrawn, w.Item("c1").Observe = true, true }, explain.LinkDelivered, waiting},
	{"restored-work", func(w *World) { w.only("c1"); w.Mailboxes["c1"].Works.Value[0].Restored = "r1" }, explain.LinkDelivered, waiting},
	{"not-joined", func(w *World) { w.only("c1"); w.Clusters.Value["c1"].Joined = false; w.Item("c1").State = plan.Pending }, foresight.LinkJoined, broken},
	{"agent-silent", func(w *World) { w.Silence("c2", 3*time.Hour); w.Silence("c3", 4*time.Hour) }, foresight.LinkAgent, broken},
	{"agent-silent-before-it-applied", func(w *World) { w.Silence("c2", 3*time.Hour); w.Item("c2").State = plan.Pending }, foresight.LinkAgent, broken},
	{"heartbeat-unreadable", func(w *World) {
		w.only("c1")
		w.Clusters.Value["c1"].Lease = foresight.Unread[*foresight.Lease]("you may not get leases in ITS its1")
	}, foresight.LinkAgent, unknown},
	{"api-server-down", func(w *World) {
		w.only("c1")
		w.Clusters.Value["c1"].Available = foresight.Availability{Status: metav1.ConditionFalse, Message: "the kube-apiserver is not ok, status code: 500", Since: Now.Add(-time.Hour)}
	}, foresight.LinkAvailable, broken},
	{"not-applied-yet", func(w *World) { w.Item("c1").State = plan.Pending }, explain.LinkApplied, waiting},
	{"silent-destination", func(w *World) { w.only("c1"); w.Item("c1").State = plan.Silent }, explain.LinkApplied, unknown},
	{"refused", func(w *World) {
		w.Fails("c2", `Deployment.apps "web" is invalid: spec.template: Required value`)
		w.Fails("c3", `Deployment.apps "web" is invalid: spec.template: Required value`)
	}, explain.LinkApplied, broken},
	{"no-rights", func(w *World) {
		w.only("c1")
		w.Fails("c1", `deployments.apps "web" is forbidden: User "system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa" cannot patch`)
	}, explain.LinkApplied, broken},
	{"namespace-terminating", func(w *World) {
		w.only("c1")
		w.Fails("c1", `deployments.apps "web" is forbidden: unable to create new content in namespace shop because it is being terminated`)
	}, explain.LinkApplied, broken},
	{"pod-security", func(w *World) {
		w.only("c1")
		w.Fails("c1", `pods "web" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`)
	}, explain.LinkApplied, broken},
	{"quota", func(w *World) {
		w.only("c1")
		w.Fails("c1", `deployments.apps "web" is forbidden: exceeded quota: all`)
	}, explain.LinkApplied, broken},
	{"no-namespace", func(w *World) { w.only("c1"); w.Fails("c1", `namespaces "shop" not found`) }, explain.LinkApplied, broken},
	{"no-namespace-yet", func(w *World) {
		w.only("c1")
		w.Fails("c1", `namespaces "shop" not found`)
		w.Item("c1").Since = Now.Unix()
	}, explain.LinkApplied, waiting},
	{"no-kind", func(w *World) { w.only("c1"); w.Fails("c1", `the server doesn't have a resource type "Deployment"`) }, explain.LinkApplied, broken},
	{"field-conflict", func(w *World) {
		w.only("c1")
		w.Fails("c1", `Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas`)
	}, explain.LinkApplied, broken},
	{"immutable", func(w *World) { w.only("c1"); w.Fails("c1", "spec.selector: Invalid value: field is immutable") }, explain.LinkApplied, broken},
	{"gone", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value[Web] = &status.Report{Gone: true}
	}, explain.LinkApplied, waiting},
	{"recreated", func(w *World) {
		w.only("c1")
		w.Item("c1").Withdrawn = true
		w.Item("c1").Options = plan.Options{Observe: true, Stage: plan.Stage{Begun: true, Former: "u0"}}
	}, explain.LinkDelivered, waiting},
	{"webhook", func(w *World) {
		w.only("c1")
		w.Fails("c1", `failed calling webhook "a.example.com": connection refused`)
	}, explain.LinkApplied, broken},
	{"admission-policy", func(w *World) {
		w.only("c1")
		w.Fails("c1", `deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'small' denied request: at most 1 replica`)
	}, explain.LinkApplied, broken},
	{"secret-refused", func(w *World) {
		w.only("c1")
		w.is(objref.Ref{Resource: "secrets", Namespace: "shop", Name: "key"}, "Secret")
		w.Fails("c1", "hunter2")
	}, explain.LinkApplied, broken},
	{"created-only", func(w *World) { w.only("c1"); w.Item("c1").CreateOnly = true }, "", ""},
	{"no-status", func(w *World) {
		w.is(objref.Ref{Resource: "configmaps", Namespace: "shop", Name: "settings"}, "ConfigMap")
		for _, box := range w.Mailboxes {
			box.Reports.Value = nil
		}
	}, "", ""},
	{"no-add-on", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value, w.Clusters.Value["c1"].AddOn.Value = nil, nil
	}, foresight.LinkAddOn, broken},
	{"not-reported-yet", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value, w.Item("c1").Since = nil, Now.Unix()-5
	}, explain.LinkReported, waiting},
	{"not-reported", func(w *World) { w.only("c1"); w.Mailboxes["c1"].Reports.Value = nil }, explain.LinkReported, broken},
	{"sibling-that-is-not-served", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value = nil
		work := w.Mailboxes["c1"].Works.Value[0]
		work.Items = append(work.Items, plan.Item{
			Ref: objref.Ref{Group: "example.com", Resource: "widgets", Namespace: "shop", Name: "w"}, Kind: "Widget", Version: "v1",
			State: plan.Failed, Reason: "AppliedManifestFailed",
			Message: `Failed to apply manifest: the server doesn't have a resource type "Widget"`,
		})
	}, explain.LinkReported, broken},
	{"report-of-earlier-generation", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value[Web].Source = status.Source{UID: "u1", Generation: 1}
	}, explain.LinkReported, waiting},
	{"report-of-an-add-on-that-is-down", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value[Web].Source = status.Source{UID: "u1", Generation: 1}
		w.Clusters.Value["c1"].AddOn.Value.Available = foresight.Availability{
			Status: metav1.ConditionUnknown, Message: "addon-status add-on stopped updating its lease.", Since: Now.Add(-time.Hour),
		}
	}, foresight.LinkAddOn, broken},
	{"report-of-an-add-on-that-was-removed", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value[Web].Source = status.Source{UID: "u1", Generation: 1}
		w.Clusters.Value["c1"].AddOn.Value = nil
	}, foresight.LinkAddOn, broken},
	{"report-of-this-generation-and-add-on-down", func(w *World) {
		w.only("c1")
		w.Clusters.Value["c1"].AddOn.Value = nil
	}, "", ""},
	{"report-without-an-edit", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports.Value[Web].Source = status.Source{UID: "u1"}
	}, explain.LinkReported, waiting},
	{"report-of-what-two-spaces-deliver", func(w *World) {
		w.only("c1")
		w.Item("c1").Source, w.Mailboxes["c1"].Reports.Value[Web].Source = "", status.Source{}
	}, "", ""},
	{"report-of-a-create-only-object", func(w *World) {
		w.only("c1")
		w.annotate(controlv1alpha1.AnnotationApply, "create-only")
		w.Item("c1").CreateOnly, w.Mailboxes["c1"].Reports.Value[Web].Source.Generation = true, 1
	}, "", ""},
	{"report-unreadable", func(w *World) {
		w.only("c1")
		w.Mailboxes["c1"].Reports = foresight.Unread[map[objref.Ref]*status.Report]("you may not get workstatuses in ITS its1")
	}, explain.LinkReported, unknown},
	{"progressing", func(w *World) { w.Mailboxes["c1"].Reports.Value[Web].Status["availableReplicas"] = int64(1) }, explain.LinkHealthy, waiting},
	{"unhealthy", func(w *World) {
		w.Mailboxes["c2"].Reports.Value[Web].Status["conditions"] = []any{map[string]any{
			"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": `ReplicaSet "web-1" has timed out progressing.`,
		}}
	}, explain.LinkHealthy, broken},
	{"status-asked-of-too-many", func(w *World) { w.asks(true, false) }, explain.LinkReturned, broken},
	{"status-not-returned-yet", func(w *World) { w.asks(false, true) }, explain.LinkReturned, waiting},
	{"status-returned", func(w *World) {
		w.asks(false, true)
		w.live().SetLabels(map[string]string{"app": "web", controlv1alpha1.LabelExecutingCount: "3"})
	}, "", ""},
	{"no-its", func(w *World) { w.WithoutITS() }, "", ""},
	{"no-its-not-applied", func(w *World) {
		w.WithoutITS()
		w.only("c1")
		w.Binding.Status.Conditions[1].Status, w.Binding.Status.Conditions[2].Status = metav1.ConditionFalse, metav1.ConditionFalse
	}, explain.LinkDelivered, unknown},
	{"no-its-edited", func(w *World) {
		w.WithoutITS()
		w.only("c1")
		w.Binding.Spec.Workload.NamespaceScope[0].ResourceVersion = "before"
	}, explain.LinkDelivered, unknown},
	{"no-its-refused", func(w *World) {
		w.WithoutITS()
		w.only("c1")
		w.Binding.Status.Errors = []string{`c1: deployments.apps shop/web: Deployment.apps "web" is invalid`}
	}, explain.LinkApplied, broken},
	{"different-outcomes", func(w *World) {
		for i := 4; i < 20; i++ {
			name := fmt.Sprintf("c%d", i)
			w.Clusters.Value[name] = ClusterOf(name)
			w.Mailboxes[name] = &explain.Mailbox{Works: foresight.Known([]*plan.Work{WorkOf(w.t, w.Binding, name, Web, w.live())}), Reports: foresight.Known(healthyReports())}
			w.Binding.Spec.Destinations = append(w.Binding.Spec.Destinations, controlv1alpha1.Destination{ClusterID: name})
		}
		w.Fails("c2", `namespaces "shop" not found`)
		w.Fails("c7", `namespaces "shop" not found`)
		w.Silence("c5", time.Hour)
		w.Mailboxes["c9"].Reports.Value[Web].Status["availableReplicas"] = int64(1)
		w.Mailboxes["c11"].Works = foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its2")
	}, foresight.LinkAgent, broken},
	{"two-policies", func(w *World) {
		second := PolicyOf("web2")
		second.Spec.Downsync[0].ObjectSelectors[0].MatchLabels["app"] = "web"
		second.Status.Conditions = []metav1.Condition{Condition("Synced", metav1.ConditionUnknown, "NotObserved", "not synced since startup, existing entries are kept: deployments.apps")}
		w.Policies.Value = append(w.Policies.Value, explain.Selection{Policy: second})
	}, "", ""},
}

func (w *World) hold(what string) {
	w.Binding.Annotations = map[string]string{controlv1alpha1.AnnotationHold: what}
}

// HoldFor lets a Transaction hold the object in clusters, or in all.
func (w *World) HoldFor(transaction string, clusters ...string) {
	text := plan.EncodeHolds([]plan.TransactionHold{plan.NewTransactionHold(plan.Holder{Transaction: transaction}, []objref.Ref{Web}, clusters)})
	w.Holds.Value = BindingOf(pkgv1.HoldsBinding, nil)
	w.Holds.Value.Annotations = map[string]string{pkgv1.AnnotationHeldObjects: text}
}

// Claim lets another WDS deliver the object to c1.
func (w *World) Claim() {
	w.Item("c1").Observe = true
	other := WorkOf(w.t, BindingOf("shop", nil), "c1", Web, w.live())
	other.BindingUID, other.Foreign = "other", plan.WDS{UID: "uid2", Name: "wds2"}
	w.Mailboxes["c1"].Works.Value = append(w.Mailboxes["c1"].Works.Value, other)
}

func (w *World) transform(remove string) {
	w.CustomTransforms.Value = []*controlv1alpha1.CustomTransform{{
		ObjectMeta: metav1.ObjectMeta{Name: "quiet", UID: "ct"},
		Spec:       controlv1alpha1.CustomTransformSpec{APIGroup: "apps", Resource: "deployments", Remove: []string{remove}},
	}}
}

func (w *World) template(text string) {
	w.annotate(controlv1alpha1.AnnotationExpandTemplates, "true")
	w.annotate("region", text)
}

// namespace puts the Namespace of the object into the mailbox of c1, and not the object.
func (w *World) namespace(state plan.State, message string) {
	item := w.Item("c1")
	item.Ref, item.Kind, item.State, item.Reason, item.Message = objref.Ref{Resource: "namespaces", Name: "shop"}, "Namespace", state, "AppliedManifestFailed", message
}

func (w *World) Silence(cluster string, since time.Duration) {
	w.Clusters.Value[cluster].Lease.Value.Renewed = Now.Add(-since)
}

// is makes the object one of another kind.
func (w *World) is(ref objref.Ref, kind string) {
	w.Ref = ref
	w.live().SetName(ref.Name)
	w.live().SetAPIVersion("v1")
	w.live().SetKind(kind)
	w.Binding.Spec = BindingOf("web", []objref.Ref{ref}, "c1", "c2", "c3").Spec
	for name, box := range w.Mailboxes {
		box.Works.Value = []*plan.Work{WorkOf(w.t, w.Binding, name, ref, w.live())}
	}
}

func (w *World) asks(singleton, all bool) {
	m := &w.Binding.Spec.Workload.NamespaceScope[0].DownsyncModulation
	m.WantSingletonReportedState, m.WantMultiWECReportedState = singleton, all
}

func (w *World) WithoutITS() {
	w.NoITS = "no ITS is known: name its context with --its-context"
	w.Clusters = foresight.Fact[map[string]*foresight.Cluster]{}
	w.Mailboxes = nil
}

// All returns all situations.
func All() []Situation { return slices.Concat(situations, onTheWay) }
