package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestLife follows objects through their whole life, and counts what each step costs in the
// inventory space.
func TestLife(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(3)
	c := e.start(roomy)
	namespace := entry{resource: namespaces, name: e.name}
	one, two := e.configMap("one", "1"), e.configMap("two", "1")
	expect := func(sites []string, want ...string) {
		t.Helper()
		for _, site := range sites {
			e.expectContents(site, want...)
		}
	}
	cm := func(name, content string) string { return fmt.Sprintf("ConfigMap %s/%s: %s", e.name, name, content) }
	ns := "Namespace " + e.name
	its := func() map[string]int {
		made := map[string]int{}
		for key, n := range c.made() {
			if strings.HasPrefix(key, "its1 ") {
				made[key] = n
			}
		}
		return made
	}
	step := func(what string, want map[string]int) {
		t.Helper()
		e.applied()
		if diff := cmp.Diff(want, its()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
		c.reset()
	}

	c.reset()
	binding := e.bind(sites, namespace, one, two)
	expect(sites, cm("one", "1"), cm("two", "1"), ns)
	step("placement, two waves", map[string]int{"its1 post manifestworks": 6})

	works := e.works(sites[0])
	uid := string(binding.GetUID())
	if len(works) != 2 || works[0].Name != uid+"-0-0" || works[1].Name != uid+"-1-0" {
		t.Fatalf("works %v, want one for each wave", works)
	}
	wantLabels := map[string]string{
		controlv1alpha1.LabelBindingName: e.name, controlv1alpha1.LabelWDSName: "wds1", controlv1alpha1.LabelWDSUID: string(e.wdsUID()),
		controlv1alpha1.LabelBindingUID: uid, controlv1alpha1.LabelWave: "1",
	}
	if diff := cmp.Diff(wantLabels, works[1].Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if works[1].Annotations[controlv1alpha1.AnnotationBinding] != e.name || works[1].Annotations[controlv1alpha1.AnnotationKinds] != "ConfigMap=configmaps" {
		t.Errorf("annotations: %v", works[1].Annotations)
	}

	e.edit("one", "2")
	expect(sites, cm("one", "2"), cm("two", "1"), ns)
	step("an edit", map[string]int{"its1 patch manifestworks": 3})

	two.createOnly = true
	e.rebind(sites, namespace, one, two)
	testenv.Eventually(t, patience, func() (bool, string) {
		configs := e.works(sites[2])[1].Spec.ManifestConfigs
		return len(configs) == 2 && configs[0].ResourceIdentifier.Name == "two", fmt.Sprint(configs)
	})
	step("createOnly", map[string]int{"its1 patch manifestworks": 3})

	e.delete(configMaps, e.name, "two")
	e.rebind(sites, namespace, one)
	expect(sites, cm("one", "2"), ns)
	step("an object goes", map[string]int{"its1 patch manifestworks": 3})

	e.rebind(sites[:2], namespace, one)
	expect(sites[2:])
	expect(sites[:2], cm("one", "2"), ns)
	step("a destination goes: its works are withdrawn first", map[string]int{"its1 patch manifestworks": 2, "its1 delete manifestworks": 2})

	// A status that comes back into the WDS is no change.
	e.patch(configMaps, e.name, "one", `{"metadata":{"labels":{"managed-by.kubestellar.io/singletonstatus":"true"}}}`)
	testenv.Never(t, 300*time.Millisecond, func() string { return cmp.Diff(map[string]int{}, its()) })

	e.delete(bindings, "", e.name)
	expect(sites)
	testenv.Eventually(t, patience, func() (bool, string) { b := e.binding(); return b == nil, fmt.Sprint(statusOf(b)) })
	if diff := cmp.Diff(map[string]int{"its1 patch manifestworks": 4, "its1 delete manifestworks": 4}, its()); diff != "" {
		t.Errorf("the Binding goes: requests (-want +got):\n%s", diff)
	}
}

// TestRestartWritesNothing restarts the controller, with kinds that API servers and the transport
// change on their way.
func TestRestartWritesNothing(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	e.create(services, e.name, "web", map[string]any{"spec": map[string]any{
		"type": "NodePort", "selector": map[string]any{"app": "web"}, "ports": []any{map[string]any{"port": int64(80)}},
	}})
	pod := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec": map[string]any{
			"restartPolicy": "Never",
			"containers":    []any{map[string]any{"name": "c", "image": "i", "args": []any{"<a> & \"b\" \u2028 é", "\\"}}},
		},
	}
	e.create(jobs, e.name, "once", map[string]any{"spec": map[string]any{"template": pod}})
	e.create(secrets, e.name, "key", map[string]any{"stringData": map[string]any{"password": "x"}})
	e.create(roles, "", e.name+":system:reader", map[string]any{"rules": []any{}})
	e.create(crds, "", "widgets."+e.name+".example.com", widgetCRD(e.name+".example.com"))
	widgets := namespaces.GroupResource().WithVersion("v1").GroupVersion().WithResource("widgets")
	widgets.Group = e.name + ".example.com"
	kinds["widgets"] = "Widget"
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := e.wds.Resource(widgets).Namespace(e.name).List(t.Context(), listAll)
		return err == nil, fmt.Sprint(err)
	})
	e.create(widgets, e.name, "odd", map[string]any{
		"spec": map[string]any{"float": 1.5, "whole": 2.0, "large": int64(9007199254740993), "exponent": 1e21, "empty": map[string]any{}, "none": nil, "list": []any{}},
	})
	e.bind(sites,
		entry{resource: namespaces, name: e.name}, entry{resource: services, namespace: e.name, name: "web"},
		entry{resource: jobs, namespace: e.name, name: "once"}, entry{resource: secrets, namespace: e.name, name: "key", createOnly: true},
		entry{resource: roles, name: e.name + ":system:reader"}, entry{resource: crds, name: "widgets." + e.name + ".example.com"},
		entry{resource: widgets, namespace: e.name, name: "odd"}, entry{resource: namespaces, name: "default"})
	e.applied()
	before := e.works(sites[0])
	if got := before[0].Spec.DeleteOption; got == nil || got.SelectivelyOrphan == nil || got.SelectivelyOrphan.OrphaningRules[0].Name != "default" {
		t.Errorf("deleteOption %+v, want namespace default orphaned", got)
	}
	writes := c.made()
	if writes["its1 post manifestworks"] != 6 || writes["its1 patch manifestworks"] != 0 {
		t.Errorf("placement: requests %v, want 6 works and nothing put right", writes)
	}
	c.stop()

	c = e.start(roomy)
	quiet(t, c)
	e.patch(secrets, e.name, "key", `{"stringData":{"password":"y"}}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		made := c.made()
		return made["its1 patch manifestworks"] == 2, fmt.Sprint(made)
	})
	if got := e.works(sites[0]); got[1].UID != before[1].UID {
		t.Error("the work was replaced")
	}
}

// TestEditsOfOneObjectInARow loses none and needs no more than one write for each.
func TestEditsOfOneObjectInARow(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	e.bind(sites, e.configMap("one", "0"))
	e.applied()
	c.reset()
	start := time.Now()
	const edits = 40
	for i := range edits {
		e.edit("one", fmt.Sprint(i+1))
	}
	e.expectContents(sites[0], fmt.Sprintf("ConfigMap %s/one: %d", e.name, edits))
	made := c.made()
	if n := made["its1 patch manifestworks"]; n > edits {
		t.Errorf("%d edits cost %d writes", edits, n)
	}
	if most := 2 + int(time.Since(start)/time.Second); made["wds1 patch bindings"] > most {
		t.Errorf("%d edits cost %d writes of the status in %s, want %d at most", edits, made["wds1 patch bindings"], time.Since(start), most)
	}
}

// TestEditWithoutAGeneration: the generation of a PriorityClass is always 1.
func TestEditWithoutAGeneration(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	classes := schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
	e.create(classes, "", e.name, map[string]any{"value": int64(7), "description": "first"})
	e.bind(sites, entry{resource: classes, name: e.name})
	arrives := func(want string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			works := e.works(sites[0])
			if len(works) == 0 || len(works[0].Spec.Workload.Manifests) == 0 {
				return false, "nothing was delivered"
			}
			text := string(works[0].Spec.Workload.Manifests[0].Raw)
			return strings.Contains(text, want), text
		})
	}
	arrives(`"description":"first"`)
	if edited := e.patch(classes, "", e.name, `{"description":"second"}`); edited.GetGeneration() != 1 {
		t.Fatalf("the generation is %d: this test needs another kind", edited.GetGeneration())
	}
	arrives(`"description":"second"`)
}
