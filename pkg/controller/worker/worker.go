// Package worker runs the loop of every controller: a rate-limiting queue of keys, and workers that
// sync them.
//
// A controller makes one Queue for each type of key. Its event handlers add keys, its Run calls
// Queue.Run, and its sync function decides by its result what becomes of a key:
//
//   - A Result without an error resets the back-off. The key is synced again after Result.After, or
//     with the next event.
//   - A stale error (see ErrStale and Config.Quiet) says that a cache is behind. The key is retried
//     with back-off. Only -v=4 logs it.
//   - A TerminalError is logged. The key is not retried before the next event, or before
//     Result.After.
//   - Any other error, and a panic, is logged. The key is retried with back-off.
//   - After the end of the context, nothing is logged or retried.
package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/logging"
)

const (
	defaultMinBackOff = 5 * time.Millisecond
	defaultMaxBackOff = time.Minute
)

// ErrStale is an error, or is wrapped by one, that is caused by a cache that is behind. An event or
// the next attempt heals it. Conflicts and AlreadyExists errors of an API server are stale without
// it.
var ErrStale = errors.New("the cache is behind")

// TerminalError is an error that a retry cannot heal: something else must change first. It wraps
// the cause.
type TerminalError struct{ Err error }

// Error implements error.
func (e *TerminalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TerminalError) Unwrap() error { return e.Err }

// Result says when to sync a key again without an event.
type Result struct {
	// After is how long to wait before the next sync; 0 or less waits for the next event.
	After time.Duration
	// KeepBackOff says that the sync was postponed, not made: errors that follow continue the
	// back-off of earlier ones.
	KeepBackOff bool
}

// Config is what a Queue is made of. Only Name is required.
type Config struct {
	// Name of the controller, in its log lines and in the metrics of the queue.
	Name string
	// Clock is the clock of the queue; nil is the real one.
	Clock clock.WithTicker
	// MinBackOff is the delay after the first error of a key; each further error doubles it, up to
	// MaxBackOff. The defaults are 5 ms and 1 minute.
	MinBackOff, MaxBackOff time.Duration
	// Quiet reports whether an error is stale although it does not wrap ErrStale; nil is none.
	// apierrors.IsNotFound is one.
	Quiet func(error) bool
}

// Queue is a queue of keys with the workers that sync them. Its workers call Get, Done and Forget:
// others only add keys. A key is never synced by two workers at once.
type Queue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]

	config Config
	sync   func(context.Context, K) (Result, error)
	synced Syncs
}

// New returns a Queue that only collects keys until Run. The context that sync receives has a
// logger with the controller and the key.
func New[K comparable](config Config, sync func(context.Context, K) (Result, error)) *Queue[K] {
	return newQueue(config, sync, workqueue.DefaultQueue[K]())
}

// newQueue returns a Queue whose keys are synced in that order.
func newQueue[K comparable](config Config, sync func(context.Context, K) (Result, error), order workqueue.Queue[K]) *Queue[K] {
	if config.MinBackOff == 0 {
		config.MinBackOff = defaultMinBackOff
	}
	if config.MaxBackOff == 0 {
		config.MaxBackOff = defaultMaxBackOff
	}
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: config.Name, Clock: config.Clock, Queue: order})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: config.Name, Clock: config.Clock, Queue: ordered})
	return &Queue[K]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](config.MinBackOff, config.MaxBackOff),
			workqueue.TypedRateLimitingQueueConfig[K]{Name: config.Name, Clock: config.Clock, DelayingQueue: delayed}),
		config: config,
		sync:   sync,
	}
}

// WaitFor adds a cache that must have synced before the first key is. The name says what it holds,
// for Ready. Call it before Run.
func (q *Queue[K]) WaitFor(name string, hasSynced cache.InformerSynced) {
	q.synced = append(q.synced, Synced{Name: name, HasSynced: hasSynced})
}

// Ready returns an error that names the caches that have not synced, nil if all have.
func (q *Queue[K]) Ready() error { return q.synced.Ready() }

// Run waits for the caches and then syncs keys until the context ends. It returns when all its
// workers have ended. The queue is shut down then: a Queue runs once.
func (q *Queue[K]) Run(ctx context.Context, workers int) {
	logger := klog.FromContext(ctx).WithValues(logging.Controller, q.config.Name)
	ctx = klog.NewContext(ctx, logger)
	var running sync.WaitGroup
	defer running.Wait()
	defer q.ShutDown()
	if !q.synced.Wait(ctx) {
		return
	}
	logger.Info("Starting workers", "workers", workers)
	defer logger.Info("Stopped")
	for range workers {
		running.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	<-ctx.Done()
}

// next syncs one key. It returns false if there will be no more.
func (q *Queue[K]) next(ctx context.Context) bool {
	key, shutdown := q.Get()
	if shutdown {
		return false
	}
	defer q.Done(key)
	if ctx.Err() != nil {
		return false // the queue hands out what it holds, even when it is shut down
	}
	logger := klog.FromContext(ctx).WithValues(logging.Key, key)
	result, err := q.recovered(klog.NewContext(ctx, logger), key)
	var terminal *TerminalError
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
	case errors.As(err, &terminal):
		logger.Error(err, "Cannot sync; will not retry before the next change")
	case q.stale(err):
		logger.V(4).Info("Cannot sync yet; will retry", logging.Reason, err.Error())
		q.AddRateLimited(key)
		return true
	default:
		logger.Error(err, "Cannot sync; will retry")
		q.AddRateLimited(key)
		return true
	}
	if !result.KeepBackOff {
		q.Forget(key)
	}
	if result.After > 0 {
		q.AddAfter(key, result.After)
	}
	return true
}

// recovered calls sync and makes a panic an error: one object must not end the process, which
// serves all others.
func (q *Queue[K]) recovered(ctx context.Context, key K) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			for _, handle := range utilruntime.PanicHandlers {
				handle(ctx, r)
			}
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return q.sync(ctx, key)
}

func (q *Queue[K]) stale(err error) bool {
	return errors.Is(err, ErrStale) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		q.config.Quiet != nil && q.config.Quiet(err)
}

// Synced is a cache that a controller needs.
type Synced struct {
	// Name says what the cache holds.
	Name string
	// HasSynced reports whether the cache, or a handler of it, has all that existed when it
	// started. It must not block.
	HasSynced cache.InformerSynced
}

// Syncs are the caches that a controller needs.
type Syncs []Synced

// Wait blocks until all caches have synced. It returns false if the context ends before.
func (s Syncs) Wait(ctx context.Context) bool {
	funcs := make([]cache.InformerSynced, 0, len(s))
	for _, synced := range s {
		funcs = append(funcs, synced.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), funcs...)
}

// Ready returns an error that names the caches that have not synced, nil if all have.
func (s Syncs) Ready() error {
	var missing []string
	for _, synced := range s {
		if !synced.HasSynced() {
			missing = append(missing, synced.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("not synced yet: %s", strings.Join(missing, ", "))
}
