package transport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestStandby: a controller that stands by reads what is bound and writes nothing, whatever
// happens. When it leads, it writes what changed since the last leader wrote, and reads only that.
func TestStandby(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	first := e.start(roomy)
	entries := []entry{{resource: namespaces, name: e.name}}
	contents := map[string]string{}
	for i := range 50 {
		name := fmt.Sprintf("a-%03d", i)
		entries = append(entries, e.configMap(name, "1"))
		contents[name] = "1"
	}
	expect := func() {
		t.Helper()
		want := []string{"Namespace " + e.name}
		for name, content := range contents {
			want = append(want, "ConfigMap "+e.name+"/"+name+": "+content)
		}
		slices.Sort(want)
		for _, site := range sites {
			e.expectContents(site, want...)
		}
	}
	e.bind(sites, entries...)
	expect()
	e.applied()

	leading := make(chan struct{})
	second, _ := e.startWhen(leading, roomy)
	read := func() int { return second.made()["wds1 get configmaps"] }
	testenv.Eventually(t, patience, func() (bool, string) { return read() >= 1, fmt.Sprint(second.made()) })
	edit := func(name, content string) {
		e.edit(name, content)
		contents[name] = content
	}
	edit("a-001", "2")
	expect()
	e.expectTransform(e.transforming("content", configMaps, "$.data.nothing"), controlv1alpha1.CustomTransformStatus{})
	added := e.create(bindings, "", e.name+"-new", map[string]any{"spec": spec(sites[:1], e.configMap("b", "1"))})
	contents["b"] = "1"
	testenv.Eventually(t, patience, func() (bool, string) {
		got := e.contents(sites[0])
		return slices.Contains(got, "ConfigMap "+e.name+"/b: 1"), fmt.Sprint(got)
	})
	e.delete(bindings, "", added.GetName())
	delete(contents, "b")
	expect()
	quiet(t, second)

	first.stop()
	edit("a-002", "2")
	edit("a-003", "2")
	idle(t, second)
	second.reset()
	close(leading)
	expect()
	e.applied()
	idle(t, second)
	made := second.made()
	if got := made["wds1 get configmaps"]; got > 2 {
		t.Errorf("%d reads of ConfigMaps, want those that differ from what is delivered: 2", got)
	}
	for key, n := range made {
		if strings.Contains(key, " patch manifestworks") && n != 2*len(sites) && n != len(sites) {
			t.Errorf("%d x %s, want one for each cluster and ManifestWork that changes", n, key)
		} else if strings.Contains(key, " post ") || strings.Contains(key, " delete ") {
			t.Errorf("%d x %s", n, key)
		}
	}
}

// TestStandbyWritesNothing: a controller that becomes the leader when nothing has changed writes
// nothing, and reads no content.
func TestStandbyWritesNothing(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	first := e.start(roomy)
	e.bind(sites, entry{resource: namespaces, name: e.name}, e.configMap("a", "1"), e.configMap("b", "1"))
	e.applied()
	e.settled()
	leading := make(chan struct{})
	second, _ := e.startWhen(leading, roomy)
	testenv.Eventually(t, patience, func() (bool, string) {
		made := second.made()
		return made["wds1 get configmaps"] >= 2, fmt.Sprint(made)
	})
	first.stop()
	quiet(t, second)
	second.reset()
	close(leading)
	quiet(t, second)
	if n := second.made()["wds1 get configmaps"]; n > 0 {
		t.Errorf("%d reads of ConfigMaps after it became the leader", n)
	}
}
