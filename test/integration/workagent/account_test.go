// Package workagent tests what OCM's work agent does that Starling relies on, or has to live with.
package workagent

import (
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"its1", "wds1"}}) // wds1 is the cluster
}

// TestReportBeforeAccount: OCM's agent writes the status of a work first, and its account in the
// cluster, an AppliedManifestWork, afterwards. It writes the account on the version that its cache
// has. While its watch in the cluster is interrupted, because the API server there was restarted,
// the first such write succeeds, and all others are refused. An object that comes then is reported
// and not in the account. When it leaves before the watch is back, it stays in the cluster, also if
// it is withdrawn first and the agent has reported on that.
//
// Should this test fail with a later OCM, 0004-transport.md can be corrected.
func TestReportBeforeAccount(t *testing.T) {
	site := testenv.Name(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	a := newAgent(t, site, "")
	hubClient, wecClient, kube, works, accounts, agent := a.hub, a.wec, a.kube, a.works, a.accounts, a.Controller

	manifest := func(name string) workv1.Manifest {
		raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q},"data":{"a":"b"}}`, site, name)
		return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}
	}
	spec := func(names ...string) (s workv1.ManifestWorkSpec) {
		for _, name := range names {
			s.Workload.Manifests = append(s.Workload.Manifests, manifest(name))
		}
		return s
	}
	work, err := hubClient.WorkV1().ManifestWorks(site).Create(ctx, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "w", Finalizers: []string{workv1.ManifestWorkFinalizer}}, Spec: spec("a"),
	}, metav1.CreateOptions{})
	must(err)
	account := "hub-" + site + "-w"
	edit := func(s workv1.ManifestWorkSpec) {
		t.Helper()
		work, err = hubClient.WorkV1().ManifestWorks(site).Get(ctx, "w", metav1.GetOptions{})
		must(err)
		work.Spec = s
		work, err = hubClient.WorkV1().ManifestWorks(site).Update(ctx, work, metav1.UpdateOptions{})
		must(err)
	}
	look := func() error {
		t.Helper()
		work, err = hubClient.WorkV1().ManifestWorks(site).Get(ctx, "w", metav1.GetOptions{})
		must(err)
		must(works.Informer().GetStore().Add(work))
		return agent.Sync(ctx, agent.SyncContext(), "w")
	}
	watchAccount := func() {
		t.Helper()
		current, err := wecClient.WorkV1().AppliedManifestWorks().Get(ctx, account, metav1.GetOptions{})
		must(err)
		must(accounts.Informer().GetStore().Add(current))
	}
	expect := func(what, name string, reported, noted, exists bool) {
		t.Helper()
		current, err := hubClient.WorkV1().ManifestWorks(site).Get(ctx, "w", metav1.GetOptions{})
		must(err)
		gotReported := slices.ContainsFunc(current.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool {
			return m.ResourceMeta.Name == name && len(m.Conditions) > 0 && m.Conditions[0].Status == metav1.ConditionTrue && m.Conditions[0].ObservedGeneration == current.Generation
		})
		own, err := wecClient.WorkV1().AppliedManifestWorks().Get(ctx, account, metav1.GetOptions{})
		must(err)
		gotNoted := slices.ContainsFunc(own.Status.AppliedResources, func(r workv1.AppliedManifestResourceMeta) bool { return r.Name == name })
		_, err = kube.CoreV1().ConfigMaps(site).Get(ctx, name, metav1.GetOptions{})
		if gotReported != reported || gotNoted != noted || (err == nil) != exists {
			t.Errorf("%s: %s is reported: %t, noted: %t, exists: %t", what, name, gotReported, gotNoted, err == nil)
		}
	}

	refused := func(what string) {
		t.Helper()
		if err := look(); !apierrors.IsConflict(err) {
			t.Errorf("%s: error %v, want a conflict", what, err)
		}
	}

	must(look())
	watchAccount()
	expect("created", "a", true, true, true)
	// From here the watch is interrupted.
	edit(spec("a", "b"))
	must(look())
	expect("the first change", "b", true, true, true)
	edit(spec("a", "b", "c"))
	refused("the second change")
	expect("the second change", "c", true, false, true)
	withdrawn := spec("a", "b", "c")
	withdrawn.Workload.Manifests[2].Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"c"}}`, site)
	withdrawn.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: site, Name: "c"},
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
	}}
	edit(withdrawn)
	refused("withdrawn")
	expect("withdrawn", "c", true, false, true)
	edit(spec("a", "b"))
	refused("gone from the work")
	watchAccount()
	must(look())
	expect("watched again", "c", false, false, true)
	// One that is in the account leaves.
	edit(spec("a"))
	must(look())
	expect("in the account", "b", false, true, false) // it is in the account until it is gone
}
