package transport

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/transport/ocm"
)

// TestRandomRestarts runs a Binding through random lives, with works so small that objects move,
// clusters that do not answer, and a controller that is stopped at any moment. Whatever happens, an
// object that is placed never leaves its mailbox, not even for a moment; and in the end each
// mailbox holds what it should.
func TestRandomRestarts(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			e := newEnvironment(t)
			random := rand.New(rand.NewPCG(seed, 3))
			l := &life{
				environment: e, random: random, content: map[string]string{}, objects: map[string]bool{}, sites: map[string]bool{}, offline: map[string]bool{},
				changed: make(chan struct{}, 1),
			}
			for range 2 {
				l.clusters = append(l.clusters, l.newCluster())
			}
			for range 8 {
				l.names = append(l.names, l.newObject())
			}
			l.objects["0"], l.sites[l.clusters[0]], l.sites[l.clusters[1]] = true, true, true
			l.watch()
			e.bind(l.listed(l.sites), l.entries()...)
			l.want()
			for range 150 {
				l.step()
				l.pass()
			}
			l.finish()
			if l.seen < 50 {
				t.Errorf("%d changes of works were seen: too little happened to prove anything", l.seen)
			}
		})
	}
}

// life is what the test knows of what should be.
type life struct {
	*environment
	random *rand.Rand
	// clusters and names are those that the Binding may list. What it has listed and does not list
	// any more never comes back: a late removal would look like a wrong one.
	clusters, names []string
	ever            []string          // all clusters
	content         map[string]string // of all objects
	objects         map[string]bool   // those that the Binding lists
	sites           map[string]bool   // the destinations
	offline         map[string]bool   // clusters that do not answer
	running         *running

	mu sync.Mutex
	// wanted are the objects, as "cluster name", that must not leave once they are there; held are
	// those that are.
	wanted, held map[string]bool
	works        map[string]map[string]string // the content of the objects that each work holds
	lost         []string
	seen         int           // changes of works
	changed      chan struct{} // something was seen
}

func (l *life) text() string {
	return strings.Repeat(fmt.Sprint(l.random.IntN(10)), 1+l.random.IntN(700))
}

func (l *life) newObject() string {
	name := fmt.Sprint(len(l.content))
	l.content[name] = l.text()
	l.configMap(name, l.content[name])
	return name
}

func (l *life) newCluster() string {
	name := fmt.Sprintf("%s-%d", l.name, len(l.ever)+1)
	l.cluster(name)
	l.ever = append(l.ever, name)
	return name
}

func (l *life) listed(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func (l *life) entries() []entry {
	var entries []entry
	for _, name := range l.listed(l.objects) {
		entries = append(entries, entry{resource: configMaps, namespace: l.name, name: name})
	}
	return entries
}

func (l *life) step() {
	switch l.random.IntN(12) {
	case 0:
		if l.running != nil {
			l.running.stop()
			l.running = nil
		}
	case 1, 2, 3:
		l.run()
	case 4, 5, 6, 7:
		name := l.names[l.random.IntN(len(l.names))]
		l.content[name] = l.text()
		l.edit(name, l.content[name])
	case 8, 9:
		i := l.random.IntN(len(l.names))
		if name := l.names[i]; !l.objects[name] {
			l.toggle(l.objects, name)
		} else if l.random.IntN(2) == 0 {
			l.toggle(l.objects, name)
			l.names[i] = l.newObject()
		}
	case 10:
		cluster := l.clusters[l.random.IntN(2)]
		l.offline[cluster] = !l.offline[cluster]
		l.agent.set(func(a *agent) { a.offline[cluster] = l.offline[cluster] })
	case 11:
		i := l.random.IntN(len(l.clusters))
		if cluster := l.clusters[i]; !l.sites[cluster] {
			l.toggle(l.sites, cluster)
		} else if l.random.IntN(4) == 0 {
			l.toggle(l.sites, cluster)
			l.clusters[i] = l.newCluster()
		}
	}
}

// pass lets the controller get somewhere: nowhere, up to the next change of a work if there is one,
// or to where all is done.
func (l *life) pass() {
	if l.running == nil {
		return
	}
	switch l.random.IntN(4) {
	case 0:
	case 1, 2:
		if l.done() {
			return // no change is to come
		}
		select {
		case <-l.changed:
		case <-time.After(100 * time.Millisecond): // nothing can be done now
		}
	default:
		l.converges(func(cluster string) bool { return !l.offline[cluster] })
	}
}

func (l *life) run() {
	if l.running == nil {
		l.running = l.start(packing.Limits{Count: 3, Bytes: 1600})
	}
}

// toggle adds an object or a destination to the Binding, or removes it.
func (l *life) toggle(set map[string]bool, name string) {
	if set[name] {
		delete(set, name)
	} else {
		set[name] = true
	}
	l.unwant()
	l.rebind(l.listed(l.sites), l.entries()...)
	l.want()
}

// pairs are the objects that the Binding places, as "cluster name".
func (l *life) pairs() map[string]bool {
	pairs := map[string]bool{}
	for site := range l.sites {
		for object := range l.objects {
			pairs[site+" "+object] = true
		}
	}
	return pairs
}

// unwant releases the objects that the Binding will not place any more, before it is changed.
func (l *life) unwant() {
	pairs := l.pairs()
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := func(pair string, _ bool) bool { return !pairs[pair] }
	maps.DeleteFunc(l.wanted, gone)
	maps.DeleteFunc(l.held, gone)
}

func (l *life) want() {
	pairs := l.pairs()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = pairs
}

// watch sees every change of the mailboxes, in order.
func (l *life) watch() {
	l.wanted, l.held, l.works = map[string]bool{}, map[string]bool{}, map[string]map[string]string{}
	list, err := l.its.Resource(ocm.ManifestWorks).List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	watcher, err := l.its.Resource(ocm.ManifestWorks).Watch(l.t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok && strings.HasPrefix(o.GetNamespace(), l.name+"-") {
				l.see(o, event.Type == watch.Deleted || o.GetDeletionTimestamp() != nil)
			}
		}
	}()
	l.t.Cleanup(func() {
		watcher.Stop()
		<-done
	})
}

func (l *life) see(o *unstructured.Unstructured, gone bool) {
	var work workv1.ManifestWork
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &work); err != nil {
		l.t.Error(err)
		return
	}
	objects := map[string]string{}
	if !gone {
		for _, line := range describe(l.t, &work) {
			name, content, _ := strings.Cut(line[strings.LastIndex(strings.SplitN(line, ":", 2)[0], "/")+1:], ": ")
			objects[name] = content
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.works[work.Namespace+" "+work.Name] = objects
	l.seen++
	select {
	case l.changed <- struct{}{}:
	default:
	}
	there := map[string]bool{}
	for at, objects := range l.works {
		cluster, _, _ := strings.Cut(at, " ")
		for name := range objects {
			there[cluster+" "+name] = true
		}
	}
	for pair := range l.held {
		if !there[pair] {
			l.lost = append(l.lost, pair)
		}
	}
	clear(l.held)
	for pair := range l.wanted {
		if there[pair] {
			l.held[pair] = true
		}
	}
}

// done reports whether each mailbox was seen to hold what it should, each object once.
func (l *life) done() bool {
	want := map[string]string{}
	for pair := range l.pairs() {
		_, object, _ := strings.Cut(pair, " ")
		want[pair] = l.content[object]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found, count := map[string]string{}, 0
	for at, objects := range l.works {
		cluster, _, _ := strings.Cut(at, " ")
		for name, content := range objects {
			found[cluster+" "+name] = content
			count++
		}
	}
	return count == len(found) && maps.Equal(want, found)
}

func (l *life) finish() {
	for _, cluster := range l.ever {
		l.agent.set(func(a *agent) { a.offline[cluster] = false })
	}
	l.run()
	l.converges(func(string) bool { return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lost) > 0 {
		l.t.Errorf("placed objects that left their mailbox: %v", l.lost)
	}
}

// converges waits until mailboxes hold what they should. Nothing leaves a work of a cluster that
// does not answer.
func (l *life) converges(which func(cluster string) bool) {
	for _, cluster := range l.ever {
		if !which(cluster) {
			continue
		}
		var want []string
		for _, name := range l.listed(l.objects) {
			if l.sites[cluster] {
				want = append(want, "ConfigMap "+l.name+"/"+name+": "+l.content[name])
			}
		}
		l.expectContents(cluster, want...)
	}
}
