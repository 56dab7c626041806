package packageserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packages"
)

// Housekeeper does what one replica does for all: content that nothing names is collected, and what was left undone by a replica that
// ended is done.
type Housekeeper struct {
	Store *packages.Store
	// Collect deletes content that is not among what it is told.
	Collect func(ctx context.Context, used func(context.Context) (map[string]bool, error)) (int, error)
	// Every is how often.
	Every time.Duration
}

// settle is how long a package may have two latest revisions before that is looked at: as long as approving takes, and more.
const settle = 2 * time.Second

// Run works until the context ends.
func (h *Housekeeper) Run(ctx context.Context) error {
	labels, err := newLatest(h.Store)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { labels.run(ctx) })
	running.Go(func() { h.settle(ctx) })
	ticker := time.NewTicker(h.Every)
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

// lookAgain is how long a creation has to look again at where it created something, and to undo it.
const lookAgain = 5 * time.Second

// settle undoes creations that ended before they could.
func (h *Housekeeper) settle(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.Store.Suspected():
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		settled, err := h.Store.Settle(ctx)
		for _, name := range settled.Deleted {
			logger.V(2).Info("Deleted a draft whose creation had ended before it could be refused", logging.Key, name)
		}
		for _, why := range settled.Left {
			logger.Info("Two packages cannot both be; delete one of them", logging.Reason, why)
		}
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "Looking at packages that cannot both be; it is tried again")
		}
	}
}

func (h *Housekeeper) collect(ctx context.Context) {
	logger := klog.FromContext(ctx)
	chunks, err := h.Collect(ctx, h.Store.Named)
	numbers, err2 := h.Store.CollectNumbers(ctx)
	if err := errors.Join(err, err2); err != nil && ctx.Err() == nil {
		logger.Error(err, "Collecting what nothing names; it is tried again")
	}
	if chunks+numbers > 0 {
		logger.V(2).Info("Collected", "chunks", chunks, "numbers", numbers)
	}
}

// packageKey names a package.
type packageKey struct{ namespace, repository, name string }

// latest watches the revisions that are labelled as the latest of their package, and sees to it that each package has one.
type latest struct {
	store    *packages.Store
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[packageKey]
}

const byPackage = "package"

func newLatest(store *packages.Store) (*latest, error) {
	only := func(o *metav1.ListOptions) { o.LabelSelector = porchv1alpha1.LatestRevisionLabel }
	all := store.Revisions(metav1.NamespaceAll)
	l := &latest{
		store: store,
		informer: cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				only(&o)
				return all.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				only(&o)
				return all.Watch(ctx, o)
			},
		}, &storev1alpha1.PackageRevision{}, 0, cache.Indexers{byPackage: func(obj any) ([]string, error) {
			if cr, ok := obj.(*storev1alpha1.PackageRevision); ok {
				return []string{fmt.Sprint(keyOf(cr))}, nil
			}
			return nil, nil
		}}),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[packageKey]()),
	}
	// Of a hundred thousand packages, only names are needed.
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
	look := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if cr, ok := obj.(*storev1alpha1.PackageRevision); ok {
			l.queue.AddAfter(keyOf(cr), settle)
		}
	}
	_, err = l.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: look, DeleteFunc: look,
		UpdateFunc: func(_, after any) { look(after) },
	})
	return l, err
}

func keyOf(cr *storev1alpha1.PackageRevision) packageKey {
	return packageKey{cr.Namespace, cr.Spec.RepositoryName, cr.Spec.PackageName}
}

func (l *latest) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { l.informer.RunWithContext(ctx) })
	running.Go(func() {
		<-ctx.Done()
		l.queue.ShutDown()
	})
	for {
		key, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		if err := l.sync(ctx, key); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(3).Info("Labelling the latest revision; it is tried again", logging.Key, key, logging.Reason, err.Error())
			l.queue.AddRateLimited(key)
		} else {
			l.queue.Forget(key)
		}
		l.queue.Done(key)
	}
}

func (l *latest) sync(ctx context.Context, key packageKey) error {
	labelled, err := l.informer.GetIndexer().ByIndex(byPackage, fmt.Sprint(key))
	if err != nil {
		return err
	}
	if len(labelled) == 1 {
		if cr, ok := labelled[0].(*storev1alpha1.PackageRevision); ok && cr.DeletionTimestamp == nil {
			return nil
		}
	}
	return l.store.Relabel(ctx, key.namespace, key.repository, key.name)
}
