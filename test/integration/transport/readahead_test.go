package transport

import (
	"fmt"
	"slices"
	"testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// TestManyObjectsAreReadTogether: many objects of one resource are read with lists, at first, after
// a restart, and when a CustomTransform changes. Some among many that nobody lists are read one by
// one. An edit is a read of one object.
func TestManyObjectsAreReadTogether(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	entries := []entry{{resource: namespaces, name: e.name}}
	contents := map[string]string{}
	add := func(name string) {
		entries = append(entries, e.configMap(name, "1"))
		contents[name] = "1"
	}
	edit := func(name string) {
		e.edit(name, "2")
		contents[name] = "2"
	}
	for i := range 250 {
		add(fmt.Sprintf("a-%03d", i))
	}
	// expect checks what the mailbox has, and how many requests read ConfigMaps since the last
	// time, with the lists of the watch.
	expect := func(what string, least, most int) {
		t.Helper()
		var want []string
		for name, content := range contents {
			want = append(want, "ConfigMap "+e.name+"/"+name+": "+content)
		}
		slices.Sort(want)
		e.expectContents(sites[0], append(want, "Namespace "+e.name)...)
		e.applied()
		if made := c.made(); made["wds1 get configmaps"] < least || made["wds1 get configmaps"] > most {
			t.Errorf("%s: requests %v, want %d to %d that read ConfigMaps", what, made, least, most)
		}
		c.reset()
	}
	const pages = 2
	const ofWatch = 2 // its lists
	e.bind(sites, entries...)
	expect("placed", pages, pages+ofWatch)

	edit("a-007")
	edit("a-008")
	expect("two edits", 2, 4)

	c.stop()
	edit("a-009")
	c = e.start(roomy)
	idle(t, c)
	expect("restarted", pages, 2*pages+ofWatch) // once for all Bindings, and for this one if that was not done yet

	e.expectTransform(e.transforming("content", configMaps, "$.data.nothing"), controlv1alpha1.CustomTransformStatus{})
	idle(t, c)
	expect("a CustomTransform came", pages, pages)

	entries = entries[:1]
	clear(contents)
	for i := range 25 {
		add(fmt.Sprintf("z-%03d", i))
	}
	e.rebind(sites, entries...)
	expect("few among many", 25, 25+2*pages) // and what left is compared with the watch
}
