package binding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/test/testenv"
)

// listings follows which Bindings list a ConfigMap for a cluster, write by write.
type listings struct {
	object, cluster string
	bindings        map[string]bool
	version         string
	watch           watch.Interface
}

func (e *environment) listings(object, cluster string) *listings {
	e.t.Helper()
	list, err := e.wds.Resource(bindings).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	l := &listings{object: object, cluster: cluster, bindings: map[string]bool{}}
	for i := range list.Items {
		l.note(e.t, watch.Event{Type: watch.Added, Object: &list.Items[i]})
	}
	l.watch, err = e.wds.Resource(bindings).Watch(e.t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(l.watch.Stop)
	return l
}

func (l *listings) note(t *testing.T, event watch.Event) {
	t.Helper()
	obj, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("%s: %v", event.Type, event.Object)
	}
	b := &controlv1alpha1.Binding{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, b); err != nil {
		t.Fatal(err)
	}
	all := entries(b)
	if event.Type != watch.Deleted && b.DeletionTimestamp == nil && slices.Contains(all, "configmaps "+l.object) && slices.Contains(all, "-> "+l.cluster) {
		l.bindings[b.Name] = true
	} else {
		delete(l.bindings, b.Name)
	}
	l.version = b.ResourceVersion
}

// passes waits until the Binding of that name, and no other, lists the object; before, some Binding
// must list it all the time.
func (l *listings) passes(t *testing.T, to string) {
	t.Helper()
	deadline := time.NewTimer(3 * patience) // the race detector makes this process the slowest
	defer deadline.Stop()
	for len(l.bindings) != 1 || !l.bindings[to] {
		if len(l.bindings) == 0 {
			t.Fatalf("on the way to %s no Binding lists %s for %s at version %s", to, l.object, l.cluster, l.version)
		}
		select {
		case event := <-l.watch.ResultChan():
			l.note(t, event)
		case <-deadline.C:
			t.Fatalf("%s is not listed by %s alone, but by %v", l.object, to, l.bindings)
		}
	}
}

// TestHandOver lets an object pass between policies, by its label, by that of its cluster and
// because one policy replaces another, while the one that gains it has just been written and waits:
// it is listed all the time.
func TestHandOver(t *testing.T) {
	e := newEnvironment(t)
	edge := e.name + "-edge"
	e.cluster(edge, map[string]string{"test": e.name, "side": "a"})
	e.create(configMaps, object(e.name, "settings", map[string]string{"test": e.name, "to": "a"}))
	e.start()
	busy := 0
	// delay has a policy's Binding written, so that its next write has to wait.
	delay := func(policy, label string) {
		busy++
		name := fmt.Sprint("busy-", busy)
		e.create(configMaps, object(e.name, name, map[string]string{"busy": label}))
		testenv.Eventually(t, patience, func() (bool, string) {
			found := entries(e.getBinding(policy))
			return slices.Contains(found, "configmaps "+name), fmt.Sprint(found)
		})
	}
	pair := func(kind string, spec func(side string) string) map[string]string {
		names := map[string]string{}
		for _, side := range []string{"a", "b"} {
			names[side] = e.policy(kind+side, spec(side))
		}
		return names
	}
	rounds := func(names map[string]string, move func(side string)) {
		l := e.listings("settings", edge)
		for i := range 6 {
			side := []string{"b", "a"}[i%2]
			delay(names[side], names[side])
			move(side)
			l.passes(t, names[side])
		}
		for _, name := range names {
			e.delete(name)
			testenv.Eventually(t, patience, func() (bool, string) { return e.getBinding(name) == nil, "Binding " + name })
		}
	}

	t.Run("Label", func(t *testing.T) {
		names := pair("label-", func(side string) string {
			return fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"objectSelectors":[{"matchLabels":{"test":%[1]q,"to":%q}}]},
				{"resources":["configmaps"],"objectSelectors":[{"matchLabels":{"busy":"%[1]s-label-%[2]s"}}]}]}`, e.name, side)
		})
		e.eventuallyBound(names["a"], "configmaps settings", "-> "+edge)
		rounds(names, func(side string) {
			e.patch(configMaps, e.name, "settings", fmt.Sprintf(`{"metadata":{"labels":{"to":%q}}}`, side))
		})
	})
	t.Run("Cluster", func(t *testing.T) {
		names := pair("cluster-", func(side string) string {
			return fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q,"side":%q}}],"downsync":[{"objectSelectors":[{"matchLabels":{"test":%[1]q}}]},
				{"resources":["configmaps"],"objectSelectors":[{"matchLabels":{"busy":"%[1]s-cluster-%[2]s"}}]}]}`, e.name, side)
		})
		e.eventuallyBound(names["a"], "configmaps settings", "-> "+edge)
		rounds(names, func(side string) {
			e.patch(managed, "", edge, fmt.Sprintf(`{"metadata":{"labels":{"side":%q}}}`, side))
		})
	})
	t.Run("Replaced", func(t *testing.T) {
		spec := fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"objectSelectors":[{"matchLabels":{"test":%[1]q}}]}]}`, e.name)
		first := e.policy("first", spec)
		e.eventuallyBound(first, "configmaps settings", "-> "+edge)
		l := e.listings("settings", edge)
		second := e.policy("second", spec)
		e.delete(first)
		l.passes(t, second)
	})
}

// TestHandOverUnderLoad relabels objects from one policy to another in a stream that lasts longer
// than any write of a Binding waits. Whatever order the policies write in, each object is listed by
// one of them at every version.
func TestHandOverUnderLoad(t *testing.T) {
	const objects, perSecond = 600, 45
	e := newEnvironment(t)
	edge := e.name + "-edge"
	e.cluster(edge, map[string]string{"test": e.name})
	client := e.wds.Resource(configMaps).Namespace(e.name)
	inParallel(t, objects, func(i int) error {
		o := object(e.name, fmt.Sprintf("c%04d", i), map[string]string{"to": e.name + "-a"})
		o.SetAPIVersion("v1")
		o.SetKind("ConfigMap")
		_, err := client.Create(t.Context(), o, metav1.CreateOptions{})
		return err
	})
	e.start()
	names := map[string]string{}
	for _, side := range []string{"a", "b"} {
		names[side] = e.policy(side, fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],
			"downsync":[{"resources":["configmaps"],"objectSelectors":[{"matchLabels":{"to":"%[1]s-%[2]s"}}]}]}`, e.name, side))
	}
	listed := func(policy string) int {
		n := 0
		for i := 1; ; i++ {
			name := policy
			if i > 1 {
				name = corebinding.OverflowName(policy, i)
			}
			b := e.getBinding(name)
			if b == nil {
				return n
			}
			n += corebinding.CountObjects(&b.Spec)
		}
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		n := listed(names["a"])
		return n == objects && e.getBinding(names["b"]) != nil, fmt.Sprintf("%d objects are listed", n)
	})

	list, err := e.wds.Resource(bindings).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watching, err := e.wds.Resource(bindings).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	l := &coverage{listedBy: map[string]int{}, bindings: map[string]map[string]bool{}}
	for i := range list.Items {
		l.note(t, watch.Event{Type: watch.Added, Object: &list.Items[i]}, edge)
	}
	for i := range objects { // each event then says what changes
		if name := fmt.Sprintf("c%04d", i); l.listedBy[name] == 0 {
			t.Fatalf("no Binding lists %s at first", name)
		}
	}
	stream := time.NewTicker(time.Second / perSecond)
	defer stream.Stop()
	relabelled := make(chan error, 1)
	go func() {
		for i := range objects {
			<-stream.C
			patch := fmt.Sprintf(`{"metadata":{"labels":{"to":"%s-b"}}}`, e.name)
			if _, err := client.Patch(t.Context(), fmt.Sprintf("c%04d", i), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				relabelled <- err
				return
			}
		}
		relabelled <- nil
	}()
	deadline := time.NewTimer(3 * patience) // the race detector makes this process the slowest
	defer deadline.Stop()
	for done := false; !done || l.count(names["a"]) > 0 || l.count(names["b"]) < objects; {
		select {
		case err := <-relabelled:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		case event := <-watching.ResultChan():
			if lost := l.note(t, event, edge); len(lost) > 0 {
				t.Fatalf("at version %s no Binding lists %v", l.version, lost)
			}
		case <-deadline.C:
			t.Fatalf("%s lists %d objects, %s %d", names["a"], l.count(names["a"]), names["b"], l.count(names["b"]))
		}
	}
}

// coverage follows which ConfigMaps Bindings list for a cluster, write by write.
type coverage struct {
	listedBy map[string]int // ConfigMaps, and the number of Bindings that list them
	bindings map[string]map[string]bool
	version  string
}

// note returns the ConfigMaps that no Binding lists any more.
func (c *coverage) note(t *testing.T, event watch.Event, cluster string) (lost []string) {
	t.Helper()
	b, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("%s: %v", event.Type, event.Object)
	}
	c.version = b.GetResourceVersion()
	// As it is decoded: a conversion of some thousand objects at each event would be the most of
	// what this process does.
	each := func(field string, of func(map[string]any), path ...string) {
		list, _, err := unstructured.NestedFieldNoCopy(b.Object, append([]string{"spec"}, path...)...)
		if err != nil {
			t.Fatal(err)
		}
		items, _ := list.([]any)
		for _, item := range items {
			if entry, ok := item.(map[string]any); ok && entry[field] != nil {
				of(entry)
			}
		}
	}
	now, hasCluster := map[string]bool{}, false
	each("clusterId", func(d map[string]any) { hasCluster = hasCluster || d["clusterId"] == cluster }, "destinations")
	if event.Type != watch.Deleted && b.GetDeletionTimestamp() == nil && hasCluster {
		each("name", func(entry map[string]any) { now[fmt.Sprint(entry["name"])] = true }, "workload", "namespaceScope")
	}
	before := c.bindings[b.GetName()]
	for name := range now {
		if !before[name] {
			c.listedBy[name]++
		}
	}
	for name := range before {
		if now[name] {
			continue
		}
		c.listedBy[name]--
		if c.listedBy[name] == 0 {
			lost = append(lost, name)
		}
	}
	c.bindings[b.GetName()] = now
	return lost
}

// count returns how many ConfigMaps the Bindings of a policy list.
func (c *coverage) count(policy string) int {
	n := 0
	for name, objects := range c.bindings {
		if name == policy || strings.HasPrefix(name, policy+"--") {
			n += len(objects)
		}
	}
	return n
}

// inParallel calls a function for 0 to n-1, some at a time.
func inParallel(t *testing.T, n int, do func(int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}
