// Package transactions reconciles packages and Transactions.
//
// A change of a package creates a Transaction (packages.go), which validates and carries out the
// change while it holds the Lock (transaction.go). The decisions are those of pkg/core/transaction;
// what a Transaction has decided is in its status and in the Lock.
package transactions

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/fetch"
	"github.com/starlinghq/starling/pkg/transactions/install"
	"github.com/starlinghq/starling/pkg/transactions/lock"
	"github.com/starlinghq/starling/pkg/transactions/propose"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller.
const Name = "transactions"

// Validator validates a proposal. The error is a *transaction.FailedError if the proposal must not
// be carried out; any other error says that something did not answer. The warnings are for the
// user.
type Validator interface {
	Validate(ctx context.Context, tx *pkgv1alpha1.Transaction, proposal *propose.Proposal) (warnings []string, err error)
}

// Destinations are the clusters that objects of packages are bound to. Keep, Freeze and Commit are
// called after the validation of the same Transaction, by the same process.
type Destinations interface {
	// Keep ensures that clusters keep the CRDs that stay there when their package is removed. The
	// error is a *transaction.FailedError if that is not so yet.
	Keep(ctx context.Context, tx *pkgv1alpha1.Transaction) error
	// Freeze holds the objects of the proposal in all mailboxes.
	Freeze(ctx context.Context, tx *pkgv1alpha1.Transaction) error
	// Commit records which packages each cluster has.
	Commit(ctx context.Context, tx *pkgv1alpha1.Transaction) error
	// Settle removes the holds of Transactions that do not run, unless they did not succeed and
	// have left an object half. Again is when to call it again, zero if nothing is left.
	Settle(
		ctx context.Context, runs, succeeded func(plan.Holder) bool, half func(context.Context) (map[objref.Ref]bool, error),
	) (again time.Duration, err error)
}

// Records are the Locks of clusters.
type Records interface {
	// Record has them list what is on the clusters now. Again is when to call it again.
	Record(ctx context.Context) (again time.Duration, err error)
	// Watch calls changed when Record may find something, until the context ends.
	Watch(ctx context.Context, changed func()) error
}

// Config is what a Controller works with.
type Config struct {
	// Watch is not running yet. Its owner runs it.
	Watch *transactions.Informers
	// Client reads from the API server, and Writer writes.
	Client *transactions.Client
	Writer *writer.Writer

	Lock     *lock.Manager
	Packages *fetch.Reader
	Proposer *propose.Proposer
	// Validators validate one after the other. The first error counts.
	Validators []Validator
	Installer  *install.Installer
	// Objects are not running yet. The Controller runs them.
	Objects *objects
	// Destinations are nil if there are no clusters.
	Destinations Destinations
	// Records are nil if there are no clusters.
	Records Records

	Events events.EventRecorder
	Clock  clock.Clock
}

// Controller reconciles packages and Transactions. At most one replica may run: it needs a lease.
type Controller struct {
	Config
	packages     *worker.Queue[transactions.Ref]
	transactions *worker.Queue[string]
	// holds has one key: what Transactions hold in mailboxes is to be settled.
	holds *worker.Queue[struct{}]
	// records has one key: the Locks of clusters are to be compared with the clusters.
	records *worker.Queue[struct{}]
	times   *lockTimes

	mutex sync.Mutex
	// next is when a Transaction that failed is tried again. After a restart that is at once.
	next map[string]time.Time
	// denied are the Transactions that wait because a registry does not let a package be read.
	denied map[string]bool
}

// Back-off of what failed for other reasons than the content of packages.
const minBackOff = 200 * time.Millisecond

// settleAfter is how long the status of a package waits for further changes of its revisions: an
// installation writes each of them several times within milliseconds.
const settleAfter = 200 * time.Millisecond

// New returns a Controller that sends no requests until Run.
func New(config Config) (*Controller, error) {
	c := &Controller{Config: config, times: newLockTimes(), next: map[string]time.Time{}, denied: map[string]bool{}}
	metrics.Register(lockWait, validation, lockHeld)
	c.packages = worker.New(worker.Config{Name: Name + "-packages", MinBackOff: minBackOff}, c.syncPackage)
	c.transactions = worker.New(worker.Config{Name: Name, MinBackOff: minBackOff}, c.syncTransaction)
	c.holds = worker.New(worker.Config{Name: Name + "-holds", MinBackOff: minBackOff}, c.syncHolds)
	c.records = worker.New(worker.Config{Name: Name + "-records", MinBackOff: minBackOff}, c.syncRecords)
	c.records.Add(struct{}{})
	c.holds.Add(struct{}{}) // a process that ended may have left some
	c.Objects.changed, c.Objects.all = c.onObject, c.allPackages
	failures := []error{
		c.Watch.Transactions.Handle(c.holds.WaitFor, func(_, after *pkgv1alpha1.Transaction) {
			if after == nil || transaction.Ended(after) {
				c.holds.Add(struct{}{})
				c.records.AddAfter(struct{}{}, settling)
			}
		}),
		c.Watch.Transactions.Handle(c.transactions.WaitFor, c.onTransaction),
		c.Watch.Transactions.Handle(c.packages.WaitFor, func(before, after *pkgv1alpha1.Transaction) { c.onPackageOf(before, after) }),
		c.Watch.Locks.Handle(c.transactions.WaitFor, c.onLock),
		c.Watch.Locks.Handle(c.packages.WaitFor, func(_, _ *pkgv1beta1.Lock) {}),
	}
	for _, kind := range transactions.Kinds {
		failures = append(failures,
			c.Watch.Packages[kind.Name].Handle(c.packages.WaitFor, func(before, after *pkgv1.Provider) {
				c.packages.Add(transactions.Ref{Kind: kind.Name, Name: cmp.Or(after, before).Name})
			}),
			c.Watch.Packages[kind.Name].Handle(c.transactions.WaitFor, c.onPackage),
			c.Watch.Revisions[kind.Name].Handle(c.packages.WaitFor, func(before, after *pkgv1.ProviderRevision) {
				c.packages.AddAfter(transactions.Ref{Kind: kind.Name, Name: cmp.Or(after, before).Labels[pkgv1.LabelPackage]}, settleAfter)
			}))
	}
	failures = append(failures, c.Watch.ImageConfigs.Handle(c.transactions.WaitFor, func(_, _ *pkgv1beta1.ImageConfig) { c.retryDenied() }))
	return c, errors.Join(failures...)
}

func (c *Controller) onTransaction(before, after *pkgv1alpha1.Transaction) {
	c.transactions.Add(cmp.Or(after, before).Name)
	// Those that wait for this one may continue.
	if after == nil || transaction.Ended(after) && before != nil && !transaction.Ended(before) {
		c.wake(false)
	}
}

func (c *Controller) onPackageOf(before, after *pkgv1alpha1.Transaction) {
	if before != nil && removes(before) && (after == nil || !removes(after)) {
		c.allPackages()
	}
	if ref, uid := transactions.PackageOf(cmp.Or(after, before)); uid != "" {
		c.packages.Add(ref)
	}
}

// onPackage lets a Transaction that waits notice that its package has changed.
func (c *Controller) onPackage(before, after *pkgv1.Provider) {
	if before == nil || after == nil || before.Generation != after.Generation || before.DeletionTimestamp == nil && after.DeletionTimestamp != nil {
		for _, tx := range c.Watch.TransactionsOf(cmp.Or(after, before)) {
			if !transaction.Ended(tx) {
				c.transactions.Add(tx.Name)
			}
		}
	}
}

// onLock wakes the Transactions that wait when the Lock has no holder, and the packages that it is
// about.
func (c *Controller) onLock(before, after *pkgv1beta1.Lock) {
	if after == nil || before == nil {
		c.wake(true)
		return
	}
	changed := !transaction.Diff(before.Packages, after.Packages).Empty()
	if transaction.Holder(after) == "" && transaction.Holder(before) != "" || changed {
		c.wake(changed)
		for _, kind := range transactions.Kinds {
			for _, p := range c.Watch.Packages[kind.Name].All() {
				if p.DeletionTimestamp != nil {
					c.packages.Add(transactions.Ref{Kind: kind.Name, Name: p.Name})
				}
			}
		}
		c.allPackages()
	}
}

// wake lets the Transaction that is next be synced: the others wait for it. If other packages are
// installed than before, a deletion that failed need not wait: what required the package may be
// gone.
func (c *Controller) wake(changed bool) {
	for _, tx := range c.Watch.Transactions.All() {
		if changed && !transaction.Ended(tx) && tx.Spec.Change == pkgv1alpha1.ChangeTypeDelete {
			c.tryAt(tx.Name, time.Time{})
			c.transactions.Add(tx.Name)
		}
	}
	if next := c.first(); next != nil {
		c.transactions.Add(next.Name)
	}
}

// retryDenied lets Transactions be tried now that a registry did not let read a package: an
// ImageConfig may have the credentials now.
func (c *Controller) retryDenied() {
	c.mutex.Lock()
	denied := slices.Collect(maps.Keys(c.denied))
	for _, name := range denied {
		delete(c.next, name)
	}
	clear(c.denied) // those that are denied again say so
	c.mutex.Unlock()
	for _, name := range denied {
		c.transactions.Add(name)
	}
}

// deny records whether a registry does not let read what a Transaction needs.
func (c *Controller) deny(name string, denied bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if denied {
		c.denied[name] = true
	} else {
		delete(c.denied, name)
	}
}

// tryAt sets when a Transaction is tried again.
func (c *Controller) tryAt(name string, at time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if at.IsZero() {
		delete(c.next, name)
		return
	}
	c.next[name] = at
}

// wait returns how long a Transaction that failed waits; 0 or less if it does not.
func (c *Controller) wait(name string) time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.next[name].Sub(c.Clock.Now())
}

// Run works until the context ends, and waits for its workers.
func (c *Controller) Run(ctx context.Context, workers int) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.packages.Run(ctx, workers) })
	running.Go(func() { c.holds.Run(ctx, 1) })
	running.Go(func() { c.records.Run(ctx, 1) })
	running.Go(func() {
		if err := c.Objects.Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot watch the objects of packages")
		}
	})
	if c.Records != nil {
		running.Go(func() {
			err := c.Records.Watch(ctx, func() { c.records.AddAfter(struct{}{}, settling) })
			if err != nil {
				klog.FromContext(ctx).Error(err, "Cannot watch what the Locks of clusters are about; they are compared from time to time")
			}
		})
	}
	c.transactions.Run(ctx, workers)
	return nil
}

// Ready returns an error that names what is not synced, nil if all is.
func (c *Controller) Ready() error {
	return errors.Join(c.packages.Ready(), c.transactions.Ready(), c.holds.Ready())
}

// settling is how long after a change the Locks of clusters are compared: the Bindings follow their
// policies meanwhile, and several changes cost one comparison.
const settling = 2 * time.Second

// syncRecords has the Locks of clusters list what the clusters have.
func (c *Controller) syncRecords(ctx context.Context, _ struct{}) (worker.Result, error) {
	if c.Records == nil {
		return worker.Result{}, nil
	}
	again, err := c.Records.Record(ctx)
	return worker.Result{After: again}, err
}

// syncHolds removes the holds of Transactions that have ended or do not exist. What one of them has
// left half stays held until another one has made it whole, or removed it.
func (c *Controller) syncHolds(ctx context.Context, _ struct{}) (worker.Result, error) {
	if c.Destinations == nil {
		return worker.Result{}, nil
	}
	is := func(h plan.Holder, state func(*pkgv1alpha1.Transaction) bool) bool {
		tx := c.Watch.Transactions.Get("", h.Transaction)
		return tx != nil && h.Is(tx.Name, tx.UID) && state(tx)
	}
	runs := func(tx *pkgv1alpha1.Transaction) bool { return !transaction.Ended(tx) && tx.DeletionTimestamp == nil }
	again, err := c.Destinations.Settle(ctx, func(h plan.Holder) bool { return is(h, runs) }, func(h plan.Holder) bool { return is(h, transaction.Succeeded) }, c.half)
	return worker.Result{After: again}, err
}
