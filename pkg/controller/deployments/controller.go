package deployments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/deploy"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// Name of the controller, in logs and metrics.
const Name = "deployments"

// Writer writes to the WDS. *write.Writer is one.
type Writer interface {
	Create(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t write.Target, uid types.UID, reason string) error
}

// Recorder tells of events, without blocking. An events.EventRecorder is one.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Points between two writes, for tests.
const (
	PointCreated = "deployment-created"
	PointUpdated = "deployment-updated"
	PointDeleted = "deployment-deleted"
)

// Config is what a Controller is made of. All fields but Reached are required.
type Config struct {
	// Watch is what all controllers of packages share, Bindings are those of packages, Inventory are the clusters of all ITSes; they are
	// run by whoever made them.
	Watch     *packagewatch.Informers
	Bindings  *packagewatch.Bindings
	Inventory *inventory.Reader
	// Namespaces are those in which clusters have Repositories. What is in others goes nowhere, whatever its Repository is called: who
	// may write there need not be somebody who may write to clusters.
	Namespaces []string
	// Writer writes to the WDS, Reader reads there before something is taken back, or what has a name that is wanted.
	Writer Writer
	Reader Reader
	// Events tells who has the Binding of a package.
	Events Recorder
	// Clock tells the time.
	Clock clock.WithTicker
	// Reached is told each point between two writes; nil for nobody. Tests end the process there.
	Reached func(point string)
}

// Controller makes the Bindings of packages.
type Controller struct {
	Config
	queue workqueue.TypedRateLimitingInterface[deploy.Package]
}

// New returns a Controller. The informers that it is given must not run yet.
func New(c Config) (*Controller, error) {
	if c.Watch == nil || c.Bindings == nil || c.Inventory == nil || c.Writer == nil || c.Reader == nil || c.Events == nil || c.Clock == nil || len(c.Namespaces) == 0 {
		return nil, errors.New("deployments: all fields of Config but Reached are required")
	}
	if c.Reached == nil {
		c.Reached = func(string) {}
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[deploy.Package](50*time.Millisecond, time.Minute)
	controller := &Controller{Config: c, queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[deploy.Package]{Name: Name, Clock: c.Clock})}
	c.Inventory.OnChange(controller.onCluster)
	for _, h := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{c.Watch.Revisions, packagewatch.Handler(controller.onRevision)},
		{c.Watch.Repositories, packagewatch.Handler(controller.onRepository)},
		{c.Bindings.Informer, packagewatch.Handler(controller.onBinding)},
	} {
		if _, err := h.informer.AddEventHandler(h.handler); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	return controller, nil
}

// onRevision notes a change of a revision, if it is one of what is published.
func (c *Controller) onRevision(was, is *storev1alpha1.PackageRevision) {
	if was != nil && is != nil && was.Spec.Lifecycle == is.Spec.Lifecycle && was.Spec.Revision == is.Spec.Revision && was.Content.Digest == is.Content.Digest &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) {
		return
	}
	for _, r := range []*storev1alpha1.PackageRevision{was, is} {
		if r != nil && deploy.Latest([]*storev1alpha1.PackageRevision{r}) != nil && slices.Contains(c.Namespaces, r.Namespace) {
			c.queue.Add(packageOf(r))
		}
	}
}

func packageOf(r *storev1alpha1.PackageRevision) deploy.Package {
	return deploy.Package{Namespace: r.Namespace, Repository: r.Spec.RepositoryName, Name: r.Spec.PackageName}
}

// onRepository notes that a Repository came or went, or that what is deployed from it did.
func (c *Controller) onRepository(was, is *configv1alpha1.Repository) {
	if was != nil && is != nil && was.Spec.Deployment == is.Spec.Deployment {
		return
	}
	if is == nil {
		is = was
	}
	c.enqueueIn(is.Namespace, is.Name)
}

// onBinding notes a change of a Binding; its status is the transport's, and none.
func (c *Controller) onBinding(was, is *controlv1alpha1.Binding) {
	if was != nil && is != nil && was.Generation == is.Generation && was.UID == is.UID && maps.Equal(was.Labels, is.Labels) &&
		was.Annotations[controlv1alpha1.AnnotationPackage] == is.Annotations[controlv1alpha1.AnnotationPackage] {
		return
	}
	for _, b := range []*controlv1alpha1.Binding{was, is} { // its marks may have been taken away
		if b == nil {
			continue
		}
		if p, ok := deploy.PackageOf(b); ok {
			c.enqueue(p)
		}
	}
}

func (c *Controller) onCluster(name string) {
	if name != "" {
		for _, namespace := range c.Namespaces {
			c.enqueueIn(namespace, name)
		}
		return
	}
	for _, obj := range c.Watch.Repositories.GetStore().List() {
		if repo, ok := obj.(*configv1alpha1.Repository); ok {
			c.enqueueIn(repo.Namespace, repo.Name)
		}
	}
	for _, obj := range c.Bindings.Informer.GetStore().List() { // some may have no Repository any more
		if b, ok := obj.(*controlv1alpha1.Binding); ok {
			c.onBinding(nil, b)
		}
	}
}

// enqueueIn has all packages in a Repository looked at, and what was made for packages that are not there any more.
func (c *Controller) enqueueIn(namespace, repository string) {
	if !slices.Contains(c.Namespaces, namespace) {
		return
	}
	for _, r := range c.Watch.RevisionsIn(namespace, repository) {
		c.queue.Add(packageOf(r))
	}
	for _, b := range c.Bindings.In(namespace, repository) {
		if p, ok := deploy.PackageOf(b); ok {
			c.queue.Add(p)
		}
	}
}

func (c *Controller) enqueue(p deploy.Package) {
	if slices.Contains(c.Namespaces, p.Namespace) {
		c.queue.Add(p)
	}
}

// Run works until the context ends, and returns when all that it started has ended. It begins when all was read that could say that a
// package is gone.
func (c *Controller) Run(ctx context.Context, workers int) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues(logging.Controller, Name))
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	if !c.Watch.Wait(ctx) || !cache.WaitForCacheSync(ctx.Done(), c.Bindings.Informer.HasSynced) {
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
	if !c.Bindings.Informer.HasSynced() {
		return errors.New("the Bindings of packages have not been read yet")
	}
	return errors.Join(c.Watch.Ready(), c.Inventory.Ready())
}

func (c *Controller) work(ctx context.Context) bool {
	p, down := c.queue.Get()
	if down {
		return false
	}
	defer c.queue.Done(p)
	logger := klog.FromContext(ctx).WithValues(logging.Key, p)
	switch err := c.sync(klog.NewContext(ctx, logger), p); {
	case ctx.Err() != nil:
	case err == nil:
		c.queue.Forget(p)
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		c.queue.AddRateLimited(p) // the cache is behind
	default:
		logger.Error(err, "Cannot bring the Binding of the package up to date; it is tried again")
		c.queue.AddRateLimited(p)
	}
	return true
}

func (c *Controller) sync(ctx context.Context, p deploy.Package) error {
	in := &deploy.BindingInput{
		Package:    p,
		Revisions:  c.Watch.RevisionsOf(p.Namespace, variant.Package{Repository: p.Repository, Name: p.Name}),
		Repository: c.Watch.Repository(p.Namespace, p.Repository),
		Stored:     c.Bindings.Of(p),
	}
	_, in.Cluster = c.Inventory.Get(p.Repository)
	err := c.act(ctx, in)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// The cache is behind; or it is somebody else's; or somebody took away the labels by which ours are watched.
	if in.Stored, err = c.Reader.Binding(ctx, deploy.BindingName(p)); err != nil {
		return err
	}
	return c.act(ctx, in)
}

// confirm reads again what says that what a Binding carries goes. At a start, different kinds may have been read from different replicas of an
// API server, one of which may be behind: then the revision that somebody else delivered a moment ago is not there yet.
func (c *Controller) confirm(ctx context.Context, in *deploy.BindingInput) error {
	revision, err := c.Reader.Revision(ctx, in.Package.Namespace, in.Stored.Spec.Workload.Packages[0].Name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("look whether the revision is really gone: %w", err)
	case packageOf(revision) == in.Package:
		in.Revisions = append(slices.DeleteFunc(slices.Clone(in.Revisions), func(r *storev1alpha1.PackageRevision) bool { return r.Name == revision.Name }), revision)
	}
	if in.Repository == nil || in.Repository.Spec.Deployment {
		return nil
	}
	repository, err := c.Reader.Repository(ctx, in.Package.Namespace, in.Package.Repository)
	switch {
	case apierrors.IsNotFound(err):
		in.Repository = nil
	case err != nil:
		return fmt.Errorf("look whether nothing is deployed from the Repository: %w", err)
	default:
		in.Repository = repository
	}
	return nil
}

func (c *Controller) act(ctx context.Context, in *deploy.BindingInput) error {
	plan := deploy.PlanBinding(in)
	if plan.TakesBack(in.Stored) {
		if err := c.confirm(ctx, in); err != nil {
			return err
		}
		plan = deploy.PlanBinding(in)
	}
	target := write.Target{Resource: controlv1alpha1.Bindings, Name: deploy.BindingName(in.Package)}
	switch {
	case plan.Taken:
		c.Events.Eventf(in.Stored, nil, corev1.EventTypeWarning, controlv1alpha1.ReasonNameTaken, "Sync",
			"package %s is not delivered: its Binding must have this name, and this one is somebody else's; delete it, or give it another name", in.Package)
		return fmt.Errorf("somebody else has the Binding %s", target.Name)
	case plan.Create != nil:
		_, err := c.Writer.Create(ctx, target, plan.Create, "package")
		return c.wrote(ctx, err, PointCreated, target.Name)
	case plan.Update != nil:
		_, err := c.Writer.Update(ctx, target, plan.Update, "revision")
		return c.wrote(ctx, err, PointUpdated, target.Name)
	case plan.Delete:
		err := c.Writer.Delete(ctx, target, in.Stored.UID, "package-gone")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return c.wrote(ctx, err, PointDeleted, target.Name)
	}
	return nil
}

func (c *Controller) wrote(ctx context.Context, err error, point, binding string) error {
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Wrote the Binding of a package", logging.Binding, binding, "change", point)
		c.Reached(point)
	}
	return err
}
