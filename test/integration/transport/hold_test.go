package transport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
)

// annotate sets an annotation of the Binding; nil removes it.
func (e *environment) annotate(key string, value *string) {
	e.t.Helper()
	text := "null"
	if value != nil {
		text = fmt.Sprintf("%q", *value)
	}
	e.patch(bindings, "", e.name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, text))
}

func (e *environment) hold(text string) {
	e.t.Helper()
	e.annotate(controlv1alpha1.AnnotationHold, &text)
}

// expectHeld waits until the Binding says so.
func (e *environment) expectHeld(reason, message string) {
	e.t.Helper()
	e.expectMessage(controlv1alpha1.BindingConditionHeld, reason, message)
}

// TestHold holds one of two objects of a work through all that can happen to it.
func TestHold(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	one, two := e.configMap("one", "1"), e.configMap("two", "1")
	binding := e.bind(sites, one, two)
	e.applied()
	cm := func(name, content string) string { return fmt.Sprintf("ConfigMap %s/%s: %s", e.name, name, content) }
	const annotation = "annotation starling.io/hold"
	held := "1 object is held by " + annotation + ": configmaps " + e.name + "/one"

	e.hold("configmaps/" + e.name + "/one")
	e.expectHeld(controlv1alpha1.ReasonHeld, held)
	e.applied() // it is as it should be
	e.edit("one", "2")
	e.edit("two", "2")
	e.expectContents(sites[0], cm("one", "1"), cm("two", "2"))
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonHeld)
	e.expectMessage(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonHeld, annotation+" holds back changes to: "+sites[0])

	// What a hand makes of it stays too, and the options.
	name := string(binding.GetUID()) + "-1-0"
	if _, err := e.its.Resource(ocm.ManifestWorks).Namespace(sites[0]).Patch(t.Context(), name, types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/workload/manifests/0/data/content","value":"by hand"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	two.createOnly = true
	one.createOnly = true
	e.rebind(sites, one, two)
	e.edit("two", "3")
	e.expectContents(sites[0], cm("one", "by hand"), cm("two", "3"))
	testenv.Eventually(t, patience, func() (bool, string) {
		configs := e.works(sites[0])[0].Spec.ManifestConfigs
		return len(configs) == 2 && configs[0].ResourceIdentifier.Name == "two", fmt.Sprint(configs)
	})

	// A restart knows as much.
	c.stop()
	e.start(roomy)
	e.edit("two", "4")
	e.expectContents(sites[0], cm("one", "by hand"), cm("two", "4"))

	// It leaves the Binding, and another one that is held does not come.
	e.hold(fmt.Sprintf("configmaps/%s/one, configmaps/%s/three", e.name, e.name))
	e.rebind(sites, two, e.configMap("three", "1"), e.configMap("four", "1"))
	e.expectContents(sites[0], cm("four", "1"), cm("one", "by hand"), cm("two", "4"))
	e.expectHeld(controlv1alpha1.ReasonHeld, "2 objects are held by "+annotation+": configmaps "+e.name+"/one, configmaps "+e.name+"/three")

	// What cannot be understood holds everything.
	e.hold("nonsense")
	e.expectErrors(`metadata.annotations[starling.io/hold]: "nonsense": want <resource>.<group>/<namespace>/<name>, with nothing between ` +
		`the slashes for an object that has no namespace; every object is held until this is corrected`)
	e.edit("two", "5")
	e.expectHeld(controlv1alpha1.ReasonInvalidHold, "4 objects are held by "+annotation+": configmaps "+e.name+"/four, configmaps "+e.name+
		"/one, configmaps "+e.name+"/three, configmaps "+e.name+"/two; see status.errors")
	e.hold("configmaps/" + e.name + "/nothing-of-that-name")
	e.expectContents(sites[0], cm("four", "1"), cm("three", "1"), cm("two", "5"))
	e.expectHeld(controlv1alpha1.ReasonNothingHeld, annotation+" matches no object that the Binding lists or has delivered")
	e.applied()

	// The destination goes, then the Binding, and what is held stays.
	e.hold("configmaps/" + e.name + "/two")
	e.expectHeld(controlv1alpha1.ReasonHeld, "1 object is held by "+annotation+": configmaps "+e.name+"/two")
	e.rebind(nil, two)
	e.expectContents(sites[0], cm("two", "5"))
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonHeld)
	e.delete(bindings, "", e.name)
	e.expectDeleting(sites[0] + "; 1 object is held by " + annotation + ": configmaps " + e.name + "/two")
	e.annotate(controlv1alpha1.AnnotationHold, nil)
	testenv.Eventually(t, patience, func() (bool, string) { return e.binding() == nil, "the Binding is there" })
	e.expectContents(sites[0])
}

// TestForcedRelease deletes a Binding whose clusters do not answer, and one that is held.
func TestForcedRelease(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	e.start(roomy)
	one := e.configMap("one", "1")
	e.bind(sites, one)
	e.applied()
	offline := func(value bool) {
		e.agent.set(func(a *agent) { a.offline[sites[0]], a.offline[sites[1]] = value, value })
	}
	release := func(text string) { t.Helper(); e.annotate(controlv1alpha1.AnnotationRelease, &text) }

	offline(true)
	release("clusters=" + sites[0]) // of no use yet
	e.delete(bindings, "", e.name)
	e.expectDeleting(sites[0], sites[1])
	release("yes")
	e.expectErrors(`metadata.annotations[starling.io/release]: want "force", or "clusters=" and names of clusters, separated by commas; the annotation releases nothing`)
	release("clusters=" + sites[0] + ", " + sites[1])
	testenv.Eventually(t, patience, func() (bool, string) { return e.binding() == nil, "the Binding is there" })

	// The works are on their way out, and a successor of the same name does not meet them.
	old := map[types.UID]bool{}
	for _, site := range sites {
		for _, work := range e.works(site) {
			old[work.UID] = true
			if work.DeletionTimestamp == nil {
				t.Errorf("%s/%s was not deleted", site, work.Name)
			}
		}
	}
	if len(old) != 2 {
		t.Errorf("%d works are left, want 2", len(old))
	}
	e.bind(sites, one)
	for _, site := range sites {
		e.expectContents(site, "ConfigMap "+e.name+"/one: 1")
	}
	offline(false)
	e.applied()
	for _, site := range sites {
		testenv.Eventually(t, patience, func() (bool, string) {
			works := e.works(site)
			return len(works) == 1 && !old[works[0].UID], fmt.Sprintf("%d works", len(works))
		})
	}

	// What is held is not deleted by force; it is left behind, and nobody's any more.
	before := e.works(sites[0])[0]
	e.hold("*")
	e.expectHeld(controlv1alpha1.ReasonHeld, "1 object is held by annotation starling.io/hold: configmaps "+e.name+"/one")
	gauge := orphanGauge(t)
	e.delete(bindings, "", e.name)
	release("force")
	testenv.Eventually(t, patience, func() (bool, string) { return e.binding() == nil, "the Binding is there" })
	if after := e.works(sites[0]); len(after) != 1 || after[0].ResourceVersion != before.ResourceVersion {
		t.Errorf("works %+v, want %+v as it was", after, before)
	}
	expectGauge(t, gauge+1)
}

func orphanGauge(t *testing.T) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "starling_transport_orphaned_bindings" {
			for _, metric := range family.GetMetric() {
				return metric.GetGauge().GetValue() // there is one space
			}
		}
	}
	return 0
}

func expectGauge(t *testing.T, want float64) {
	t.Helper()
	testenv.Eventually(t, patience, func() (bool, string) {
		got := orphanGauge(t)
		return got == want, fmt.Sprintf("%v orphaned Bindings, want %v", got, want)
	})
}

// TestAClusterThatIsNotAcceptedAnyMore takes its works to the grave.
func TestAClusterThatIsNotAcceptedAnyMore(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	e.bind(sites, e.configMap("one", "1"))
	e.applied()
	e.agent.set(func(a *agent) { a.offline[sites[0]] = true })
	e.delete(bindings, "", e.name)
	e.expectDeleting(sites[0])
	e.patch(clusters.ManagedClusters, "", sites[0], `{"spec":{"hubAcceptsClient":false}}`)
	testenv.Eventually(t, patience, func() (bool, string) { return e.binding() == nil, "the Binding is there" })
	works := e.works(sites[0])
	if len(works) != 1 || works[0].DeletionTimestamp == nil {
		t.Errorf("works %+v, want one on its way out", works)
	}
}

// TestAnEmptiedWDSDeletesNothing takes Bindings away behind the controller's back, while it runs
// and while it does not: as when a WDS is emptied, or restored from a backup that does not know
// them.
func TestAnEmptiedWDSDeletesNothing(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	one := e.configMap("one", "1")
	e.bind(sites, one)
	e.applied()
	gauge := orphanGauge(t)
	state := func() (versions []string) {
		for _, site := range sites {
			for _, work := range e.works(site) {
				versions = append(versions, string(work.UID)+work.ResourceVersion)
			}
		}
		return versions
	}
	// While it runs, what is held keeps the Binding, until somebody takes the finalizer.
	e.hold("*")
	e.expectHeld(controlv1alpha1.ReasonHeld, "1 object is held by annotation starling.io/hold: configmaps "+e.name+"/one")
	before := state()
	e.delete(bindings, "", e.name)
	e.expectDeleting(sites[0], sites[1]+"; 1 object is held by annotation starling.io/hold: configmaps "+e.name+"/one")
	e.patch(bindings, "", e.name, `{"metadata":{"finalizers":null}}`)
	expectGauge(t, gauge+1)
	if after := state(); !slices.Equal(before, after) {
		t.Errorf("works were %v, are %v", before, after)
	}

	// While it does not.
	e.bind(sites, one)
	e.applied()
	c.stop()
	e.patch(bindings, "", e.name, `{"metadata":{"finalizers":null}}`)
	e.delete(bindings, "", e.name)
	before = state()
	c = e.start(roomy)
	expectGauge(t, gauge+2)
	if after := state(); !slices.Equal(before, after) {
		t.Errorf("works were %v, are %v", before, after)
	}
	for key, n := range c.made() {
		if strings.HasPrefix(key, "its1 ") && !strings.HasPrefix(key, "its1 get ") && !strings.HasPrefix(key, "its1 list ") {
			t.Errorf("%d times %q", n, key)
		}
	}

	// The count follows the works.
	for _, site := range sites {
		for _, work := range e.works(site) {
			e.delete(ocm.ManifestWorks, site, work.Name)
		}
	}
	expectGauge(t, gauge)
}
