package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// Times of leader election. A leader renews its Lease every retryPeriod. A standby acquires a Lease
// that was not renewed for leaseDuration. The leader gives up before that, giveUp after it has sent
// its last renewal, so that it has two seconds to end its work. The elector gives up as early, if
// answers take no time: it waits for retryPeriod, and then tries for renewDeadline.
const (
	leaseDuration = 10 * time.Second
	renewDeadline = 6 * time.Second
	retryPeriod   = 2 * time.Second
	giveUp        = retryPeriod + renewDeadline
)

var (
	errDeleted = errors.New("the Lease was deleted, and its holder may still act")
	errLate    = errors.New("the answer came so late that another process may hold the Lease")
)

// lock is a Lease that a candidate watches from its start, and that an elector of client-go
// acquires and renews.
//
// The elector alone reads the Lease every few seconds, so that a standby notices late that a leader
// has released it. And it waits for the whole duration of a Lease since it first read it: a standby
// of a program with three Leases, which it acquires one after the other, would replace a leader
// that was killed after three times that duration. So Get blocks while another process holds the
// Lease. A Lease that did not change for its duration, as seen from here, has no holder. That is
// client-go's own rule: the clocks of two hosts are not compared, and a renewal meanwhile makes the
// write fail, because it has the version that was read.
type lock struct {
	resourcelock.Interface
	leases coordinationv1client.LeaseInterface
	name   string
	// others is called when another process holds the Lease. lost is called once, when this process
	// may not hold it any more.
	others, lost func()
	stopWatch    context.CancelFunc

	// One goroutine, which runs the elector, uses these. written is whether the Lease may have been
	// written, acquired whether it was acquired. expiry calls lost when it is not renewed in time.
	written, acquired bool
	expiry            *time.Timer

	mu sync.Mutex
	// record is the Lease as it was last seen, raw the same as text, since when it is the same.
	record *resourcelock.LeaderElectionRecord
	raw    []byte
	since  time.Time
	// unwatched is whether the last attempt to watch the Lease failed.
	unwatched bool
	// changed is closed, and replaced, at each change of these.
	changed chan struct{}
}

// newLock returns a Lease of a candidate, which is watched until it is acquired or the context
// ends.
func newLock(ctx context.Context, client coordinationv1client.LeasesGetter, identity, name string, others, lost func(), running *sync.WaitGroup) *lock {
	l := &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		leases: client.Leases(Namespace), name: name, others: others, lost: sync.OnceFunc(lost), changed: make(chan struct{}),
	}
	ctx, l.stopWatch = context.WithCancel(ctx)
	running.Go(func() { l.observe(ctx) })
	return l
}

// observe watches the Lease until the context ends.
func (l *lock) observe(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		if err := l.watch(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Cannot watch the Lease; will read it every few seconds, and retry", "lease", l.name, "err", err)
		}
	}, retryPeriod, 1, false) // at once after a watch that lasted
}

// watch watches the Lease until the watch ends. It begins with the Lease as it is.
func (l *lock) watch(ctx context.Context) error {
	events, err := l.leases.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, l.name).String()})
	l.change(func() { l.unwatched = err != nil })
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		if event.Type == watch.Deleted {
			continue // its holder creates it again
		}
		record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
		raw, err := json.Marshal(record)
		if err != nil {
			return err
		}
		l.see(record, raw)
	}
	return nil
}

// see records the Lease as it was read; nil if it does not exist. It returns for how long another
// process holds it from now.
func (l *lock) see(record *resourcelock.LeaderElectionRecord, raw []byte) time.Duration {
	var taken time.Duration
	l.change(func() {
		// The holder of a Lease that was deleted creates it again at its next renewal.
		if record != nil && !bytes.Equal(raw, l.raw) {
			l.record, l.raw, l.since = record, raw, time.Now()
		}
		taken = l.taken()
	})
	if taken > 0 {
		l.others()
	}
	return taken
}

// change changes what was seen.
func (l *lock) change(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// taken returns for how long another process holds the Lease from now. The caller has the mutex.
func (l *lock) taken() time.Duration {
	if l.record == nil || l.record.HolderIdentity == "" || l.record.HolderIdentity == l.Identity() {
		return 0
	}
	return time.Until(l.since.Add(time.Duration(l.record.LeaseDurationSeconds) * time.Second))
}

// Get returns the Lease. If this process has not acquired it, Get blocks while another process
// holds it, unless it cannot be watched.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.acquired {
		record, raw, err := l.read(ctx)
		if err == nil && record.HolderIdentity != l.Identity() {
			l.lost()
		}
		return record, raw, err
	}
	for {
		if record, raw, ended := l.wait(ctx); ended {
			return record, raw, nil // an error would be logged
		}
		record, raw, err := l.read(ctx)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, nil, err
		}
		taken := l.see(record, raw)
		switch {
		case taken > 0 && l.watched():
			continue
		case taken > 0 && record == nil:
			return nil, nil, errDeleted
		case taken > 0, record == nil, record.HolderIdentity == l.Identity():
			return record, raw, err
		}
		free := *record
		free.HolderIdentity = ""
		return &free, raw, nil
	}
}

// wait blocks while another process holds the Lease and it is watched. If the context ends
// meanwhile, it returns the Lease.
func (l *lock) wait(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, ended bool) {
	for {
		l.mu.Lock()
		record, raw = l.record, l.raw
		taken, unwatched, changed := l.taken(), l.unwatched, l.changed
		l.mu.Unlock()
		if taken <= 0 || unwatched {
			return nil, nil, false
		}
		expired := time.NewTimer(taken)
		select {
		case <-changed:
		case <-expired.C:
		case <-ctx.Done():
			ended = true
		}
		expired.Stop()
		if ended {
			return record, raw, true
		}
	}
}

func (l *lock) watched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.unwatched
}

// read reads the Lease. It does not wait for long for an answer.
func (l *lock) read(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	return l.Interface.Get(ctx)
}

// Create creates the Lease, held by this process.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update acquires or renews the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	l.written = true
	sent := time.Now()
	if err := write(ctx, record); err != nil {
		return err
	}
	left := time.Until(sent.Add(giveUp))
	if left <= 0 {
		return errLate
	}
	if !l.acquired {
		l.acquired = true
		l.expiry = time.AfterFunc(left, l.lost)
		l.stopWatch()
	} else {
		l.expiry.Reset(left)
	}
	return nil
}

// hold acquires and renews the Lease until the context ends. Then it releases the Lease, also one
// that was lost: the program has ended.
func (l *lock) hold(ctx context.Context, elector *leaderelection.LeaderElector) {
	elector.Run(ctx)
	l.lost()
	<-ctx.Done()
	if l.expiry != nil {
		l.expiry.Stop()
	}
	if !l.written {
		return
	}
	if err := l.release(context.WithoutCancel(ctx)); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot release the Lease; other processes wait until it expires", "lease", l.name)
	}
}

// release lets another process acquire the Lease at once.
func (l *lock) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { // with a renewal that has not ended
		record, _, err := l.Interface.Get(ctx)
		if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != l.Identity() {
			return nil
		}
		if err != nil {
			return err
		}
		now := metav1.Now()
		return l.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
		})
	})
}
