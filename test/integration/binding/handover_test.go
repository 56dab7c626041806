package binding

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
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

// passes waits until the Binding of that name, and no other, lists the object; before, some Binding must list it all the time.
func (l *listings) passes(t *testing.T, to string) {
	t.Helper()
	deadline := time.NewTimer(patience)
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

// TestHandOver lets an object pass between policies, by its label, by that of its cluster and because one policy replaces another, while the
// one that gains it has just been written and waits: it is listed all the time.
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
	remove := func(policy string) {
		if err := e.wds.Resource(policies).Delete(t.Context(), policy, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
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
			remove(name)
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
		remove(first)
		l.passes(t, second)
	})
}
