package transactions

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

var (
	lockWait = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "starling", Name: "transaction_lock_wait_seconds", Help: "How long a try of a transaction waited for the Lock.", StabilityLevel: metrics.ALPHA,
		Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600},
	}, nil)
	validation = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "starling", Name: "transaction_validation_seconds", Help: "How long a try of a transaction resolved and validated packages, also if they are not valid.", StabilityLevel: metrics.ALPHA,
		Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120},
	}, nil)
	lockHeld = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "starling", Name: "transaction_lock_held_seconds", Help: "How long a transaction held the Lock. All tries of an installation are one time.", StabilityLevel: metrics.ALPHA,
		Buckets: []float64{0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600},
	}, nil)
)

// lockTimes has since when Transactions want the Lock, and since when they hold it. It is about one
// process: a Lock that an earlier one acquired counts from when this one continues. It is safe for
// concurrent use.
type lockTimes struct {
	mutex          sync.Mutex
	wanted, holder map[types.UID]time.Time
}

func newLockTimes() *lockTimes {
	return &lockTimes{wanted: map[types.UID]time.Time{}, holder: map[types.UID]time.Time{}}
}

// want notes that a Transaction wants the Lock, unless it is known. The first try counts from the
// creation, which is known to the second.
func (l *lockTimes) want(tx *pkgv1alpha1.Transaction, now time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if _, known := l.wanted[tx.UID]; known || !l.holder[tx.UID].IsZero() {
		return
	}
	if created := tx.CreationTimestamp.Time; tx.Status.TransactionNumber == 0 && now.Sub(created) > 2*time.Second {
		now = created
	}
	l.wanted[tx.UID] = now
}

// acquire notes that a Transaction holds the Lock. It returns how long it waited; false if it held
// the Lock before.
func (l *lockTimes) acquire(tx *pkgv1alpha1.Transaction, now time.Time) (waited time.Duration, acquired bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if _, holds := l.holder[tx.UID]; holds {
		return 0, false
	}
	since, known := l.wanted[tx.UID]
	delete(l.wanted, tx.UID)
	l.holder[tx.UID] = now
	return now.Sub(since), known
}

// release notes that a Transaction does not hold the Lock. It returns how long it did; false if it
// did not in this process.
func (l *lockTimes) release(tx *pkgv1alpha1.Transaction, now time.Time) (held time.Duration, released bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	since, known := l.holder[tx.UID]
	delete(l.holder, tx.UID)
	if transaction.Ended(tx) || tx.DeletionTimestamp != nil {
		delete(l.wanted, tx.UID)
	}
	return now.Sub(since), known
}

// acquired measures that a Transaction holds the Lock.
func (c *Controller) acquired(tx *pkgv1alpha1.Transaction) {
	if waited, acquired := c.times.acquire(tx, c.Clock.Now()); acquired {
		lockWait.WithLabelValues().Observe(waited.Seconds())
	}
}

// released measures that a Transaction does not hold the Lock.
func (c *Controller) released(tx *pkgv1alpha1.Transaction) {
	if held, released := c.times.release(tx, c.Clock.Now()); released {
		lockHeld.WithLabelValues().Observe(held.Seconds())
	}
}
