package foresight_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/test/golden"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// well returns a cluster of which all is well.
func well() *foresight.Cluster {
	return &foresight.Cluster{
		Name: "c1", ITS: "its1", Accepted: true, Joined: true, Kubernetes: "v1.35.0",
		Available: foresight.Availability{Status: metav1.ConditionTrue},
		Lease:     foresight.Known(&foresight.Lease{Renewed: now.Add(-12 * time.Second), Every: time.Minute}),
		AddOn:     foresight.Known(&foresight.AddOn{Available: foresight.Availability{Status: metav1.ConditionTrue}}),
	}
}

// TestTexts has each situation of a cluster.
func TestTexts(t *testing.T) {
	ago := func(d time.Duration) foresight.Fact[*foresight.Lease] {
		return foresight.Known(&foresight.Lease{Renewed: now.Add(-d), Every: time.Minute})
	}
	addOn := func(a foresight.AddOn) foresight.Fact[*foresight.AddOn] { return foresight.Known(&a) }
	var texts []golden.Text
	for _, situation := range []struct {
		name   string
		change func(*foresight.Cluster)
	}{
		{"all is well", func(*foresight.Cluster) {}},
		{"it is not accepted", func(c *foresight.Cluster) { c.Accepted = false }},
		{"it is being deleted", func(c *foresight.Cluster) { c.Leaving = true }},
		{"its name stands for another one", func(c *foresight.Cluster) { c.NameTaken = "its2 accepted a cluster of this name earlier" }},
		{"it is drained", func(c *foresight.Cluster) { c.Labels = map[string]string{"starling.io/drained": "true"} }},
		{"it has not joined", func(c *foresight.Cluster) { c.Joined = false }},
		{"it has no Lease", func(c *foresight.Cluster) { c.Lease = foresight.Known[*foresight.Lease](nil) }},
		{"its Lease may not be read", func(c *foresight.Cluster) { c.Lease = foresight.Unread[*foresight.Lease]("you may not get leases") }},
		{"its clock is ahead", func(c *foresight.Cluster) { c.Lease = ago(-time.Minute) }},
		{"a heartbeat is missing", func(c *foresight.Cluster) { c.Lease = ago(130 * time.Second) }},
		{"it is silent", func(c *foresight.Cluster) { c.Lease = ago(3 * time.Hour) }},
		{"its API server does not respond", func(c *foresight.Cluster) {
			c.Available = foresight.Availability{Status: metav1.ConditionFalse, Message: "the kube-apiserver is not ok, status code: 500", Since: now.Add(-time.Hour)}
		}},
		{"OCM does not know whether it is available", func(c *foresight.Cluster) {
			c.Lease = foresight.Unread[*foresight.Lease]("you may not get leases")
			c.Available = foresight.Availability{Status: metav1.ConditionUnknown, Message: "Registration agent stopped updating its lease."}
		}},
		{"it has not reported whether it is available", func(c *foresight.Cluster) { c.Available = foresight.Availability{} }},
		{"it has no add-on", func(c *foresight.Cluster) { c.AddOn = foresight.Known[*foresight.AddOn](nil) }},
		{"its add-on may not be read", func(c *foresight.Cluster) {
			c.AddOn = foresight.Unread[*foresight.AddOn]("you may not get managedclusteraddons")
		}},
		{"its add-on is not permitted", func(c *foresight.Cluster) {
			c.AddOn = addOn(foresight.AddOn{NotPermitted: "the hub denies this cluster"})
		}},
		{"its add-on has not started", func(c *foresight.Cluster) { c.AddOn = addOn(foresight.AddOn{}) }},
		{"its add-on is silent", func(c *foresight.Cluster) {
			c.AddOn = addOn(foresight.AddOn{Available: foresight.Availability{Status: metav1.ConditionFalse, Reason: "ManagedClusterAddOnLeaseUpdateStopped", Since: now.Add(-time.Hour)}})
		}},
	} {
		c := well()
		situation.change(c)
		links := c.Judge(now)
		var b strings.Builder
		for _, l := range links {
			fmt.Fprintf(&b, "%-8s %s: %s\n", l.State, l.Name, l.Text)
			for _, fix := range l.Fix {
				fmt.Fprintf(&b, "         fix: %s\n", fix)
			}
		}
		texts = append(texts, golden.Text{Heading: situation.name, Text: b.String()})
		if first := foresight.First(links); first != nil && first.State == foresight.Broken && len(first.Fix) == 0 && !c.Leaving {
			t.Errorf("%s: %q is broken, and nothing mends it", situation.name, first.Text)
		}
	}
	golden.Texts(t, texts...)
}
