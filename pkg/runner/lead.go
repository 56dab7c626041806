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
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
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

// lead runs the program until the context ends, and acquires the Leases in their order meanwhile.
// It holds the Leases until the program has returned, not only until ctx ends: no other replica may
// act while this one still writes. When it loses a Lease, it stops the program and returns an
// error.
func (c *candidate) lead(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.program.LeaseSpace)
	if err != nil {
		return fmt.Errorf("build client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("get the name of this host: %w", err)
	}
	// It must be unique: a process with the identity of the holder may continue to use its Lease.
	identity := host + "_" + string(uuid.NewUUID())

	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	var electors sync.WaitGroup
	defer electors.Wait()
	defer release()
	workCtx, stopWork := context.WithCancel(ctx)
	leading, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- c.program.Run(workCtx, leading) }()
	// stop stops the program, before the Leases are released.
	stop := func() error {
		stopWork()
		return <-ended
	}
	lost := make(chan string, len(c.leases))
	for i, name := range c.leases {
		elected := make(chan struct{})
		elector, err := newElector(client, name, identity, elected)
		if err != nil {
			_ = stop()
			return err
		}
		electors.Go(func() {
			elector.Run(leaseCtx)
			lost <- name
		})
		select {
		case err := <-ended: // also after the end of ctx
			stopWork()
			return err
		case name := <-lost:
			return cmp.Or(ignoreCanceled(stop()), fmt.Errorf("%w %s/%s", errLeaseLost, Namespace, name))
		case <-elected:
			c.held.Store(int32(i + 1))
		}
	}
	close(leading)
	select {
	case err := <-ended:
		stopWork()
		return err
	case name := <-lost:
		return cmp.Or(ignoreCanceled(stop()), fmt.Errorf("%w %s/%s", errLeaseLost, Namespace, name))
	}
}

// ignoreCanceled drops the error of work that was stopped.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// newElector returns what acquires a Lease and closes the channel then.
func newElector(client kubernetes.Interface, name, identity string, elected chan struct{}) (*leaderelection.LeaderElector, error) {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, Namespace, name, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return nil, fmt.Errorf("build Lease %q: %w", name, err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		Name:            name,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("build leader election for Lease %q: %w", name, err)
	}
	return elector, nil
}
