package gates

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller, in logs and metrics.
const Name = "packagegates"

// Required are the resources that the WDS must serve before Run, besides transactions.Required.
var Required = []schema.GroupVersionResource{
	storev1alpha1.PackageRevisions, porchv1alpha1.ResourcePackageRevisions,
}

// Config is what a Controller works with. All fields are required.
type Config struct {
	// WDS is the WDS; WDSName its name in metrics.
	WDS     *rest.Config
	WDSName string
	// Watch has the Transactions and the Lock. The caller runs it.
	Watch *transactions.Informers
	Clock clock.PassiveClock
}

// Controller reconciles the gates of revisions. At most one replica may run: it needs a lease.
type Controller struct {
	clock     clock.PassiveClock
	writer    *writer.Writer
	revisions *informers.Informers // of which only the revisions run
	watch     *transactions.Informers
	queue     *worker.Queue[types.NamespacedName]

	mutex sync.Mutex
	// installed are the revisions that were not planned since the installed packages have changed.
	// After a restart there are none: a user can delete the Transaction.
	installed map[types.NamespacedName]bool
}

// New returns a Controller that sends no requests until Run.
func New(config Config) (*Controller, error) {
	c := &Controller{clock: config.Clock, watch: config.Watch, installed: map[types.NamespacedName]bool{}}
	var err error
	if c.writer, err = writer.New(config.WDS, config.WDSName, "starling-"+Name); err != nil {
		return nil, err
	}
	if c.revisions, err = informers.New(config.WDS); err != nil {
		return nil, err
	}
	c.queue = worker.New(worker.Config{
		Name: Name, MinBackOff: 50 * time.Millisecond, Quiet: apierrors.IsNotFound, // the informers are behind
	}, c.sync)
	return c, errors.Join(
		c.revisions.Revisions.Handle(c.queue.WaitFor, c.onRevision),
		c.watch.Transactions.Handle(c.queue.WaitFor, c.onTransaction),
		c.watch.Locks.Handle(c.queue.WaitFor, c.onLock),
	)
}

// Run works until the context ends, and waits for all that it started.
func (c *Controller) Run(ctx context.Context, workers int) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.revisions.Revisions.RunWithContext(ctx) })
	c.queue.Run(ctx, workers)
	return nil
}

// Ready returns an error that names what is not synced, nil if all is.
func (c *Controller) Ready() error { return c.queue.Ready() }

// onRevision requeues a revision, and the others of its package if another one is published.
func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	one := cmp.Or(after, before)
	c.queue.Add(informers.KeyOf(one))
	published := func(r *storev1alpha1.PackageRevision) string {
		if r == nil || !r.Spec.Lifecycle.Published() || r.DeletionTimestamp != nil {
			return ""
		}
		return r.Status.ContentDigest
	}
	if published(before) == published(after) {
		return
	}
	for _, r := range c.revisions.RevisionsOf(one.Namespace, informers.PackageOf(one)) {
		if !r.Spec.Lifecycle.Published() {
			c.queue.Add(informers.KeyOf(r))
		}
	}
}

func (c *Controller) onTransaction(before, after *pkgv1alpha1.Transaction) {
	if key, ok := gate.RevisionOf(cmp.Or(after, before)); ok {
		c.queue.Add(key)
	}
}

// onLock requeues the revisions whose validation has not succeeded, if other packages are
// installed.
func (c *Controller) onLock(before, after *pkgv1beta1.Lock) {
	if before == nil || after == nil || transaction.Diff(before.Packages, after.Packages).Empty() {
		return
	}
	for _, tx := range c.watch.Transactions.All() {
		key, ok := gate.RevisionOf(tx)
		if !ok || transaction.Succeeded(tx) {
			continue
		}
		c.mutex.Lock()
		c.installed[key] = true
		c.mutex.Unlock()
		c.queue.Add(key)
	}
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (worker.Result, error) {
	c.mutex.Lock()
	installed := c.installed[key]
	c.mutex.Unlock()
	r := c.revisions.Revisions.Get(key.Namespace, key.Name)
	state := &gate.State{Revision: r, Transactions: c.watch.OfRevision(key), Installed: installed, Now: c.clock.Now()}
	if r != nil {
		state.UID, state.Package = store.ServedUID(r.UID), c.revisions.RevisionsOf(r.Namespace, informers.PackageOf(r))
	}
	plan, err := gate.PlanGate(state)
	if err != nil {
		return worker.Result{}, err
	}
	if err := c.act(ctx, r, &plan); err != nil {
		return worker.Result{}, err
	}
	if installed {
		c.mutex.Lock()
		delete(c.installed, key)
		c.mutex.Unlock()
	}
	return worker.Result{After: plan.Again}, nil
}

func (c *Controller) act(ctx context.Context, r *storev1alpha1.PackageRevision, plan *gate.Plan) error {
	for _, tx := range plan.Delete {
		if err := c.writer.Delete(ctx, transactionTarget(tx.Name), tx.UID, "outdated"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, tx := range plan.Release {
		if err := c.release(ctx, tx); err != nil {
			return err
		}
	}
	if plan.Create != nil {
		if _, err := c.writer.Create(ctx, transactionTarget(plan.Create.Name), plan.Create, "content"); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		klog.FromContext(ctx).V(2).Info("Created Transaction for PackageRevision", "packageRevision", klog.KObj(r), "transaction", plan.Create.Name)
	}
	if plan.Condition == nil {
		return nil
	}
	pr := store.Serve(r.DeepCopy())
	pr.ManagedFields = nil // the server keeps them
	setCondition(pr, plan.Condition)
	// It is based on the version that has this content: after another write it is a conflict.
	target := writer.Target{Resource: porchv1alpha1.ResourcePackageRevisions, Namespace: pr.Namespace, Name: pr.Name}
	_, err := c.writer.Update(ctx, target, pr, "condition")
	return err
}

// release leaves a Transaction to the history.
func (c *Controller) release(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": tx.UID, "annotations": map[string]any{pkgv1.AnnotationAnswersGate: nil},
	}})
	if err != nil {
		return fmt.Errorf("encode patch of transaction %q: %w", tx.Name, err)
	}
	_, err = c.writer.Patch(ctx, transactionTarget(tx.Name), types.MergePatchType, patch, "answered")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone
		return nil
	}
	return err
}

func transactionTarget(name string) writer.Target {
	return writer.Target{Resource: pkgv1alpha1.Transactions, Name: name}
}

// setCondition sets a condition.
func setCondition(pr *porchv1alpha1.PackageRevision, condition *porchv1alpha1.Condition) {
	for i := range pr.Status.Conditions {
		if pr.Status.Conditions[i].Type == condition.Type {
			pr.Status.Conditions[i] = *condition
			return
		}
	}
	pr.Status.Conditions = append(pr.Status.Conditions, *condition)
}
