package ocm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// listener is a Handler that keeps whether destinations are let in.
type listener map[string]bool

func (l listener) OnDestination(name string, d *plugin.Destination) {
	if d == nil {
		delete(l, name)
	} else {
		l[name] = d.Accepted
	}
}

func (listener) OnWork(_, _ *plan.Work)                            {}
func (listener) OnReport(_ string, _ objref.Ref, _ *plugin.Report) {}
func (listener) OnReports(plugin.Reports)                          {}
func (listener) OnPartial(string, bool)                            {}
func (listener) OnSynced()                                         {}

// TestAcceptedClusters: a cluster that is being deleted is let in no more, as the
// binding-controller sees it: its hub waits for the works to go, and another cluster may have its
// name.
func TestAcceptedClusters(t *testing.T) {
	reported := listener{}
	p := newPlugin(t)
	informer, err := clusters.NewInformer(p.config.Hub)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := p.destinations(reported, informer)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(name string, change func(*clusterv1.ManagedCluster)) {
		t.Helper()
		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(cluster)
		if err := informer.GetStore().Add(cluster); err != nil {
			t.Fatal(err)
		}
		d.onEvent(cluster)
	}
	accept := func(c *clusterv1.ManagedCluster) { c.Spec.HubAcceptsClient = true }
	tell("accepted", accept)
	tell("refused", func(*clusterv1.ManagedCluster) {})
	tell("leaving", accept)
	tell("leaving", func(c *clusterv1.ManagedCluster) {
		accept(c)
		c.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	})
	if diff := cmp.Diff(listener{"accepted": true, "refused": false, "leaving": false}, reported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
