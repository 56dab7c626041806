package explain

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/test/golden"
)

// TestPolicy has each situation of a policy.
func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name   string
		change func(w *world, p *Policy)
		want   string
		state  foresight.State
	}{
		{"well", func(*world, *Policy) {}, "", ""},
		{"absent", func(_ *world, p *Policy) { p.Selection.Value.Policy = nil }, LinkExists, broken},
		{"unreadable", func(_ *world, p *Policy) {
			p.Selection = foresight.Unread[Selection]("you may not get bindingpolicies")
		}, LinkExists, unknown},
		{"deleting", func(w *world, _ *Policy) {
			at := metav1.NewTime(now)
			w.policy.DeletionTimestamp = &at
			w.synced(metav1.ConditionFalse, "Deleting", "waiting for the objects to leave the clusters: waiting until the works are removed from: c1")
		}, LinkExists, waiting},
		{"invalid", func(w *world, _ *Policy) {
			w.policy.Spec.Downsync = []controlv1alpha1.DownsyncPolicyClause{{}}
		}, LinkValid, broken},
		{"not-synced", func(w *world, _ *Policy) { w.policy.Generation++ }, LinkSynced, waiting},
		{"blocked", func(w *world, _ *Policy) { w.block() }, LinkSynced, broken},
		{"no-objects", func(w *world, p *Policy) {
			w.unlisted()
			p.Unserved = []string{`spec.downsync[0].resources[0]: the WDS serves no resource "Deployment" (resources are lowercase plurals, such as "deployments")`}
		}, LinkObjects, broken},
		{"bindings-unreadable", func(_ *world, p *Policy) {
			p.Selection.Value.Bindings = foresight.Unread[[]*controlv1alpha1.Binding]("you may not list bindings.control.kubestellar.io")
		}, LinkObjects, unknown},
		{"no-clusters", func(w *world, _ *Policy) { w.binding.Spec.Destinations, w.policy.Spec.ClusterSelectors = nil, nil }, LinkClusters, broken},
		{"held-back", func(w *world, _ *Policy) {
			w.binding.Status.Conditions = []metav1.Condition{
				condition("Held", metav1.ConditionTrue, "Held", "1 object is held by annotation starling.io/hold: deployments.apps shop/web"),
				condition("Delivered", metav1.ConditionFalse, "Held", "annotation starling.io/hold holds back changes to: c1"),
			}
		}, LinkFree, broken},
		{"held", func(w *world, _ *Policy) {
			w.binding.Status.Conditions = append(w.binding.Status.Conditions,
				condition("Held", metav1.ConditionTrue, "Held", "1 object is held by annotation starling.io/hold: deployments.apps shop/web"))
		}, "", ""},
		{"not-observed", func(w *world, _ *Policy) { w.binding.Generation++ }, LinkDelivered, waiting},
		{"not-delivered-yet", func(w *world, _ *Policy) {
			w.undelivered("c2")
			w.binding.Status.Conditions[0] = condition("Delivered", metav1.ConditionFalse, "Delivering", "being delivered to: c2")
		}, LinkDelivered, waiting},
		{"conflict", func(w *world, _ *Policy) {
			w.claim()
			w.binding.Status.Errors = []string{`c1: deployments.apps shop/web: WDS "wds2" (Binding "shop") delivers this object, with different content; ` +
				`this Binding does not deliver it: make the contents equal, or remove the object from one of the two`}
		}, LinkDelivered, broken},
		{"refused", func(w *world, p *Policy) {
			w.fails("c2", `namespaces "shop" not found`)
			w.policy.Status.Errors = []string{`c2: deployments.apps shop/web: namespaces "shop" not found`, "spec.downsync[0].statusCollectors: a is invalid"}
			w.binding.Status.Errors = w.policy.Status.Errors[:1]
		}, LinkApplied, broken},
		{"not-applied-yet", func(w *world, _ *Policy) { w.item("c3").State = plan.Pending }, LinkApplied, waiting},
		{"agent-silent", func(w *world, _ *Policy) { w.silence("c3", time.Hour) }, foresight.LinkAgent, broken},
		{"no-add-on", func(w *world, _ *Policy) {
			w.Clusters.Value["c3"].AddOn.Value = nil
			w.binding.Status.Conditions[2] = condition("Healthy", metav1.ConditionUnknown, "NotReported", "clusters not reporting status: c3")
		}, foresight.LinkAddOn, broken},
		{"cluster-gone", func(w *world, _ *Policy) { delete(w.Clusters.Value, "c3") }, foresight.LinkAccepted, broken},
		{"cluster-not-accepted", func(w *world, _ *Policy) { w.Clusters.Value["c3"].Accepted = false }, foresight.LinkAccepted, broken},
		{"cluster-not-selected", func(w *world, p *Policy) {
			p.Cluster = "c4"
			w.Clusters.Value["c4"] = clusterOf("c4")
			w.Clusters.Value["c4"].Labels = nil
		}, LinkCluster, broken},
		{"unhealthy", func(w *world, _ *Policy) {
			w.binding.Status.Problems = []string{"c1: deployments.apps shop/web: 1 of 2 replicas available"}
		}, LinkHealthy, broken},
		{"mailbox-unreadable", func(w *world, _ *Policy) {
			w.Mailboxes["c1"].Works = foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its1")
		}, LinkDelivered, unknown},
		{"no-its", func(w *world, p *Policy) { w.noITS(); p.Fleet = w.Fleet }, "", ""},
		{"no-its-not-applied", func(w *world, p *Policy) {
			w.noITS()
			p.Fleet = w.Fleet
			w.binding.Status.Conditions[1] = condition("Applied", metav1.ConditionFalse, "Applying", "not applied yet in: c2")
		}, LinkApplied, unknown},
		{"no-its-errors", func(w *world, p *Policy) {
			w.noITS()
			p.Fleet = w.Fleet
			w.binding.Status.Conditions[1] = condition("Applied", metav1.ConditionFalse, "Failed", "1 object could not be applied; see status.errors")
			w.binding.Status.Errors = []string{`c2: deployments.apps shop/web: namespaces "shop" not found`}
		}, LinkApplied, broken},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := &Policy{Name: "web", Fleet: w.Fleet, Selection: foresight.Known(w.Policies.Value[0])}
			s.change(w, p)
			e := p.Explain()
			checkFirst(t, e, s.want, s.state)
			golden.Compare(t, "policy/"+s.name, draw(e))
		})
	}
}

// TestCluster has each situation of a cluster, beside those that package foresight judges.
func TestCluster(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name   string
		change func(w *world)
		want   string
		state  foresight.State
	}{
		{"well", func(*world) {}, "", ""},
		{"absent", func(w *world) { w.Cluster = "c9" }, LinkExists, broken},
		{"no-its", func(w *world) { w.noITS() }, LinkExists, unknown},
		{"unreadable", func(w *world) {
			w.Clusters = foresight.Unread[map[string]*foresight.Cluster]("you may not get managedclusters in ITS its1")
		}, LinkExists, unknown},
		{"not-accepted", func(w *world) { w.Clusters.Value["c1"].Accepted = false }, foresight.LinkAccepted, broken},
		{"silent", func(w *world) { w.silence("c1", time.Hour) }, foresight.LinkAgent, broken},
		{"no-add-on-and-refuses", func(w *world) {
			w.Clusters.Value["c1"].AddOn.Value = nil
			w.fails("c1", `namespaces "shop" not found`)
		}, foresight.LinkAddOn, broken},
		{"mailbox-unreadable", func(w *world) {
			w.Mailboxes["c1"].Works = foresight.Unread[[]*plan.Work]("you may not list manifestworks in ITS its1")
		}, LinkDelivered, unknown},
		{"emptying", func(w *world) { w.Mailboxes["c1"].Works.Value[0].Deleting = true }, linkRemoved, waiting},
		{"refuses", func(w *world) { w.fails("c1", `namespaces "shop" not found`) }, LinkApplied, broken},
		{"not-applied-yet", func(w *world) { w.item("c1").State = plan.Pending }, LinkApplied, waiting},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Cluster = "c1"
			s.change(w)
			e := (&Cluster{Fleet: w.Fleet}).Explain()
			checkFirst(t, e, s.want, s.state)
			golden.Compare(t, "cluster/"+s.name, draw(e))
		})
	}
}

// TestPackage has each situation of a package.
func TestPackage(t *testing.T) {
	t.Parallel()
	v2 := func(p *Package) *Revision { return &p.Revisions.Value[1] }
	for _, s := range []struct {
		name   string
		change func(w *world, p *Package)
		want   string
		state  foresight.State
	}{
		{"well", func(*world, *Package) {}, "", ""},
		{"absent", func(_ *world, p *Package) { p.Revisions.Value = nil }, LinkExists, broken},
		{"revision-absent", func(_ *world, p *Package) { p.Revision = "c1.web.v9" }, LinkExists, broken},
		{"unreadable", func(_ *world, p *Package) {
			p.Revisions = foresight.Unread[[]Revision]("you may not list packagerevisions")
		}, LinkExists, unknown},
		{"draft", func(_ *world, p *Package) { v2(p).Lifecycle, v2(p).Latest, p.Revision = "Draft", false, "c1.web.v2" }, LinkPublished, broken},
		{"proposed", func(_ *world, p *Package) { v2(p).Lifecycle, v2(p).Latest, p.Revision = "Proposed", false, "c1.web.v2" }, LinkPublished, broken},
		{"gate", func(_ *world, p *Package) {
			v2(p).Lifecycle, v2(p).Latest, p.Revision = "Draft", false, "c1.web.v2"
			v2(p).Gates = []string{"gate PackagePipelinePassed is False: set-image: no image of that name"}
		}, LinkPublished, broken},
		{"older", func(_ *world, p *Package) { p.Revision = "c1.web.v1" }, linkLatest, broken},
		{"no-repository", func(_ *world, p *Package) { p.RepositoryExists, p.Deploys = false, false }, LinkRepository, broken},
		{"no-cluster-repository", func(_ *world, p *Package) { p.Deploys = false }, LinkRepository, broken},
		{"no-cluster", func(w *world, p *Package) { p.Binding.Value = nil; delete(w.Clusters.Value, "c1") }, LinkBound, broken},
		{"cluster-not-accepted", func(w *world, p *Package) { p.Binding.Value = nil; w.Clusters.Value["c1"].Accepted = false }, foresight.LinkAccepted, broken},
		{"not-bound-yet", func(_ *world, p *Package) { p.Binding.Value = nil }, LinkBound, waiting},
		{"binding-unreadable", func(_ *world, p *Package) {
			p.Binding = foresight.Unread[*controlv1alpha1.Binding]("you may not get bindings.control.kubestellar.io")
		}, LinkBound, unknown},
		{"older-is-bound", func(_ *world, p *Package) { p.Binding.Value.Spec.Workload.Packages[0].Name = "c1.web.v1" }, LinkBound, waiting},
		{"cluster-is-gone", func(_ *world, p *Package) { p.Binding.Value.Spec.Destinations = nil }, LinkBound, broken},
		{"refused", func(w *world, _ *Package) { w.fails("c1", `namespaces "shop" not found`) }, LinkApplied, broken},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.binding.Spec.Destinations = w.binding.Spec.Destinations[:1]
			w.binding.Spec.Workload = controlv1alpha1.DownsyncObjectClauses{Packages: []controlv1alpha1.PackageClause{{Name: "c1.web.v2", Revision: 2}}}
			p := &Package{
				Fleet: w.Fleet, Namespace: "default", Repository: "c1", Name: "web", RepositoryExists: true, Deploys: true, Binding: foresight.Known(w.binding),
				Revisions: foresight.Known([]Revision{
					{Object: "c1.web.v1", Shown: "1", Lifecycle: "Published"}, {Object: "c1.web.v2", Shown: "2", Lifecycle: "Published", Latest: true},
				}),
			}
			s.change(w, p)
			e := p.Explain()
			checkFirst(t, e, s.want, s.state)
			golden.Compare(t, "package/"+s.name, draw(e))
		})
	}
}
