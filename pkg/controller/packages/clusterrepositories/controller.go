package clusterrepositories

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller, in logs and metrics.
const Name = "clusterrepositories"

// Writer writes to the WDS. *writer.Writer is one.
type Writer interface {
	Create(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t writer.Target, uid types.UID, reason string) error
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	// Watch is shared by all controllers of packages, Inventory are the clusters of all ITSes.
	// Their owner runs them.
	Watch     *informers.Informers
	Inventory *clusters.Reader
	// Namespaces are those in which clusters have Repositories.
	Namespaces []string
	// Writer writes to the WDS.
	Writer Writer
	// Empty reads from the API server, not from a cache, whether a Repository has no revisions.
	Empty func(ctx context.Context, namespace, repository string) (bool, error)
	// Clock is the real one except in tests.
	Clock clock.WithTicker
}

// Controller reconciles the Repositories of clusters.
type Controller struct {
	Config
	queue *worker.Queue[types.NamespacedName]
}

// New returns a Controller. The informers that it is given must not run yet.
func New(c Config) (*Controller, error) {
	if c.Watch == nil || c.Inventory == nil || c.Writer == nil || c.Empty == nil || c.Clock == nil || len(c.Namespaces) == 0 {
		return nil, errors.New("clusterrepositories: all fields of Config are required")
	}
	controller := &Controller{Config: c}
	controller.queue = worker.New(worker.Config{Name: Name, Clock: c.Clock, MinBackOff: 50 * time.Millisecond}, controller.sync)
	c.Inventory.OnChange(controller.onCluster)
	return controller, errors.Join(
		c.Watch.Repositories.Handle(controller.queue.WaitFor, controller.onRepository),
		c.Watch.Revisions.Handle(controller.queue.WaitFor, controller.onRevision),
	)
}

func (c *Controller) onCluster(name string) {
	if name == "" { // what was unknown may be known
		clusters, _ := c.Inventory.List()
		for _, cluster := range clusters {
			c.onCluster(cluster.Name)
		}
		for _, repo := range c.Watch.Repositories.All() {
			c.onRepository(nil, repo)
		}
		return
	}
	for _, namespace := range c.Namespaces {
		c.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

func (c *Controller) onRepository(before, after *configv1alpha1.Repository) {
	if key := informers.KeyOf(cmp.Or(after, before)); slices.Contains(c.Namespaces, key.Namespace) {
		c.queue.Add(key)
	}
}

// onRevision requeues the Repository of a deleted revision: only then may the Repository be
// deleted.
func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	if after == nil && slices.Contains(c.Namespaces, before.Namespace) {
		c.queue.Add(types.NamespacedName{Namespace: before.Namespace, Name: before.Spec.RepositoryName})
	}
}

// Run works until the context ends, and waits for its workers.
func (c *Controller) Run(ctx context.Context, workers int) error {
	c.queue.Run(ctx, workers)
	return nil
}

// Ready returns an error that names what is not synced, nil if all is.
func (c *Controller) Ready() error { return errors.Join(c.queue.Ready(), c.Inventory.Ready()) }

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (worker.Result, error) {
	if len(validation.IsDNS1123Label(key.Name)) > 0 {
		return worker.Result{}, nil // no name of a Repository, nor of a mailbox
	}
	in := &binding.RepositoryInput{
		Namespace: key.Namespace, Name: key.Name, Stored: c.Watch.Repositories.Get(key.Namespace, key.Name),
		Empty: len(c.Watch.RevisionsIn(key.Namespace, key.Name)) == 0, Now: c.Clock.Now(),
	}
	var cluster *clusters.Cluster
	if cluster, in.Cluster = c.Inventory.Get(key.Name); cluster != nil {
		in.Labels = cluster.Labels
	}
	plan := binding.PlanRepository(in)
	if plan.Delete {
		// Deleting it would make sets delete their packages in it. At a start, the informers may
		// have read it and its revisions from different replicas of an API server, one of which may
		// be behind.
		var err error
		if in.Empty, err = c.Empty(ctx, key.Namespace, key.Name); err != nil {
			return worker.Result{}, err
		}
		plan = binding.PlanRepository(in)
	}
	err := c.act(ctx, in, plan)
	if apierrors.IsNotFound(err) && in.Stored != nil {
		err = errors.Join(worker.ErrStale, err)
	}
	return worker.Result{}, err
}

func (c *Controller) act(ctx context.Context, in *binding.RepositoryInput, plan binding.RepositoryPlan) error {
	target := writer.Target{Resource: configv1alpha1.Repositories, Namespace: in.Namespace, Name: in.Name}
	wrote := func(change string) {
		klog.FromContext(ctx).V(2).Info("Wrote Repository of cluster", "change", change)
	}
	switch {
	case plan.Create != nil:
		if _, err := c.Writer.Create(ctx, target, plan.Create, "cluster"); err != nil {
			return err
		}
		wrote("created")
	case plan.Delete:
		if err := c.Writer.Delete(ctx, target, in.Stored.UID, "cluster-gone"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		wrote("deleted")
	}
	version := ""
	if plan.Update != nil {
		meta, err := c.Writer.Update(ctx, target, plan.Update, "labels")
		if err != nil {
			return err
		}
		version = meta.ResourceVersion
		wrote("labels")
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
	wrote("status")
	return nil
}
