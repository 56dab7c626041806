package cli

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// work returns a work of a Binding with Deployments of those names, of which the first are applied.
func work(mailbox, wds, binding string, applied int, names ...string) workv1.ManifestWork {
	w := workv1.ManifestWork{}
	w.Namespace, w.Name, w.Generation = mailbox, binding+"-0-0", 1
	w.Labels = map[string]string{controlv1alpha1.LabelWDSUID: wds + "-uid", controlv1alpha1.LabelWDSName: wds, controlv1alpha1.LabelBindingUID: binding + "-uid"}
	w.Annotations = map[string]string{controlv1alpha1.AnnotationBinding: binding}
	for i, name := range names {
		raw := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":%q}}`, name)
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
		if i < applied {
			w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
				ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: "n", Name: name},
				Conditions:   []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}},
			})
		}
	}
	w.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	return w
}

// TestLoad: works of others and claims do not count, what is being withdrawn does, and a Binding is
// one whether it is known from the WDS, from the mailbox, or from both.
func TestLoad(t *testing.T) {
	t.Parallel()
	orphaned := work("edge1", "wds1", "shop", 0, "a", "b")
	orphaned.Spec.DeleteOption = &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Group: "apps", Resource: "deployments", Namespace: "n", Name: "b"}}},
	}
	second := work("edge1", "wds1", "shop", 0, "c", "claimed")
	observe := func(name, annotations string) {
		second.Spec.Workload.Manifests = append(second.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{
			Raw: fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"n","name":%q,"annotations":{%s}}}`, name, annotations),
		}})
	}
	observe("withdrawn", `"starling.io/withdrawn":"true"`)
	for _, name := range []string{"claimed", "withdrawn"} {
		second.Spec.ManifestConfigs = append(second.Spec.ManifestConfigs, workv1.ManifestConfigOption{
			ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "n", Name: name},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
		})
	}
	addOn, other := workv1.ManifestWork{}, workv1.ManifestWork{}
	addOn.Name, other.Name = "addon-addon-status-deploy-0", "somebody-elses"
	l := newLoad([]workv1.ManifestWork{orphaned, second, addOn, work("edge1", "wds2", "web", 0, "d"), other},
		[]bound{{WDS: "shop-uid", Name: "shop", Owner: "BindingPolicy shop", Why: "blocked"}, {WDS: "new-uid", Name: "new"}})
	want := &load{Others: 1, Bindings: []bound{
		{Name: "new", Listed: true},
		{WDS: "wds1", Name: "shop", Works: 2, Objects: 4, Orphans: 1, Listed: true, Owner: "BindingPolicy shop", Why: "blocked"},
		{WDS: "wds2", Name: "web", Works: 1, Objects: 1},
	}}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all, orphans := l.objects(); all != 5 || orphans != 1 || l.works() != 3 || len(l.listing()) != 2 {
		t.Errorf("%d objects, %d stay, %d works, listed by %v", all, orphans, l.works(), l.listing())
	}
}

// TestCounts: an object counts once, is healthy only if it is applied and its cluster says so, and
// a report that no agent wrote does not count.
func TestCounts(t *testing.T) {
	t.Parallel()
	report := func(cluster, name, status string) *controlv1alpha1.WorkStatus {
		ws := &controlv1alpha1.WorkStatus{Status: &runtime.RawExtension{Raw: []byte(status)}}
		ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "n", Name: name}
		ws.Namespace, ws.Name = cluster, corestatus.ReportName(ref)
		ws.Spec.SourceRef = controlv1alpha1.SourceRef{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "n", Name: name}
		return ws
	}
	const works, fails = `{"replicas":1,"readyReplicas":1,"updatedReplicas":1,"availableReplicas":1}`,
		`{"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`
	c := newCounter()
	leaving := work("edge1", "wds1", "gone", 0, "z")
	leaving.DeletionTimestamp = &metav1.Time{}
	for _, w := range []workv1.ManifestWork{
		work("edge1", "wds1", "shop", 3, "a", "b", "c", "d"), work("edge1", "wds1", "new", 0, "a"), work("edge2", "wds1", "shop", 1, "a"), leaving,
	} {
		c.addWork(&w)
	}
	forged := report("edge1", "c", works)
	forged.Name = "by-hand"
	for _, ws := range []*controlv1alpha1.WorkStatus{report("edge1", "a", works), report("edge1", "b", fails), forged, report("edge1", "d", works), report("edge2", "z", works)} {
		c.addReport(ws)
	}
	got := map[string]*counts{"edge1": c.of("edge1"), "edge2": c.of("edge2"), "edge3": c.of("edge3")}
	want := map[string]*counts{
		"edge1": {Objects: 4, Applied: 3, Healthy: 1}, // a; b fails, c has no report, d is not applied
		"edge2": {Objects: 1, Applied: 1}, "edge3": {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
