package explain_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/situations"
)

// TestPolicy has each situation of a policy.
// deleted marks the policy and a Binding of it as being deleted.
func deleted(w *situations.World, b *controlv1alpha1.Binding) {
	at := metav1.NewTime(situations.Now)
	w.Selecting.DeletionTimestamp, b.DeletionTimestamp = &at, &at
	w.SetSynced(metav1.ConditionFalse, "Deleting", "waiting for the objects to leave the clusters")
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name   string
		change func(w *situations.World, p *explain.Policy)
		want   string
		state  foresight.State
	}{
		{"well", func(*situations.World, *explain.Policy) {}, "", ""},
		{"absent", func(_ *situations.World, p *explain.Policy) { p.Selection.Value.Policy = nil }, explain.LinkExists, broken},
		{"unreadable", func(_ *situations.World, p *explain.Policy) {
			p.Selection = foresight.Unread[explain.Selection]("you may not get bindingpolicies")
		}, explain.LinkExists, unknown},
		{"deleting", func(w *situations.World, _ *explain.Policy) {
			at := metav1.NewTime(situations.Now)
			w.Selecting.DeletionTimestamp = &at
			w.SetSynced(metav1.ConditionFalse, "Deleting", "waiting for the objects to leave the clusters: waiting until the works are removed from: c1")
		}, explain.LinkExists, waiting},
		{"deleting-held", func(w *situations.World, p *explain.Policy) {
			const held = "1 object is held by annotation starling.io/hold: deployments.apps shop/web2"
			more := situations.BindingOf("web--2", nil, "c1")
			more.Annotations = map[string]string{controlv1alpha1.AnnotationHold: "deployments.apps/shop/web2"}
			more.Status.Conditions = []metav1.Condition{
				situations.Condition("Held", metav1.ConditionTrue, "Held", held),
				situations.Condition("Delivered", metav1.ConditionFalse, "Deleting", "waiting until the works are removed from: c1; "+held),
			}
			deleted(w, more)
			p.Selection.Value.Bindings.Value = append(p.Selection.Value.Bindings.Value, more)
		}, explain.LinkFree, broken},
		{"deleting-with-errors", func(w *situations.World, _ *explain.Policy) {
			deleted(w, w.Binding)
			w.Binding.Status.Errors = []string{"c1: namespaces shop: stays, because 1 object in it would be deleted with it: configmaps shop/a of WDS \"wds2\" (work w); " +
				"remove it first, or select this object again"}
		}, explain.LinkExists, broken},
		{"invalid", func(w *situations.World, _ *explain.Policy) {
			w.Selecting.Spec.Downsync = []controlv1alpha1.DownsyncPolicyClause{{}}
		}, explain.LinkValid, broken},
		{"not-synced", func(w *situations.World, _ *explain.Policy) { w.Selecting.Generation++ }, explain.LinkSynced, waiting},
		{"blocked", func(w *situations.World, _ *explain.Policy) { w.Block() }, explain.LinkSynced, broken},
		{"no-objects", func(w *situations.World, p *explain.Policy) {
			w.Unlist()
			p.Unserved = []string{`spec.downsync[0].resources[0]: the WDS serves no resource "Deployment" (resources are lowercase plurals, such as "deployments")`}
		}, explain.LinkObjects, broken},
		{"bindings-unreadable", func(_ *situations.World, p *explain.Policy) {
			p.Selection.Value.Bindings = foresight.Unread[[]*controlv1alpha1.Binding]("you may not list bindings.control.kubestellar.io")
		}, explain.LinkObjects, unknown},
		{"no-clusters", func(w *situations.World, _ *explain.Policy) {
			w.Binding.Spec.Destinations, w.Selecting.Spec.ClusterSelectors = nil, nil
		}, explain.LinkClusters, broken},
		{"held-back", func(w *situations.World, _ *explain.Policy) {
			w.Binding.Annotations = map[string]string{controlv1alpha1.AnnotationHold: "deployments.apps/shop/web"}
			w.Binding.Status.Conditions = []metav1.Condition{
				situations.Condition("Held", metav1.ConditionTrue, "Held", "1 object is held by annotation starling.io/hold: deployments.apps shop/web"),
				situations.Condition("Delivered", metav1.ConditionFalse, "Held", "annotation starling.io/hold holds back changes to: c1"),
			}
		}, explain.LinkFree, broken},
		{"held-back-by-transaction", func(w *situations.World, p *explain.Policy) {
			w.HoldFor("tx-aws")
			p.Holds = w.Holds
			w.Binding.Status.Conditions = []metav1.Condition{
				situations.Condition("Held", metav1.ConditionTrue, "Held", "1 object is held for transaction tx-aws until it ends: deployments.apps/shop/web"),
				situations.Condition("Delivered", metav1.ConditionFalse, "Held",
					"annotation pkg.crossplane.io/held-objects of Binding transactions.pkg.crossplane.io holds back changes to: c1"),
			}
		}, explain.LinkFree, broken},
		{"held", func(w *situations.World, _ *explain.Policy) {
			w.Binding.Status.Conditions = append(w.Binding.Status.Conditions,
				situations.Condition("Held", metav1.ConditionTrue, "Held", "1 object is held by annotation starling.io/hold: deployments.apps shop/web"))
		}, "", ""},
		{"not-observed", func(w *situations.World, _ *explain.Policy) { w.Binding.Generation++ }, explain.LinkDelivered, waiting},
		{"not-delivered-yet", func(w *situations.World, _ *explain.Policy) {
			w.Undelivered("c2")
			w.Binding.Status.Conditions[0] = situations.Condition("Delivered", metav1.ConditionFalse, "Delivering", "being delivered to: c2")
		}, explain.LinkDelivered, waiting},
		{"conflict", func(w *situations.World, _ *explain.Policy) {
			w.Claim()
			w.Binding.Status.Errors = []string{`c1: deployments.apps shop/web: WDS "wds2" (Binding "shop") delivers this object, with different content; ` +
				`this Binding does not deliver it: make the contents equal, or remove the object from one of the two`}
		}, explain.LinkDelivered, broken},
		{"refused", func(w *situations.World, p *explain.Policy) {
			w.Fails("c2", `namespaces "shop" not found`)
			w.Selecting.Status.Errors = []string{`c2: deployments.apps shop/web: namespaces "shop" not found`, "spec.downsync[0].statusCollectors: a is invalid"}
			w.Binding.Status.Errors = w.Selecting.Status.Errors[:1]
		}, explain.LinkApplied, broken},
		{"not-applied-yet", func(w *situations.World, _ *explain.Policy) { w.Item("c3").State = plan.Pending }, explain.LinkApplied, waiting},
		{"agent-silent", func(w *situations.World, _ *explain.Policy) { w.Silence("c3", time.Hour) }, foresight.LinkAgent, broken},
		{"no-add-on", func(w *situations.World, _ *explain.Policy) {
			w.Clusters.Value["c3"].AddOn.Value = nil
			w.Binding.Status.Conditions[2] = situations.Condition("Healthy", metav1.ConditionUnknown, "NotReported", "clusters not reporting status: c3")
		}, foresight.LinkAddOn, broken},
		{"cluster-gone", func(w *situations.World, _ *explain.Policy) { delete(w.Clusters.Value, "c3") }, foresight.LinkAccepted, broken},
		{"cluster-not-accepted", func(w *situations.World, _ *explain.Policy) { w.Clusters.Value["c3"].Accepted = false }, foresight.LinkAccepted, broken},
		{"cluster-not-selected", func(w *situations.World, p *explain.Policy) {
			p.Cluster = "c4"
			w.Clusters.Value["c4"] = situations.ClusterOf("c4")
			w.Clusters.Value["c4"].Labels = nil
		}, explain.LinkCluster, broken},
		{"unhealthy", func(w *situations.World, _ *explain.Policy) {
			w.Binding.Status.Problems = []string{"c1: deployments.apps shop/web: 1 of 2 replicas available"}
		}, explain.LinkHealthy, broken},
		{"mailbox-unreadable", func(w *situations.World, _ *explain.Policy) {
			w.Mailboxes["c1"].Works = foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its1")
		}, explain.LinkDelivered, unknown},
		{"no-its", func(w *situations.World, p *explain.Policy) { w.WithoutITS(); p.Fleet = w.Fleet }, "", ""},
		{"no-its-not-applied", func(w *situations.World, p *explain.Policy) {
			w.WithoutITS()
			p.Fleet = w.Fleet
			w.Binding.Status.Conditions[1] = situations.Condition("Applied", metav1.ConditionFalse, "Applying", "not applied yet in: c2")
		}, explain.LinkApplied, unknown},
		{"no-its-errors", func(w *situations.World, p *explain.Policy) {
			w.WithoutITS()
			p.Fleet = w.Fleet
			w.Binding.Status.Conditions[1] = situations.Condition("Applied", metav1.ConditionFalse, "Failed", "1 object could not be applied; see status.errors")
			w.Binding.Status.Errors = []string{`c2: deployments.apps shop/web: namespaces "shop" not found`}
		}, explain.LinkApplied, broken},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := situations.NewWorld(t)
			p := &explain.Policy{Name: "web", Fleet: w.Fleet, Selection: foresight.Known(w.Policies.Value[0])}
			s.change(w, p)
			e := p.Explain()
			checkFirst(t, e, s.want, s.state)
			golden.Compare(t, "policy/"+s.name, situations.Draw(e))
		})
	}
}

// TestCommon: the Bindings of a policy list all objects and clusters that it selects, or they do
// not yet.
func TestCommon(t *testing.T) {
	t.Parallel()
	unlisted := foresight.Known([]objref.Ref{{Resource: "configmaps", Namespace: "shop", Name: "new"}})
	for name, s := range map[string]struct {
		change func(w *situations.World, p *explain.Policy)
		want   string
		state  foresight.State
		text   string
	}{
		"well":         {func(*situations.World, *explain.Policy) {}, "", "", ""},
		"a new object": {func(_ *situations.World, p *explain.Policy) { p.Unlisted = unlisted }, explain.LinkListed, waiting, "selects 1 object, and no Binding of it lists it yet: configmaps shop/new"},
		"a new object, and no other": {func(w *situations.World, p *explain.Policy) {
			w.Unlist()
			p.Unlisted = unlisted
		}, explain.LinkListed, waiting, "configmaps shop/new"},
		"objects that may not be read": {func(_ *situations.World, p *explain.Policy) {
			p.Unlisted = foresight.Unread[[]objref.Ref]("you may not list configmaps")
		}, explain.LinkListed, unknown, "you may not list configmaps"},
		"a new object, and the policy is not synced": {func(w *situations.World, p *explain.Policy) {
			w.Selecting.Generation++
			p.Unlisted = unlisted
		}, explain.LinkSynced, waiting, "has not observed"},
		"a new cluster": {func(w *situations.World, _ *explain.Policy) {
			w.Clusters.Value["c4"] = situations.ClusterOf("c4")
		}, explain.LinkCluster, waiting, "selects cluster c4, and its Binding does not list it yet"},
		"a cluster that is drained": {func(w *situations.World, _ *explain.Policy) {
			w.Clusters.Value["c4"] = situations.ClusterOf("c4")
			w.Clusters.Value["c4"].Labels[controlv1alpha1.LabelDrained] = "true"
		}, "", "", ""},
	} {
		w := situations.NewWorld(t)
		p := &explain.Policy{Name: "web", Fleet: w.Fleet, Selection: foresight.Known(w.Policies.Value[0])}
		s.change(w, p)
		switch first := foresight.First(p.Common()); {
		case first == nil:
			if s.want != "" {
				t.Errorf("%s: all is good, want %s %s", name, s.want, s.state)
			}
		case first.Name != s.want || first.State != s.state || !strings.Contains(first.Text, s.text):
			t.Errorf("%s: %+v, want %s %s: %s", name, first, s.want, s.state, s.text)
		}
	}
}

// TestCluster has each situation of a cluster, beside those that package foresight judges.
func TestCluster(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name   string
		change func(w *situations.World)
		want   string
		state  foresight.State
	}{
		{"well", func(*situations.World) {}, "", ""},
		{"absent", func(w *situations.World) { w.Cluster = "c9" }, explain.LinkExists, broken},
		{"no-its", func(w *situations.World) { w.WithoutITS() }, explain.LinkExists, unknown},
		{"unreadable", func(w *situations.World) {
			w.Clusters = foresight.Unread[map[string]*foresight.Cluster]("you may not get managedclusters in ITS its1")
		}, explain.LinkExists, unknown},
		{"not-accepted", func(w *situations.World) { w.Clusters.Value["c1"].Accepted = false }, foresight.LinkAccepted, broken},
		{"silent", func(w *situations.World) { w.Silence("c1", time.Hour) }, foresight.LinkAgent, broken},
		{"no-add-on-and-refuses", func(w *situations.World) {
			w.Clusters.Value["c1"].AddOn.Value = nil
			w.Fails("c1", `namespaces "shop" not found`)
		}, foresight.LinkAddOn, broken},
		{"mailbox-unreadable", func(w *situations.World) {
			w.Mailboxes["c1"].Works = foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its1")
		}, explain.LinkDelivered, unknown},
		{"emptying", func(w *situations.World) { w.Mailboxes["c1"].Works.Value[0].Deleting = true }, explain.LinkRemoved, waiting},
		{"refuses", func(w *situations.World) { w.Fails("c1", `namespaces "shop" not found`) }, explain.LinkApplied, broken},
		{"not-applied-yet", func(w *situations.World) { w.Item("c1").State = plan.Pending }, explain.LinkApplied, waiting},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := situations.NewWorld(t)
			w.Cluster = "c1"
			s.change(w)
			e := (&explain.Cluster{Fleet: w.Fleet}).Explain()
			checkFirst(t, e, s.want, s.state)
			golden.Compare(t, "cluster/"+s.name, situations.Draw(e))
		})
	}
}

// TestPackage has each situation of a package.
func TestPackage(t *testing.T) {
	t.Parallel()
	v2 := func(p *explain.Package) *explain.Revision { return &p.Revisions.Value[1] }
	for _, s := range []struct {
		name   string
		change func(w *situations.World, p *explain.Package)
		want   string
		state  foresight.State
	}{
		{"well", func(*situations.World, *explain.Package) {}, "", ""},
		{"absent", func(_ *situations.World, p *explain.Package) { p.Revisions.Value = nil }, explain.LinkExists, broken},
		{"revision-absent", func(_ *situations.World, p *explain.Package) { p.Revision = "c1.web.v9" }, explain.LinkExists, broken},
		{"unreadable", func(_ *situations.World, p *explain.Package) {
			p.Revisions = foresight.Unread[[]explain.Revision]("you may not list packagerevisions")
		}, explain.LinkExists, unknown},
		{"draft", func(_ *situations.World, p *explain.Package) {
			v2(p).Lifecycle, v2(p).Latest, p.Revision = "Draft", false, "c1.web.v2"
		}, explain.LinkPublished, broken},
		{"proposed", func(_ *situations.World, p *explain.Package) {
			v2(p).Lifecycle, v2(p).Latest, p.Revision = "Proposed", false, "c1.web.v2"
		}, explain.LinkPublished, broken},
		{"gate", func(_ *situations.World, p *explain.Package) {
			v2(p).Lifecycle, v2(p).Latest, p.Revision = "Draft", false, "c1.web.v2"
			v2(p).Gates = []string{"gate PackagePipelinePassed is False: set-image: no image of that name"}
		}, explain.LinkPublished, broken},
		{"older", func(_ *situations.World, p *explain.Package) { p.Revision = "c1.web.v1" }, explain.LinkLatest, broken},
		{"no-repository", func(_ *situations.World, p *explain.Package) { p.RepositoryExists, p.Deploys = false, false }, explain.LinkRepository, broken},
		{"no-cluster-repository", func(_ *situations.World, p *explain.Package) { p.Deploys = false }, explain.LinkRepository, broken},
		{"no-cluster", func(w *situations.World, p *explain.Package) { p.Binding.Value = nil; delete(w.Clusters.Value, "c1") }, explain.LinkBound, broken},
		{"cluster-not-accepted", func(w *situations.World, p *explain.Package) {
			p.Binding.Value = nil
			w.Clusters.Value["c1"].Accepted = false
		}, foresight.LinkAccepted, broken},
		{"not-bound-yet", func(_ *situations.World, p *explain.Package) { p.Binding.Value = nil }, explain.LinkBound, waiting},
		{"binding-unreadable", func(_ *situations.World, p *explain.Package) {
			p.Binding = foresight.Unread[*controlv1alpha1.Binding]("you may not get bindings.control.kubestellar.io")
		}, explain.LinkBound, unknown},
		{"older-is-bound", func(_ *situations.World, p *explain.Package) {
			p.Binding.Value.Spec.Workload.Packages[0].Name = "c1.web.v1"
		}, explain.LinkBound, waiting},
		{"cluster-is-gone", func(_ *situations.World, p *explain.Package) { p.Binding.Value.Spec.Destinations = nil }, explain.LinkBound, broken},
		{"cluster-is-drained", func(w *situations.World, p *explain.Package) {
			p.Binding.Value.Spec.Destinations = nil
			w.Clusters.Value["c1"].Labels[controlv1alpha1.LabelDrained] = "true"
		}, foresight.LinkAccepted, broken},
		{"refused", func(w *situations.World, _ *explain.Package) { w.Fails("c1", `namespaces "shop" not found`) }, explain.LinkApplied, broken},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := situations.NewWorld(t)
			w.Binding.Spec.Destinations = w.Binding.Spec.Destinations[:1]
			w.Binding.Spec.Workload = controlv1alpha1.DownsyncObjectClauses{Packages: []controlv1alpha1.PackageClause{{Name: "c1.web.v2", Revision: 2}}}
			p := &explain.Package{
				Fleet: w.Fleet, Namespace: "default", Repository: "c1", Name: "web", RepositoryExists: true, Deploys: true, Binding: foresight.Known(w.Binding),
				Revisions: foresight.Known([]explain.Revision{
					{Object: "c1.web.v1", Shown: "1", Lifecycle: "Published"}, {Object: "c1.web.v2", Shown: "2", Lifecycle: "Published", Latest: true},
				}),
			}
			s.change(w, p)
			e := p.Explain()
			checkFirst(t, e, s.want, s.state)
			golden.Compare(t, "package/"+s.name, situations.Draw(e))
		})
	}
}
