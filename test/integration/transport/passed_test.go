package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/test/testenv"
)

// otherITS returns the environment with another ITS, which is in wds2: any API server can hold one.
func (e *environment) otherITS() (*environment, plugin.ITS) {
	e.t.Helper()
	space := e.fleet.Space(e.t, "wds2")
	space.Install(e.t, append(testenv.APIs(e.t, "control.kubestellar.io_workstatuses"), testenv.ManagedClusterCRD(e.t),
		testenv.OCM(e.t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"))...)
	other := &environment{t: e.t, fleet: e.fleet, wds: e.wds, its: space.Client, space: e.space, name: e.name, reportLimits: e.reportLimits}
	other.agent = newAgent(other)
	uid := e.wdsUID()
	return other, plugin.ITS{Name: "its2", Connect: func(context.Context) (plugin.Plugin, error) {
		return ocm.New(ocm.Config{
			Space: "its2", Hub: e.fleet.Config(e.t, "wds2"), WDSName: e.space, WDSUID: uid, ReportLimits: e.reportLimits,
		})
	}}
}

// says waits until the Binding says something in condition Delivered.
func (e *environment) says(text string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		b := e.binding()
		c := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionDelivered)
		return c != nil && strings.Contains(c.Message, text), fmt.Sprintf("%+v, want %q", c, text)
	})
}

// TestNamePasses: the names of clusters pass from one ITS to another, because the first one denies
// or deletes its cluster, or because the cluster of the other one was accepted earlier. The works
// in the first ITS stay until the clusters of the other one have reported the objects: they may be
// the same machines. Then nothing is left in the first ITS, and no Secret, even if nobody removes
// the works.
func TestNamePasses(t *testing.T) {
	first := newEnvironment(t)
	second, its2 := first.otherITS()
	sites := first.clusters(3)
	denied, deleted, superseded := sites[0], sites[1], sites[2]
	second.agent.set(func(a *agent) {
		for _, site := range sites {
			a.offline[site] = true
		}
	})
	last, err := first.its.Resource(clusters.ManagedClusters).Get(t.Context(), superseded, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() (bool, string) { // times are kept in seconds
		return time.Now().Unix() > last.GetCreationTimestamp().Unix(), "the second is not over"
	})
	for _, site := range sites {
		second.cluster(site)
	}
	const password = "aHVudGVyMg==" // of the stored Secret
	first.create(secrets, first.name, "key", map[string]any{"stringData": map[string]any{"password": "hunter2"}})
	one := first.configMap("one", "1")
	first.start(roomy, its2)
	first.bind(sites, one, entry{resource: secrets, namespace: first.name, name: "key"})
	both := func(content string) []string {
		return []string{"ConfigMap " + first.name + "/one: " + content, "Secret " + first.name + "/key"}
	}
	for _, site := range sites {
		first.expectContents(site, both("1")...)
		if got := second.contents(site); len(got) > 0 {
			t.Errorf("%s in the other ITS: %q", site, got)
		}
	}
	first.applied()

	first.agent.set(func(a *agent) { a.offline[denied], a.offline[deleted] = true, true })
	first.patch(clusters.ManagedClusters, "", denied, `{"spec":{"hubAcceptsClient":false}}`)
	first.delete(clusters.ManagedClusters, "", deleted)
	second.patch(clusters.ManagedClusters, "", superseded, `{"status":{"conditions":[{"type":"HubAcceptedManagedCluster","status":"True",
		"reason":"Accepted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
	for _, site := range sites {
		second.expectContents(site, both("1")...)
	}
	first.edit("one", "2")
	for _, site := range sites {
		second.expectContents(site, both("2")...)
		first.says(site + `: 1 ManifestWork of this Binding stays for the cluster of this name in ITS "its1", until the cluster of ITS "its2" has applied `)
		if got := first.contents(site); !slices.Equal(got, both("1")) {
			t.Errorf("%s in the first ITS: %q, and the cluster of the other one has reported nothing", site, got)
		}
	}

	second.agent.set(func(a *agent) { clear(a.offline) })
	for _, site := range sites {
		testenv.Eventually(t, patience, func() (bool, string) {
			works := first.works(site)
			text, err := json.Marshal(works)
			if err != nil {
				t.Fatal(err)
			}
			isLeft := site == superseded && len(works) > 0 || strings.Contains(string(text), password) ||
				slices.ContainsFunc(first.contents(site), func(string) bool { return true })
			return !isLeft, site + " in the first ITS: " + string(text)
		})
		second.expectContents(site, both("2")...)
	}
	first.applied()
	if _, err := first.its.Resource(clusters.ManagedClusters).Patch(t.Context(), denied, types.MergePatchType,
		[]byte(`{"spec":{"hubAcceptsClient":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	first.agent.set(func(a *agent) { clear(a.offline) })
	first.expectContents(denied, both("2")...) // it was accepted first: the name is back
	testenv.Eventually(t, patience, func() (bool, string) {
		return len(second.works(denied)) == 0, fmt.Sprintf("%q are left", second.contents(denied))
	})
	first.applied()
}
