package delivery

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

var (
	now      = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	settings = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	password = objref.Ref{Resource: "secrets", Namespace: "web", Name: "password"}
	nginx    = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	web      = objref.Ref{Resource: "namespaces", Name: "web"}
)

// names is a queue that only collects.
type names map[string]bool

func (n names) Add(name string) { n[name] = true }

// fixture is a Controller of one ITS that does not run, and an Index that tests fill.
type fixture struct {
	*Controller
	index    *placement.Index
	d        *deliverer
	statuses names
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{index: placement.NewIndex(cache.NewIndexer(cache.MetaNamespaceKeyFunc, placement.Indexers())), statuses: names{}}
	f.Controller = New(Config{
		Index: f.index, Bindings: names{}, Statuses: f.statuses, ITSes: []plugin.ITS{{Name: "its"}},
		Limits: packing.Limits{Count: 1, Bytes: 100}, Concurrency: 1, Clock: clock.RealClock{},
	})
	f.d = f.deliverers[0]
	t.Cleanup(func() {
		f.d.its.queue.ShutDown()
		f.removals.ShutDown()
		f.orphans.ShutDown()
	})
	return f
}

// exists adds a Binding whose UID is its name, and returns the source of its content: a package, or
// the objects of the WDS.
func (f *fixture) exists(name, ofPackage string) (source string) {
	b := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if ofPackage != "" {
		b.Spec.Workload.Packages = []controlv1alpha1.PackageClause{{Namespace: "default", Repository: "edge", Package: ofPackage}}
	}
	f.index.NoteBinding(nil, b)
	return placement.SourceOf(b)
}

// list makes a Binding list objects.
func (f *fixture) list(name string, refs ...objref.Ref) {
	f.index.List(name, slices.Values(refs))
}

// publish publishes a Placement as that of a Binding whose UID is its name.
func (f *fixture) publish(name, ofPackage string, p placement.Placement) *placement.Placement {
	p.Name, p.UID, p.Source = name, types.UID(name), f.exists(name, ofPackage)
	f.index.Publish(name, &p)
	return &p
}

// enqueued returns the deliveries that are enqueued, and empties the queue.
func (f *fixture) enqueued() []string {
	return drain(f.d.its.queue, func(k Key) string { return k.Binding + " at " + k.Mailbox })
}

// drain returns the keys in a queue, sorted, and empties it.
func drain[T comparable](queue workqueue.TypedInterface[T], text func(T) string) []string {
	var got []string
	for queue.Len() > 0 {
		key, _ := queue.Get()
		got = append(got, text(key))
		queue.Done(key)
	}
	slices.Sort(got)
	return got
}

// at returns destinations.
func at(clusters ...string) map[string]struct{} {
	destinations := map[string]struct{}{}
	for _, cluster := range clusters {
		destinations[cluster] = struct{}{}
	}
	return destinations
}
