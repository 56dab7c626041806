package variants

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/content"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// SetupConfig is what Setup needs.
type SetupConfig struct {
	// WDS leads to the WDS; WDSName is what metrics call it.
	WDS     *rest.Config
	WDSName string
	// Watch is that of Config.
	Watch *packagewatch.Informers
	// Bindings are those of Config.
	Bindings *packagewatch.Bindings
	// InjectedKinds are kinds without namespaces whose objects may be injected.
	InjectedKinds []schema.GroupKind
	// Reached is that of Config.
	Reached func(point string)
}

// Running is a Controller with what it stands on.
type Running struct {
	controller *Controller
	kinds      *Kinds
	record     func(context.Context) error
}

// contentCache is how many bytes of files are kept in memory: one upstream is merged into many packages, and each is read after it was
// written.
const contentCache = 64 << 20

// Setup builds a Controller on a WDS. It talks to nobody yet, and must be called before Watch runs. One replica of it may run at a time: it
// goes under a lease.
func Setup(s SetupConfig) (*Running, error) {
	kinds, err := NewKinds(s.WDS, s.InjectedKinds, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	chunks, err := content.New(s.WDS, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	writer, err := write.New(s.WDS, s.WDSName, "starling-"+Name)
	if err != nil {
		return nil, err
	}
	recorder, record, err := client.NewRecorder(s.WDS, "starling-binding-controller", configv1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	controller, err := New(Config{
		Watch: s.Watch, Bindings: s.Bindings, Objects: kinds, Files: content.NewCache(chunks, contentCache), Writer: writer, Events: recorder,
		Clock: clock.RealClock{}, Reached: s.Reached,
	})
	if err != nil {
		return nil, err
	}
	kinds.SetListener(controller)
	return &Running{controller, kinds, record}, nil
}

// Run works until the context ends, and returns when all has ended.
func (r *Running) Run(ctx context.Context, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.record(ctx) })
	group.Go(func() error { return r.kinds.Run(ctx) })
	group.Go(func() error { return r.controller.Run(ctx, workers) })
	return group.Wait()
}

// Ready tells what was not read yet, nil if nothing.
func (r *Running) Ready() error { return r.controller.Ready() }
