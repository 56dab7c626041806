package feedback

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// fleet is a Reporter with a delivery.Controller that runs, and the Handler of its ITS, which tests
// call as a Plugin does.
type fleet struct {
	plugin.Handler

	reporter *Reporter
	index    *placement.Index
	// answer is how the ITS answers writes.
	answer func(*plan.Action) (plugin.Receipt, error)
	// stop ends the Controller, and waits for that.
	stop func()
}

// fleetPlugin is a Plugin that reports nothing by itself.
type fleetPlugin struct {
	*fleet
	started chan struct{}
}

func (p fleetPlugin) Run(ctx context.Context, handler plugin.Handler) error {
	p.Handler = handler
	close(p.started)
	<-ctx.Done()
	return nil
}

func (p fleetPlugin) Do(_ context.Context, _ plugin.Origin, action *plan.Action) (plugin.Receipt, error) {
	return p.answer(action)
}

func (fleetPlugin) Restored() string { return "" }

func (fleetPlugin) Works(context.Context) (map[types.UID]int64, error) { return nil, nil }

func (fleetPlugin) Content(context.Context, *plan.Work, objref.Ref) (transform.Object, error) {
	return transform.Object{}, errors.ErrUnsupported
}

// nowhere is a queue that collects nothing.
type nowhere struct{}

func (nowhere) Add(string) {}

func newFleet(t testing.TB, answer func(*plan.Action) (plugin.Receipt, error)) *fleet {
	t.Helper()
	f := &fleet{index: placement.NewIndex(cache.NewIndexer(cache.MetaNamespaceKeyFunc, placement.Indexers())), answer: answer}
	its := fleetPlugin{f, make(chan struct{})}
	deliveries := delivery.New(delivery.Config{
		Index: f.index, Bindings: nowhere{}, Statuses: nowhere{}, Limits: limits, Concurrency: 1, Clock: clock.RealClock{},
		ITSes: []plugin.ITS{{Name: "its", Connect: func(context.Context) (plugin.Plugin, error) { return its, nil }}},
	})
	f.reporter = &Reporter{config: Config{Index: f.index, Deliveries: deliveries, Clock: clock.RealClock{}}, started: time.Now()}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	ended := make(chan error, 1)
	leads := make(chan struct{})
	close(leads)
	go func() { ended <- deliveries.Run(ctx, false, leads, leads) }()
	f.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	<-its.started
	return f
}

var limits = packing.Limits{Count: 1500, Bytes: 512000}

// objectsPerWork is the number of objects in a work.
const objectsPerWork = 16

func deployments(n int) []objref.Ref {
	refs := make([]objref.Ref, n)
	for i := range refs {
		refs[i] = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: fmt.Sprintf("app-%d", i)}
	}
	return refs
}

// place publishes the Placement of a Binding.
func (f *fleet) place(clusters []string, refs ...objref.Ref) *placement.Placement {
	p := &placement.Placement{
		Name: "binding", UID: "uid", Generation: 1, Destinations: map[string]struct{}{}, Objects: map[objref.Ref]plan.Object{},
	}
	objects := make([]plan.Object, len(refs))
	for i, ref := range refs {
		objects[i] = plan.Object{Object: transform.Object{Ref: ref, JSON: []byte("{}"), Hash: transform.Hash{1}}, Known: true}
		p.Objects[ref] = objects[i]
	}
	for _, cluster := range clusters {
		p.Destinations[cluster] = struct{}{}
	}
	p.Desired = plan.NewDesired(objects, limits)
	f.index.List(p.Name, slices.Values(refs))
	before := f.index.Publish(p.Name, p).Before
	f.reporter.config.Deliveries.OnPlacement(p.Name, before, p)
	return p
}

// worksAt returns works with all objects, applied.
func worksAt(cluster string, refs []objref.Ref) (works []*plan.Work) {
	for n := 0; n*objectsPerWork < len(refs); n++ {
		work := &plan.Work{
			Mailbox: cluster, Name: fmt.Sprintf("uid-%d-%d", packing.WaveSecond, n), UID: types.UID(fmt.Sprint(cluster, n)),
			BindingUID: "uid", Binding: "binding", Wave: packing.WaveSecond, Generation: 1, Begun: true,
		}
		for _, ref := range refs[n*objectsPerWork : min(len(refs), (n+1)*objectsPerWork)] {
			work.Items = append(work.Items, plan.Item{Ref: ref, Hash: transform.Hash{1}, Size: 10, State: plan.Applied, Reported: true})
		}
		works = append(works, work)
	}
	return works
}

// BenchmarkReport: one cluster reports another health of one object; the status of the Binding is
// computed.
func BenchmarkReport(b *testing.B) {
	for _, size := range []struct{ objects, clusters int }{{100, 1}, {100, 10}, {100, 100}, {100, 1000}, {10, 10000}} {
		b.Run(fmt.Sprintf("objects=%d/clusters=%d", size.objects, size.clusters), func(b *testing.B) {
			f := newFleet(b, func(*plan.Action) (plugin.Receipt, error) { return plugin.Receipt{}, plugin.ErrStale })
			defer f.stop()
			refs := deployments(size.objects)
			clusters := make([]string, size.clusters)
			for i := range clusters {
				clusters[i] = fmt.Sprintf("cluster-%d", i)
				f.OnDestination(clusters[i], &plugin.Destination{Accepted: true, Candidate: inventory.Candidate{}})
				for _, work := range worksAt(clusters[i], refs) {
					f.OnWork(nil, work)
				}
				for _, ref := range refs {
					f.OnReport(clusters[i], ref, &plugin.Report{})
				}
			}
			p := f.place(clusters, refs...)
			f.OnReports(plugin.ReportsRead)
			f.OnSynced()
			h := &history{}
			situated := func() verdict {
				progress := f.reporter.config.Deliveries.Progress(p)
				status, v := decideStatus(&h.written, f.reporter.situationOf(p, &progress, h, time.Now()))
				h.written = status
				return v
			}
			for v := situated(); v.healthy.Reason != controlv1alpha1.ReasonHealthy; v = situated() {
				runtime.Gosched() // the Controller compares all mailboxes
			}
			n := 0
			for b.Loop() {
				n++
				f.OnReport(clusters[0], refs[n%len(refs)], &plugin.Report{Verdict: health.Verdict{State: health.Progressing, Message: fmt.Sprint(n)}})
				if v := situated(); v.healthy.Reason != controlv1alpha1.ReasonProgressing {
					b.Fatal(v.healthy.Message)
				}
			}
		})
	}
}
