package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packages/store"
)

// Housekeeper does the work that one replica does for all: it deletes content without a reference,
// and completes operations that a crashed replica left incomplete.
type Housekeeper struct {
	Store *store.Store
	// Collect deletes content whose digest is not in the result of used, and returns how many
	// chunks it deleted.
	Collect func(ctx context.Context, used func(context.Context) (map[string]bool, error)) (int, error)
	// Interval is the time between two collections.
	Interval time.Duration
}

// labelDelay is how long a package may have no latest revision, or two: longer than an approval
// takes.
const labelDelay = 2 * time.Second

// Run blocks until ctx ends.
func (h *Housekeeper) Run(ctx context.Context) error {
	labels, err := newLatestLabeler(h.Store)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { labels.run(ctx) })
	running.Go(func() { h.resolveLayout(ctx) })
	ticker := time.NewTicker(h.Interval)
	defer ticker.Stop()
	for {
		h.collect(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// creationGrace is the time in which a request checks and undoes its own creation.
const creationGrace = 5 * time.Second

// resolveLayout deletes drafts whose creation ended before it could be undone.
func (h *Housekeeper) resolveLayout(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.Store.LayoutSuspects():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(creationGrace):
		}
		settled, err := h.Store.ResolveLayout(ctx)
		for _, name := range settled.Deleted {
			logger.V(2).Info("Deleted draft that conflicts with another package", logging.Key, name)
		}
		for _, why := range settled.Conflicts {
			logger.Info("Packages conflict; delete one of them", logging.Reason, why)
		}
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "Cannot resolve conflicting packages; will retry")
		}
	}
}

func (h *Housekeeper) collect(ctx context.Context) {
	logger := klog.FromContext(ctx)
	chunks, err := h.Collect(ctx, h.Store.ReferencedDigests)
	numbers, err2 := h.Store.CollectNumbers(ctx)
	if err := errors.Join(err, err2); err != nil && ctx.Err() == nil {
		logger.Error(err, "Cannot collect unused content; will retry")
	}
	if chunks+numbers > 0 {
		logger.V(2).Info("Deleted unused content", "chunks", chunks, "numbers", numbers)
	}
}

// packageKey identifies a package.
type packageKey struct{ namespace, repository, name string }

// latestLabeler watches the revisions that are labelled as the latest of their package, and makes
// sure that each package has exactly one.
type latestLabeler struct {
	store    *store.Store
	informer cache.SharedIndexInformer
	queue    *worker.Queue[packageKey]
}

const byPackage = "package"

func newLatestLabeler(store *store.Store) (*latestLabeler, error) {
	labelled := cache.NewFilteredListWatchFromClient(store.Revisions(metav1.NamespaceAll).GetClient(), storev1alpha1.PackageRevisions.Resource,
		metav1.NamespaceAll, func(o *metav1.ListOptions) { o.LabelSelector = porchv1alpha1.LatestRevisionLabel })
	l := &latestLabeler{
		store: store,
		informer: cache.NewSharedIndexInformer(labelled, &storev1alpha1.PackageRevision{}, 0, cache.Indexers{byPackage: func(obj any) ([]string, error) {
			if cr, ok := obj.(*storev1alpha1.PackageRevision); ok {
				return []string{fmt.Sprint(keyOf(cr))}, nil
			}
			return nil, nil
		}}),
	}
	l.queue = worker.New(worker.Config{Name: "latest-label"}, func(ctx context.Context, key packageKey) (worker.Result, error) {
		return worker.Result{}, l.sync(ctx, key)
	})
	// There may be a hundred thousand packages, so only their names are cached.
	err := l.informer.SetTransform(func(obj any) (any, error) {
		cr, ok := obj.(*storev1alpha1.PackageRevision)
		if !ok {
			return obj, nil
		}
		slim := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{
			Namespace: cr.Namespace, Name: cr.Name, UID: cr.UID, ResourceVersion: cr.ResourceVersion, DeletionTimestamp: cr.DeletionTimestamp,
		}}
		slim.Spec.RepositoryName, slim.Spec.PackageName = cr.Spec.RepositoryName, cr.Spec.PackageName
		return slim, nil
	})
	if err != nil {
		return nil, err
	}
	enqueue := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if cr, ok := obj.(*storev1alpha1.PackageRevision); ok {
			l.queue.AddAfter(keyOf(cr), labelDelay)
		}
	}
	_, err = l.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue,
		UpdateFunc: func(_, after any) { enqueue(after) },
	})
	return l, err
}

func keyOf(cr *storev1alpha1.PackageRevision) packageKey {
	return packageKey{cr.Namespace, cr.Spec.RepositoryName, cr.Spec.PackageName}
}

func (l *latestLabeler) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { l.informer.RunWithContext(ctx) })
	l.queue.Run(ctx, 1)
}

func (l *latestLabeler) sync(ctx context.Context, key packageKey) error {
	labelled, err := l.informer.GetIndexer().ByIndex(byPackage, fmt.Sprint(key))
	if err != nil {
		return err
	}
	if len(labelled) == 1 {
		if cr, ok := labelled[0].(*storev1alpha1.PackageRevision); ok && cr.DeletionTimestamp == nil {
			return nil
		}
	}
	return l.store.LabelLatest(ctx, key.namespace, key.repository, key.name)
}
