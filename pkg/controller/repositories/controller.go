package repositories

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/repository"
	"github.com/starlinghq/starling/pkg/write"
)

// Name of the controller.
const Name = "packages"

// Remote is a git repository or a registry that is looked at once.
type Remote interface {
	// List returns what there is.
	List(ctx context.Context) (*repository.Listing, error)
	// Load reads what refs lead to.
	Load(ctx context.Context, refs []repository.Ref, found func(repository.Revision) error) error
	// Descends tells whether the branch contains a commit.
	Descends(ctx context.Context, from string) (bool, error)
	// Export writes revisions.
	Export(ctx context.Context, exports []repository.Export) ([]repository.Exported, error)
	// Remove deletes tags that lead where they are said to.
	Remove(ctx context.Context, tags []repository.Ref) error
	// Address names it in locks of revisions.
	Address() string
	// Close ends its connections.
	Close()
}

// Content keeps files by their digest.
type Content interface {
	Put(ctx context.Context, files kptpkg.Files) (string, error)
	Get(ctx context.Context, digest string) (kptpkg.Files, error)
}

// Numbers keeps numbers of revisions that are imported from being given to others.
type Numbers interface {
	Reserve(ctx context.Context, revision *storev1alpha1.PackageRevision, upTo int) (given map[int]bool, err error)
}

// Config is what a Controller works with.
type Config struct {
	// Watch is what all controllers of packages share; it is run by whoever made it.
	Watch *packagewatch.Informers
	// Secrets is an informer over all namespaces that holds *metav1.PartialObjectMetadata. It is run by Run.
	Secrets cache.SharedIndexInformer
	// Secret reads what a Secret holds.
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// Open opens what a Repository leads to.
	Open func(spec *configv1alpha1.RepositorySpec, secret map[string][]byte) (Remote, error)
	// Content keeps files.
	Content Content
	// Numbers are those of revisions.
	Numbers Numbers
	// Writer writes.
	Writer *write.Writer
	// Clock tells when to look.
	Clock clock.WithTicker
	// MinInterval is the least time between two looks at a repository; 0 is DefaultMinInterval.
	MinInterval time.Duration
	// Reached is told each point between two writes; nil for nobody. Tests end the work there.
	Reached func(point string)
}

// Controller keeps Repositories.
type Controller struct {
	Config
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mutex  sync.Mutex
	states map[types.NamespacedName]*state
	// touched are Repositories whose Secret changed.
	touched map[types.NamespacedName]bool
}

const (
	byUpstream = "upstream"
	bySecret   = "secret"
)

// Indexers of revisions.
func revisionIndexers() cache.Indexers {
	return cache.Indexers{
		byUpstream: func(obj any) ([]string, error) {
			if cr, ok := obj.(*storev1alpha1.PackageRevision); ok && cr.Content.Upstream != "" {
				return []string{cr.Namespace + "/" + cr.Content.Upstream}, nil
			}
			return nil, nil
		},
	}
}

// Indexers of Repositories.
func repositoryIndexers() cache.Indexers {
	return cache.Indexers{bySecret: func(obj any) ([]string, error) {
		if repo, ok := obj.(*configv1alpha1.Repository); ok {
			if name := secretName(&repo.Spec); name != "" {
				return []string{repo.Namespace + "/" + name}, nil
			}
		}
		return nil, nil
	}}
}

func secretName(spec *configv1alpha1.RepositorySpec) string {
	switch {
	case spec.Git != nil:
		return spec.Git.SecretRef.Name
	case spec.Oci != nil:
		return spec.Oci.SecretRef.Name
	}
	return ""
}

// New returns a Controller. The informers that it is given must not run yet.
func New(c Config) (*Controller, error) {
	if c.Watch == nil || c.Secrets == nil || c.Secret == nil || c.Open == nil || c.Content == nil || c.Numbers == nil || c.Writer == nil || c.Clock == nil {
		return nil, errors.New("every dependency is needed")
	}
	if c.MinInterval == 0 {
		c.MinInterval = DefaultMinInterval
	}
	if c.Reached == nil {
		c.Reached = func(string) {}
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](200*time.Millisecond, time.Minute)
	controller := &Controller{
		Config: c,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
			Name: Name, Clock: c.Clock,
		}),
		states:  map[types.NamespacedName]*state{},
		touched: map[types.NamespacedName]bool{},
	}
	if err := c.Watch.Revisions.AddIndexers(revisionIndexers()); err != nil {
		return nil, err
	}
	if err := c.Watch.Repositories.AddIndexers(repositoryIndexers()); err != nil {
		return nil, err
	}
	for _, h := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{c.Watch.Repositories, lastOf(controller.onRepository)}, {c.Watch.Revisions, lastOf(controller.onRevision)}, {c.Secrets, lastOf(controller.onSecret)},
	} {
		if _, err := h.informer.AddEventHandler(h.handler); err != nil {
			return nil, err
		}
	}
	return controller, nil
}

// lastOf makes a handler of a function that is given the last state of what changed.
func lastOf[T any](on func(*T)) cache.ResourceEventHandler {
	return packagewatch.Handler(func(before, after *T) { on(cmp.Or(after, before)) })
}

func (c *Controller) onRepository(repo *configv1alpha1.Repository) {
	c.queue.Add(types.NamespacedName{Namespace: repo.Namespace, Name: repo.Name})
}

// gather is how long revisions may change before their Repository is looked at: they change many at a time.
const gather = 200 * time.Millisecond

func (c *Controller) onRevision(cr *storev1alpha1.PackageRevision) {
	c.queue.AddAfter(types.NamespacedName{Namespace: cr.Namespace, Name: cr.Spec.RepositoryName}, gather)
}

func (c *Controller) onSecret(secret *metav1.PartialObjectMetadata) {
	using, err := c.Watch.Repositories.GetIndexer().ByIndex(bySecret, secret.Namespace+"/"+secret.Name)
	if err != nil {
		return
	}
	for _, found := range using {
		repo, ok := found.(*configv1alpha1.Repository)
		if !ok {
			continue
		}
		key := types.NamespacedName{Namespace: repo.Namespace, Name: repo.Name}
		c.mutex.Lock()
		c.touched[key] = true
		c.mutex.Unlock()
		c.queue.Add(key)
	}
}

// Run works until the context ends, and returns when all has ended.
func (c *Controller) Run(ctx context.Context, workers int) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues(logging.Controller, Name))
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() { c.Secrets.RunWithContext(ctx) })
	defer c.queue.ShutDown()
	if !c.Watch.Wait(ctx) || !cache.WaitForCacheSync(ctx.Done(), c.Secrets.HasSynced) {
		return nil
	}
	for range workers {
		running.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

// Ready says what has not been read yet.
func (c *Controller) Ready() error {
	if !c.Secrets.HasSynced() {
		return errors.New("the Secrets of the WDS have not been read yet")
	}
	return c.Watch.Ready()
}

func (c *Controller) work(ctx context.Context) bool {
	key, down := c.queue.Get()
	if down {
		return false
	}
	defer c.queue.Done(key)
	logger := klog.FromContext(ctx).WithValues(logging.Key, key)
	after, err := c.sync(klog.NewContext(ctx, logger), key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if !apierrors.IsConflict(err) { // somebody else wrote; their write brings us here again
			logger.Error(err, "Looking after a Repository; it is tried again")
		}
		c.queue.AddRateLimited(key)
	default:
		c.queue.Forget(key)
		if after > 0 {
			c.queue.AddAfter(key, after)
		}
	}
	return true
}

// state is what is remembered of a Repository between looks. Only the worker that has its key uses it.
type state struct {
	uid        types.UID
	generation int64
	next       time.Time
	failures   int
	looked     bool
	result     result
	// refused is the head of a rewritten branch, and what it was compared with.
	refused [2]string
}

func (c *Controller) stateOf(key types.NamespacedName, uid types.UID) *state {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	s := c.states[key]
	if s == nil || s.uid != uid {
		s = &state{uid: uid, result: result{judged: map[string]judgement{}}}
		c.states[key] = s
	}
	return s
}

func (c *Controller) forget(key types.NamespacedName) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.states, key)
	delete(c.touched, key)
}

func (c *Controller) takeTouched(key types.NamespacedName) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	touched := c.touched[key]
	delete(c.touched, key)
	return touched
}
