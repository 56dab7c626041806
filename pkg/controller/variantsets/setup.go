package variantsets

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// SetupConfig is what Setup needs.
type SetupConfig struct {
	// WDS leads to the WDS; WDSName is what metrics call it.
	WDS     *rest.Config
	WDSName string
	// Watch holds what is in the WDS. Its owner runs it.
	Watch *packagewatch.Informers
	// Clusters are those of the ITSes; nil if there are none. Its owner runs it.
	Clusters *inventory.Reader
	// TargetKinds are the kinds without namespaces, besides ManagedClusters, from which objectSelectors may select.
	TargetKinds []schema.GroupKind
	// Reached is that of Config.
	Reached func(point string)
}

// Running is a Controller with what it stands on.
type Running struct {
	controller *Controller
	kinds      *Kinds
}

// Setup builds a Controller on a WDS. It talks to nobody yet, and must be called before Watch and Clusters run. One replica of it may run at
// a time: it goes under a lease.
func Setup(s SetupConfig) (*Running, error) {
	kinds, err := NewKinds(s.WDS, s.Clusters, s.TargetKinds)
	if err != nil {
		return nil, err
	}
	writer, err := write.New(s.WDS, s.WDSName, "starling-"+Name)
	if err != nil {
		return nil, err
	}
	controller, err := New(Config{Watch: s.Watch, Objects: kinds, Writer: writer, Clock: clock.RealClock{}, Reached: s.Reached})
	if err != nil {
		return nil, err
	}
	kinds.SetListener(controller)
	return &Running{controller, kinds}, nil
}

// Run works until the context ends, and returns when all has ended.
func (r *Running) Run(ctx context.Context, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.kinds.Run(ctx) })
	group.Go(func() error { return r.controller.Run(ctx, workers) })
	return group.Wait()
}

// Ready tells what was not read yet, nil if nothing. That an ITS or a kind cannot be read is said by the sets that select from it.
func (r *Running) Ready() error {
	return r.controller.Ready()
}
