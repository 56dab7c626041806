package clusterrepositories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/deploy"
	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// Name of the controller, in logs and metrics.
const Name = "clusterrepositories"

// Writer writes to the WDS. *write.Writer is one.
type Writer interface {
	Create(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t write.Target, uid types.UID, reason string) error
}

// Points between two writes, for tests.
const (
	PointCreated    = "cluster-repository-created"
	PointRelabelled = "cluster-repository-relabelled"
	PointTold       = "cluster-repository-told"
	PointDeleted    = "cluster-repository-deleted"
)

// Config is what a Controller is made of. All fields but Reached are required.
type Config struct {
	// Watch is what all controllers of packages share, Inventory are the clusters of all ITSes; both are run by whoever made them.
	Watch     *packagewatch.Informers
	Inventory *inventory.Reader
	// Namespaces are those in which clusters have Repositories.
	Namespaces []string
	// Writer writes to the WDS, Reader reads there before a Repository is deleted.
	Writer Writer
	Reader Reader
	// Clock tells the time.
	Clock clock.WithTicker
	// Reached is told each point between two writes; nil for nobody. Tests end the process there.
	Reached func(point string)
}

// Controller keeps the Repositories of clusters.
type Controller struct {
	Config
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// New returns a Controller. The informers that it is given must not run yet.
func New(c Config) (*Controller, error) {
	if c.Watch == nil || c.Inventory == nil || c.Writer == nil || c.Reader == nil || c.Clock == nil || len(c.Namespaces) == 0 {
		return nil, errors.New("clusterrepositories: all fields of Config but Reached are required")
	}
	if c.Reached == nil {
		c.Reached = func(string) {}
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, time.Minute)
	controller := &Controller{Config: c, queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: Name, Clock: c.Clock})}
	c.Inventory.OnChange(controller.onCluster)
	if _, err := c.Watch.Repositories.AddEventHandler(packagewatch.Handler(controller.onRepository)); err != nil {
		return nil, fmt.Errorf("watch Repositories: %w", err)
	}
	if _, err := c.Watch.Revisions.AddEventHandler(packagewatch.Handler(controller.onRevision)); err != nil {
		return nil, fmt.Errorf("watch PackageRevisions: %w", err)
	}
	return controller, nil
}

func (c *Controller) onCluster(name string) {
	if name == "" {
		c.enqueueAll()
		return
	}
	for _, namespace := range c.Namespaces {
		c.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

func (c *Controller) onRepository(before, after *configv1alpha1.Repository) {
	if after == nil {
		after = before
	}
	if slices.Contains(c.Namespaces, after.Namespace) {
		c.queue.Add(types.NamespacedName{Namespace: after.Namespace, Name: after.Name})
	}
}

// onRevision notes that a revision is gone: only that may let a Repository go.
func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	if after == nil && slices.Contains(c.Namespaces, before.Namespace) {
		c.queue.Add(types.NamespacedName{Namespace: before.Namespace, Name: before.Spec.RepositoryName})
	}
}

// enqueueAll has all clusters and Repositories looked at: what was not known may be.
func (c *Controller) enqueueAll() {
	clusters, _ := c.Inventory.List()
	for _, cluster := range clusters {
		c.onCluster(cluster.Name)
	}
	for _, obj := range c.Watch.Repositories.GetStore().List() {
		if repo, ok := obj.(*configv1alpha1.Repository); ok {
			c.onRepository(nil, repo)
		}
	}
}

// Run works until the context ends, and returns when all that it started has ended.
func (c *Controller) Run(ctx context.Context, workers int) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues(logging.Controller, Name))
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	if !c.Watch.Wait(ctx) {
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
func (c *Controller) Ready() error { return errors.Join(c.Watch.Ready(), c.Inventory.Ready()) }

func (c *Controller) work(ctx context.Context) bool {
	key, down := c.queue.Get()
	if down {
		return false
	}
	defer c.queue.Done(key)
	logger := klog.FromContext(ctx).WithValues(logging.Key, key)
	switch err := c.sync(klog.NewContext(ctx, logger), key); {
	case ctx.Err() != nil:
	case err == nil:
		c.queue.Forget(key)
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && c.Watch.Repository(key.Namespace, key.Name) != nil:
		c.queue.AddRateLimited(key) // the cache is behind
	default:
		logger.Error(err, "Cannot bring the Repository of the cluster up to date; it is tried again")
		c.queue.AddRateLimited(key)
	}
	return true
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	if len(validation.IsDNS1123Label(key.Name)) > 0 {
		return nil // no name of a Repository, nor of a mailbox
	}
	in := &deploy.RepositoryInput{
		Namespace: key.Namespace, Name: key.Name, Stored: c.Watch.Repository(key.Namespace, key.Name),
		Empty: len(c.Watch.RevisionsIn(key.Namespace, key.Name)) == 0, Now: c.Clock.Now(),
	}
	var cluster *inventory.Cluster
	if cluster, in.Cluster = c.Inventory.Get(key.Name); cluster != nil {
		in.Labels = cluster.Labels
	}
	plan := deploy.PlanRepository(in)
	if plan.Delete {
		// With it, sets would withdraw what they keep in it. At a start, it and its revisions may have been read from different replicas of
		// an API server, one of which may be behind.
		var err error
		if in.Empty, err = c.Reader.Empty(ctx, key.Namespace, key.Name); err != nil {
			return err
		}
		plan = deploy.PlanRepository(in)
	}
	return c.act(ctx, in, plan)
}

func (c *Controller) act(ctx context.Context, in *deploy.RepositoryInput, plan deploy.RepositoryPlan) error {
	target := write.Target{Resource: configv1alpha1.Repositories, Namespace: in.Namespace, Name: in.Name}
	wrote := func(point string) {
		klog.FromContext(ctx).V(2).Info("Wrote the Repository of a cluster", "change", point)
		c.Reached(point)
	}
	switch {
	case plan.Create != nil:
		if _, err := c.Writer.Create(ctx, target, plan.Create, "cluster"); err != nil {
			return err
		}
		wrote(PointCreated)
	case plan.Delete:
		if err := c.Writer.Delete(ctx, target, in.Stored.UID, "cluster-gone"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		wrote(PointDeleted)
	}
	version := ""
	if plan.Update != nil {
		meta, err := c.Writer.Update(ctx, target, plan.Update, "labels")
		if err != nil {
			return err
		}
		version = meta.ResourceVersion
		wrote(PointRelabelled)
	}
	if plan.UpdateStatus == nil {
		return nil
	}
	changed := in.Stored.DeepCopy()
	changed.TypeMeta = metav1.TypeMeta{APIVersion: configv1alpha1.GroupVersion.String(), Kind: "Repository"}
	changed.Status = *plan.UpdateStatus
	if version != "" {
		changed.ResourceVersion = version
	}
	target.Subresource = "status"
	if _, err := c.Writer.Update(ctx, target, changed, "told"); err != nil {
		return err
	}
	wrote(PointTold)
	return nil
}
