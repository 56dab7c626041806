package transport

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/test/testenv"
)

// TestWhatCannotBeReadStays deletes an object that the Binding still lists. The cluster
// keeps its copy, because the deletion or the read may be a mistake.
func TestWhatCannotBeReadStays(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	one, two := e.configMap("one", "1"), e.configMap("two", "1")
	e.bind(sites[:1], one, two)
	e.applied()

	e.delete(configMaps, e.name, "two")
	b := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
	if want := []string{"configmaps " + e.name + "/two: is listed by the Binding, but does not exist in the WDS"}; !slices.Equal(b.Status.Errors, want) {
		t.Errorf("errors %q, want %q", b.Status.Errors, want)
	}
	cmOne, cmTwo := "ConfigMap "+e.name+"/one: ", "ConfigMap "+e.name+"/two: 1"
	e.expectContents(sites[0], cmOne+"1", cmTwo)
	e.edit("one", "2") // the rest goes on
	e.expectContents(sites[0], cmOne+"2", cmTwo)
	e.rebind(sites, one, two) // it does not go to further places
	e.expectContents(sites[1], cmOne+"2")

	// A restart knows no more.
	c.stop()
	e.start(roomy)
	e.edit("one", "3")
	e.expectContents(sites[0], cmOne+"3", cmTwo)
	e.expectContents(sites[1], cmOne+"3")

	// A kind that the WDS does not serve.
	gone := entry{resource: configMaps.GroupResource().WithVersion("v1").GroupVersion().WithResource("gadgets"), namespace: e.name, name: "g"}
	gone.resource.Group = "missing.example.com"
	e.rebind(sites, one, two, gone)
	e.edit("one", "4")
	e.expectContents(sites[0], cmOne+"4", cmTwo)

	e.create(configMaps, e.name, "two", map[string]any{"data": map[string]any{"content": "again"}})
	e.rebind(sites, one, two)
	e.applied()
	for _, site := range sites {
		e.expectContents(site, cmOne+"4", "ConfigMap "+e.name+"/two: again")
	}
}

// TestEditsByHandArePutRight edits works in every way that an edit can be made.
func TestEditsByHandArePutRight(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	binding := e.bind(sites, e.configMap("one", "1"), e.configMap("two", "1"))
	e.applied()
	name := string(binding.GetUID()) + "-1-0"
	want := []string{"ConfigMap " + e.name + "/one: 1", "ConfigMap " + e.name + "/two: 1"}
	edits := map[string]string{
		"content":    `[{"op":"replace","path":"/spec/workload/manifests/0/data/content","value":"other"}]`,
		"removed":    `[{"op":"remove","path":"/spec/workload/manifests/1"}]`,
		"added":      `[{"op":"add","path":"/spec/workload/manifests/0","value":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}}]`,
		"rest":       `[{"op":"add","path":"/spec/deleteOption","value":{"propagationPolicy":"Orphan"}}]`,
		"configs":    `[{"op":"add","path":"/spec/manifestConfigs","value":[{"resourceIdentifier":{"resource":"configmaps","namespace":"` + e.name + `","name":"one"},"updateStrategy":{"type":"CreateOnly"}}]}]`,
		"hash":       `[{"op":"remove","path":"/metadata/annotations/starling.io~1content-hash"}]`,
		"kinds":      `[{"op":"remove","path":"/metadata/annotations/starling.io~1kinds"}]`,
		"annotation": `[{"op":"remove","path":"/metadata/annotations"}]`,
	}
	for what, edit := range edits {
		if what == "annotation" {
			continue // the work's Binding is not known any more: see the label below
		}
		if _, err := e.its.Resource(ocm.ManifestWorks).Namespace(sites[0]).Patch(t.Context(), name, types.JSONPatchType, []byte(edit), metav1.PatchOptions{}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		testenv.Eventually(t, patience, func() (bool, string) {
			work := e.works(sites[0])[0]
			ok := slices.Equal(e.contents(sites[0]), want) && work.Spec.DeleteOption == nil && len(work.Spec.ManifestConfigs) == 1 && work.Spec.ManifestConfigs[0].ResourceIdentifier.Name == "*" &&
				work.Annotations[controlv1alpha1.AnnotationKinds] == "ConfigMap=configmaps" && work.Annotations[controlv1alpha1.AnnotationContentHash] != ""
			return ok, fmt.Sprintf("%s: %v %+v", what, e.contents(sites[0]), work.Annotations)
		})
	}
	// A deleted work is re-created, under another name if the old one still exists.
	before := e.works(sites[0])[0].UID
	e.delete(ocm.ManifestWorks, sites[0], name)
	testenv.Eventually(t, patience, func() (bool, string) {
		works := e.works(sites[0])
		return len(works) == 1 && works[0].UID != before && slices.Equal(e.contents(sites[0]), want), fmt.Sprint(len(works))
	})
	e.applied()
}

// TestWorksOfOthersAreLeftAlone has works beside ours: of another WDS, of nobody, and of a Binding
// that does not exist.
func TestWorksOfOthersAreLeftAlone(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	one := e.configMap("one", "1")
	binding := e.bind(sites, one)
	manifest := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": e.name}}
	foreign := map[string]map[string]any{
		"other-wds": {controlv1alpha1.LabelWDSUID: "another", controlv1alpha1.LabelBindingUID: string(binding.GetUID()), controlv1alpha1.LabelWave: "1"},
		"nobody":    {"app": "x"},
		"orphan":    {controlv1alpha1.LabelWDSUID: string(e.wdsUID()), controlv1alpha1.LabelBindingUID: "gone", controlv1alpha1.LabelWave: "1"},
	}
	versions := map[string]string{}
	for name, labels := range foreign {
		e.create(ocm.ManifestWorks, sites[0], name, map[string]any{
			"metadata": map[string]any{"labels": labels, "annotations": map[string]any{controlv1alpha1.AnnotationBinding: e.name}},
			"spec":     map[string]any{"workload": map[string]any{"manifests": []any{manifest}}},
		})
		testenv.Eventually(t, patience, func() (bool, string) { // until the agent has said its word
			work, err := e.its.Resource(ocm.ManifestWorks).Namespace(sites[0]).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, reported, _ := unstructured.NestedSlice(work.Object, "status", "resourceStatus", "manifests")
			versions[name] = work.GetResourceVersion()
			return reported && len(work.GetFinalizers()) > 0, "no report for " + name
		})
	}
	e.start(roomy)
	e.applied()
	e.delete(bindings, "", e.name)
	testenv.Eventually(t, patience, func() (bool, string) { return e.binding() == nil, "the Binding is there" })
	works := e.works(sites[0])
	if len(works) != len(foreign) {
		t.Errorf("%d works are left, want %d", len(works), len(foreign))
	}
	for _, work := range works {
		if versions[work.Name] != work.ResourceVersion {
			t.Errorf("%s was written to", work.Name)
		}
	}
}

// TestTheFinalizerWaits deletes a Binding while one cluster is offline, one is gone, and a
// destination was just removed.
func TestTheFinalizerWaits(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(3)
	c := e.start(roomy)
	one := e.configMap("one", "1")
	e.bind(sites, one)
	e.applied()
	e.agent.set(func(a *agent) {
		for _, site := range sites {
			a.offline[site] = true
		}
	})
	e.delete(clusters.ManagedClusters, "", sites[1])
	e.rebind(sites[1:], one) // and no more to the first one
	e.delete(bindings, "", e.name)

	b := e.expectDeleting(sites[0], sites[2])
	if !slices.Contains(b.Finalizers, controlv1alpha1.BindingFinalizer) {
		t.Error("the finalizer is gone")
	}
	// A restart in between changes nothing.
	c.stop()
	e.start(roomy)
	e.agent.set(func(a *agent) { a.offline[sites[0]] = false })
	e.expectDeleting(sites[2])
	e.agent.set(func(a *agent) { a.offline[sites[2]] = false })
	testenv.Eventually(t, patience, func() (bool, string) { return e.binding() == nil, "the Binding is there" })
	for _, site := range []string{sites[0], sites[2]} {
		e.expectContents(site)
	}
}

func (e *environment) expectDeleting(sites ...string) *controlv1alpha1.Binding {
	e.t.Helper()
	var b *controlv1alpha1.Binding
	testenv.Eventually(e.t, patience, func() (bool, string) {
		b = e.binding()
		if b == nil {
			return false, "the Binding is gone"
		}
		for _, c := range b.Status.Conditions {
			if c.Type == controlv1alpha1.BindingConditionDelivered && c.Reason == controlv1alpha1.ReasonDeleting &&
				strings.HasSuffix(c.Message, ": "+strings.Join(sites, ", ")) {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", b.Status)
	})
	return b
}

// TestClustersThatAreNotAccepted get nothing; they do once they are let in, and keep what they have
// when they are no more.
func TestClustersThatAreNotAccepted(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.patch(clusters.ManagedClusters, "", sites[0], `{"spec":{"hubAcceptsClient":false}}`)
	e.start(roomy)
	e.bind(sites, e.configMap("one", "1"))
	b := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
	if want := []string{sites[0] + ": is not an accepted cluster of any ITS. Accept its ManagedCluster, or correct the name"}; !slices.Equal(b.Status.Errors, want) {
		t.Errorf("errors %q, want %q", b.Status.Errors, want)
	}
	e.expectContents(sites[0])
	e.patch(clusters.ManagedClusters, "", sites[0], `{"spec":{"hubAcceptsClient":true}}`)
	e.applied()
	e.patch(clusters.ManagedClusters, "", sites[0], `{"spec":{"hubAcceptsClient":false}}`)
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: 1")
}

// TestLongNames uses names as long as they may be, and names that no label may hold.
func TestLongNames(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	role := e.name + ":with:colons"
	e.create(roles, "", role, map[string]any{"rules": []any{}})
	long := strings.Repeat("long.", 50) + "ok." // 253 characters
	short := e.name
	e.name = long[:len(long)-1]
	e.bind(sites, entry{resource: roles, name: role})
	e.applied()
	work := e.works(sites[0])[0]
	label := work.Labels[controlv1alpha1.LabelBindingName]
	if len(label) > 63 || !strings.HasPrefix(e.name, label[:50]) || work.Annotations[controlv1alpha1.AnnotationBinding] != e.name {
		t.Errorf("label %q, annotations %v", label, work.Annotations)
	}
	e.delete(bindings, "", e.name)
	testenv.Eventually(t, patience, func() (bool, string) { return e.binding() == nil, "the Binding is there" })
	e.expectContents(sites[0])
	e.name = short
}

// TestLimits splits works, moves nothing, and tells of what is too large.
func TestLimits(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(packing.Limits{Count: 2, Bytes: 2000})
	a, b, c := e.configMap("a", "1"), e.configMap("b", "1"), e.configMap("c", "1")
	e.bind(sites, a, b, c)
	e.applied()
	where := func() map[string]string {
		names := map[string]string{}
		for _, work := range e.works(sites[0]) {
			for _, line := range describe(t, &work) {
				object, _, _ := strings.Cut(line, ":")
				names[object] = work.Name
			}
		}
		return names
	}
	before := where()
	if len(e.works(sites[0])) != 2 || before["ConfigMap "+e.name+"/a"] != before["ConfigMap "+e.name+"/b"] {
		t.Fatalf("objects are in %v, want a and b together, and c alone", before)
	}
	e.rebind(sites, b, c, e.configMap("d", "1"), e.configMap("huge", strings.Repeat("x", 3000)))
	status := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed).Status
	if want := "configmaps " + e.name + "/huge: is too large for a work. Make it smaller, or raise --max-size-wrapped of the transport-controller"; !slices.Equal(status.Errors, []string{want}) {
		t.Errorf("errors %q, want %q", status.Errors, want)
	}
	e.expectContents(sites[0], "ConfigMap "+e.name+"/b: 1", "ConfigMap "+e.name+"/c: 1", "ConfigMap "+e.name+"/d: 1")
	after := where()
	for _, name := range []string{"b", "c"} {
		key := "ConfigMap " + e.name + "/" + name
		if after[key] != before[key] {
			t.Errorf("%s moved from %s to %s", name, before[key], after[key])
		}
	}

	// One that outgrows its work is in both until the cluster has it from the new one.
	e.agent.set(func(a *agent) { a.offline[sites[0]] = true })
	e.edit("d", strings.Repeat("y", 1750))
	testenv.Eventually(t, patience, func() (bool, string) {
		n := 0
		for _, line := range e.contents(sites[0]) {
			if strings.HasPrefix(line, "ConfigMap "+e.name+"/d") {
				n++
			}
		}
		return n == 2, fmt.Sprintf("d is there %d times", n)
	})
	testenv.Never(t, 300*time.Millisecond, func() string {
		if got := len(e.contents(sites[0])); got != 4 {
			return fmt.Sprintf("%d objects, want b, c, and d twice", got)
		}
		return ""
	})
	e.agent.set(func(a *agent) { a.offline[sites[0]] = false })
	e.expectContents(sites[0], "ConfigMap "+e.name+"/b: 1", "ConfigMap "+e.name+"/c: 1", "ConfigMap "+e.name+"/d: "+strings.Repeat("y", 1750))
}

// TestADeadSpaceHoldsUpItsOwnClustersOnly starts with a second inventory space that does not
// answer.
func TestADeadSpaceHoldsUpItsOwnClustersOnly(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy, plugin.ITS{Name: "its2", Connect: func(ctx context.Context) (plugin.Plugin, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	one := e.configMap("one", "1")
	e.bind([]string{e.name + "-elsewhere", sites[0]}, one)
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: 1")
	e.edit("one", "2")
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: 2")
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonDelivering)
	e.expectMessage(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivering, "being delivered to: "+e.name+"-elsewhere")
	e.rebind(sites, one)
	e.applied()
	// What it holds is not known: the Binding waits for it.
	e.delete(bindings, "", e.name)
	e.expectDeleting("ITS its2 (not synced yet)")
	e.expectContents(sites[0])
}
