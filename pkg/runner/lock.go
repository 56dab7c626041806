package runner

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// lock is a Lease that a candidate observes before it is its turn to acquire it.
//
// A candidate acquires its Leases one after the other, and client-go waits for the whole duration
// of a Lease since it first saw it. A standby of a program with three Leases would replace a leader
// that was killed after three times that duration. So each Lease is observed from the start, and
// one that nobody renewed for its duration looks as if it were released. That is client-go's own
// rule: the clocks of two hosts are not compared, and a renewal meanwhile makes the write fail,
// because it has the version that was read.
type lock struct {
	resourcelock.Interface
	clock clock.PassiveClock
	// record is the Lease as it was last read, and since when it is the same. One goroutine at a
	// time uses them: observe, and after inTurn the elector.
	record []byte
	since  time.Time

	stop     context.CancelFunc
	observed chan struct{}
}

// observeLocks returns the Leases of a candidate in their order. They are observed until it is
// their turn, or the context ends.
func observeLocks(ctx context.Context, client kubernetes.Interface, identity string, names []string, running *sync.WaitGroup) ([]*lock, error) {
	var locks []*lock
	for _, name := range names {
		lease, err := resourcelock.New(resourcelock.LeasesResourceLock, Namespace, name, client.CoreV1(), client.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: identity})
		if err != nil {
			return nil, fmt.Errorf("build Lease %q: %w", name, err)
		}
		locks = append(locks, &lock{Interface: lease, clock: clock.RealClock{}, observed: make(chan struct{})})
	}
	for _, l := range locks {
		observing, stop := context.WithCancel(ctx)
		l.stop = stop
		running.Go(func() { l.observe(observing) })
	}
	return locks, nil
}

// observe reads the Lease until the context ends.
func (l *lock) observe(ctx context.Context) {
	defer close(l.observed)
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		_, _, _ = l.Get(ctx) // the elector reports what keeps it from reading
	}, retryPeriod, 1.2, true)
}

// inTurn ends the observation and returns the lock, which an elector may now acquire.
func (l *lock) inTurn() resourcelock.Interface {
	l.stop()
	<-l.observed
	return l
}

// Get returns the Lease. One that has not changed for its duration has no holder.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		return record, raw, err
	}
	if now := l.clock.Now(); !bytes.Equal(raw, l.record) {
		l.record, l.since = bytes.Clone(raw), now
	} else if now.Sub(l.since) > leaseDuration && record.HolderIdentity != l.Identity() {
		record.HolderIdentity = ""
	}
	return record, raw, nil
}
