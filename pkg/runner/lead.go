package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
)

var errLeaseLost = errors.New("lost the Lease")

// candidate is a program that acts while it holds all its Leases.
type candidate struct {
	program Program
	leases  []string
	// held is how many of the Leases, from the first one, this process holds.
	held atomic.Int32
}

func newCandidate(p Program) *candidate {
	c := &candidate{program: p, leases: p.Leases}
	if len(c.leases) == 0 {
		c.leases = []string{p.Name}
	}
	return c
}

// ready returns nil if the program is ready, or if other replicas have all its Leases.
func (c *candidate) ready(leaderElect bool) error {
	held := int(c.held.Load())
	switch {
	case !leaderElect || held == len(c.leases):
		return c.program.Ready()
	case held == 0:
		return nil
	}
	return waitsError(c.leases[:held], c.leases[held])
}

// waitsError is why a process that holds some Leases is not ready.
func waitsError(held []string, missing string) error {
	return fmt.Errorf("waiting for Lease %s/%s, which another process holds, while this process holds %s; "+
		"let all processes run the same controllers, or no controller in two of them", Namespace, missing, strings.Join(held, ", "))
}

// lead acquires the Leases in their order, and runs the program until the context ends: from when
// all Leases are held, or when another process turns out to hold one, so that a program that need
// not stand by is not told to. It holds the Leases until the program has returned, not only until
// ctx ends: no other replica may act while this one still writes. When it loses a Lease, it stops
// the program and returns an error.
func (c *candidate) lead(ctx context.Context) error {
	client, err := coordinationv1client.NewForConfig(c.program.LeaseSpace)
	if err != nil {
		return fmt.Errorf("build client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("get the name of this host: %w", err)
	}
	// It must be unique: a process with the identity of the holder may continue to use its Lease.
	identity := host + "_" + string(uuid.NewUUID())
	return c.leadAs(ctx, client, identity)
}

// leadAs is lead with an identity, which no other process ever has.
func (c *candidate) leadAs(ctx context.Context, client coordinationv1client.LeasesGetter, identity string) error {
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	var electors sync.WaitGroup
	defer electors.Wait()
	defer release()
	var w work
	defer w.stop() //nolint:errcheck // before the Leases are released; where its error counts, it has ended
	leading := make(chan struct{})
	lost, others := make(chan string, len(c.leases)), make(chan struct{}, 1)
	var locks []*lock
	for _, name := range c.leases {
		locks = append(locks, newLock(leaseCtx, client, identity, name, func() {
			select {
			case others <- struct{}{}:
			default:
			}
		}, func() { lost <- name }, &electors))
	}
	for i, l := range locks {
		elected := make(chan struct{})
		elector, err := newElector(l, elected)
		if err != nil {
			return err
		}
		electors.Go(func() { l.hold(leaseCtx, elector) })
		for held := false; !held; {
			select {
			case <-ctx.Done():
				return w.stop()
			case <-w.ended:
				return w.stop()
			case name := <-lost:
				return cmp.Or(ignoreCanceled(w.stop()), fmt.Errorf("%w %s/%s", errLeaseLost, Namespace, name))
			case <-others:
				w.start(ctx, c.program.Run, leading)
			case <-elected:
				held = true
				c.held.Store(int32(i + 1))
			}
		}
	}
	close(leading)
	w.start(ctx, c.program.Run, leading)
	select {
	case <-w.ended: // also after the end of ctx
		return w.stop()
	case name := <-lost:
		return cmp.Or(ignoreCanceled(w.stop()), fmt.Errorf("%w %s/%s", errLeaseLost, Namespace, name))
	}
}

// work is a program that runs at some time.
type work struct {
	cancel context.CancelFunc
	// ended is closed when the program has ended with err. It is nil before the program is started.
	ended chan struct{}
	err   error
}

// start runs the program, unless it was started before.
func (w *work) start(ctx context.Context, run func(context.Context, <-chan struct{}) error, leading <-chan struct{}) {
	if w.ended != nil {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.ended = make(chan struct{})
	go func() {
		defer close(w.ended)
		w.err = run(ctx, leading)
	}()
}

// stop ends the program, if it was started, and returns its error.
func (w *work) stop() error {
	if w.ended == nil {
		return nil
	}
	w.cancel()
	<-w.ended
	return w.err
}

// ignoreCanceled drops the error of work that was stopped.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// newElector returns what acquires a Lease, closes elected then, and renews it.
func newElector(l *lock, elected chan struct{}) (*leaderelection.LeaderElector, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          l,
		Name:          l.name,
		LeaseDuration: leaseDuration,
		RenewDeadline: renewDeadline,
		RetryPeriod:   retryPeriod,
		// Not ReleaseOnCancel: it also releases a Lease that could not be renewed, while the
		// program still acts.
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("build leader election for Lease %q: %w", l.name, err)
	}
	return elector, nil
}
