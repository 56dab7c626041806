package bindings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller, in logs and metrics.
const Name = "packagebindings"

// Writer writes to the WDS. *writer.Writer is one.
type Writer interface {
	Create(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t writer.Target, uid types.UID, reason string) error
}

// Reader reads the current objects from the API server, not from a cache. Its errors are those of
// the API server. informers.Reader is one.
type Reader interface {
	Binding(ctx context.Context, name string) (*controlv1alpha1.Binding, error)
	Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error)
	Repository(ctx context.Context, namespace, name string) (*configv1alpha1.Repository, error)
}

// Recorder records events, without blocking. An events.EventRecorder is one.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	// Watch is shared by all controllers of packages, Bindings are those of packages, Inventory are
	// the clusters of all ITSes. Their owner runs them.
	Watch     *informers.Informers
	Bindings  *informers.Bindings
	Inventory *clusters.Reader
	// Namespaces are those in which clusters have Repositories. Packages in others are not
	// delivered, whatever the name of their Repository: users who may write there need not be
	// allowed to write to clusters.
	Namespaces []string
	// Writer writes to the WDS. Reader reads there before content is removed from a cluster, and
	// when a name is taken.
	Writer Writer
	Reader Reader
	// Events records that the name of a Binding is taken.
	Events Recorder
	// Clock is the real one except in tests.
	Clock clock.WithTicker
}

// Controller reconciles the Bindings of packages.
type Controller struct {
	Config
	queue *worker.Queue[binding.Package]
}

// New returns a Controller. The informers that it is given must not run yet.
func New(c Config) (*Controller, error) {
	if c.Watch == nil || c.Bindings == nil || c.Inventory == nil || c.Writer == nil || c.Reader == nil || c.Events == nil || c.Clock == nil || len(c.Namespaces) == 0 {
		return nil, errors.New("packagebindings: all fields of Config are required")
	}
	controller := &Controller{Config: c}
	controller.queue = worker.New(worker.Config{
		Name: Name, Clock: c.Clock, MinBackOff: 50 * time.Millisecond, Quiet: apierrors.IsNotFound, // the cache is behind
	}, controller.sync)
	c.Inventory.OnChange(controller.onCluster)
	// Everything must be synced that shows whether a package still exists.
	return controller, errors.Join(
		c.Watch.Repositories.Handle(controller.queue.WaitFor, controller.onRepository),
		c.Watch.Revisions.Handle(controller.queue.WaitFor, controller.onRevision),
		c.Bindings.Handle(controller.queue.WaitFor, controller.onBinding),
	)
}

// onRevision requeues the package of a revision, if what is published of it changed.
func (c *Controller) onRevision(was, is *storev1alpha1.PackageRevision) {
	if was != nil && is != nil && was.Spec.Lifecycle == is.Spec.Lifecycle && was.Spec.Revision == is.Spec.Revision && was.Content.Digest == is.Content.Digest &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) {
		return
	}
	for _, r := range []*storev1alpha1.PackageRevision{was, is} {
		if r != nil && version.Latest([]*storev1alpha1.PackageRevision{r}) != nil {
			c.enqueue(packageOf(r))
		}
	}
}

func packageOf(r *storev1alpha1.PackageRevision) binding.Package {
	return binding.Package{Namespace: r.Namespace, Repository: r.Spec.RepositoryName, Name: r.Spec.PackageName}
}

// onRepository requeues the packages of a Repository that was added or deleted, or whose
// spec.deployment changed.
func (c *Controller) onRepository(was, is *configv1alpha1.Repository) {
	if was != nil && is != nil && was.Spec.Deployment == is.Spec.Deployment {
		return
	}
	repository := cmp.Or(is, was)
	c.enqueueIn(repository.Namespace, repository.Name)
}

// onBinding requeues the package of a Binding. Changes of the status, which the transport writes,
// do not count.
func (c *Controller) onBinding(was, is *controlv1alpha1.Binding) {
	if was != nil && is != nil && was.Generation == is.Generation && was.UID == is.UID && maps.Equal(was.Labels, is.Labels) &&
		was.Annotations[controlv1alpha1.AnnotationPackage] == is.Annotations[controlv1alpha1.AnnotationPackage] {
		return
	}
	for _, b := range []*controlv1alpha1.Binding{was, is} { // its labels may have been removed
		if b == nil {
			continue
		}
		if p, ok := binding.PackageOf(b); ok {
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
	for _, repo := range c.Watch.Repositories.All() {
		c.enqueueIn(repo.Namespace, repo.Name)
	}
	for _, b := range c.Bindings.All() { // some may no longer have a Repository
		c.onBinding(nil, b)
	}
}

// enqueueIn requeues all packages of a Repository, and those that have only a Binding left.
func (c *Controller) enqueueIn(namespace, repository string) {
	for _, r := range c.Watch.RevisionsIn(namespace, repository) {
		c.enqueue(packageOf(r))
	}
	for _, b := range c.Bindings.In(namespace, repository) {
		if p, ok := binding.PackageOf(b); ok {
			c.enqueue(p)
		}
	}
}

func (c *Controller) enqueue(p binding.Package) {
	if slices.Contains(c.Namespaces, p.Namespace) {
		c.queue.Add(p)
	}
}

// Run works until the context ends, and waits for its workers.
func (c *Controller) Run(ctx context.Context, workers int) error {
	c.queue.Run(ctx, workers)
	return nil
}

// Ready returns an error that names what is not synced, nil if all is.
func (c *Controller) Ready() error {
	return errors.Join(c.queue.Ready(), c.Inventory.Ready())
}

func (c *Controller) sync(ctx context.Context, p binding.Package) (worker.Result, error) {
	in := c.gather(p)
	err := c.reconcile(ctx, in)
	if !apierrors.IsAlreadyExists(err) {
		return worker.Result{}, err
	}
	// The cache is behind; or the Binding is not ours; or the labels that select ours were removed.
	if in.Stored, err = c.Reader.Binding(ctx, binding.Name(p)); err != nil {
		return worker.Result{}, err
	}
	return worker.Result{}, c.reconcile(ctx, in)
}

func (c *Controller) gather(p binding.Package) *binding.Input {
	in := &binding.Input{
		Package:    p,
		Revisions:  c.Watch.RevisionsOf(p.Namespace, variant.Package{Repository: p.Repository, Name: p.Name}),
		Repository: c.Watch.Repositories.Get(p.Namespace, p.Repository),
		Stored:     c.Bindings.Of(p),
	}
	cluster, state := c.Inventory.Get(p.Repository)
	in.Cluster, in.Drained = state, cluster != nil && inventory.Drained(cluster.Labels)
	return in
}

// reconcile decides and acts. Before content is removed from a cluster, it reads again why.
func (c *Controller) reconcile(ctx context.Context, in *binding.Input) error {
	plan := binding.PlanBinding(in)
	if plan.TakesBack {
		if err := c.confirm(ctx, in); err != nil {
			return err
		}
		plan = binding.PlanBinding(in)
	}
	return c.act(ctx, in, &plan)
}

// confirm reads from the API server why the content of a Binding is to be removed. At a start, the
// informers may have read different kinds from different replicas of an API server. One of these
// may be behind, and lack a revision that another process delivered a moment ago.
func (c *Controller) confirm(ctx context.Context, in *binding.Input) error {
	revision, err := c.Reader.Revision(ctx, in.Package.Namespace, in.Stored.Spec.Workload.Packages[0].Name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("check whether the revision is deleted: %w", err)
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
		return fmt.Errorf("check whether the Repository is still a deployment Repository: %w", err)
	default:
		in.Repository = repository
	}
	return nil
}

func (c *Controller) act(ctx context.Context, in *binding.Input, plan *binding.Plan) error {
	target := writer.Target{Resource: controlv1alpha1.Bindings, Name: binding.Name(in.Package)}
	switch {
	case plan.Taken:
		c.Events.Eventf(in.Stored, nil, corev1.EventTypeWarning, controlv1alpha1.ReasonNameTaken, "Sync", nameTaken, in.Package)
		return fmt.Errorf("the Binding %q exists and does not belong to package %s", target.Name, in.Package)
	case plan.Create != nil:
		_, err := c.Writer.Create(ctx, target, plan.Create, "package")
		return c.wrote(ctx, err, "created", target.Name)
	case plan.Update != nil:
		_, err := c.Writer.Update(ctx, target, plan.Update, "revision")
		return c.wrote(ctx, err, "updated", target.Name)
	case plan.Delete:
		err := c.Writer.Delete(ctx, target, in.Stored.UID, "package-gone")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return c.wrote(ctx, err, "deleted", target.Name)
	}
	return nil
}

// nameTaken is the note of the event on a Binding that has the name of another one.
const nameTaken = "package %s is not delivered: its Binding needs the name of this Binding, which does not belong to it; delete this Binding, or re-create it with another name"

func (c *Controller) wrote(ctx context.Context, err error, change, binding string) error {
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Wrote Binding of package", logging.Binding, binding, "change", change)
	}
	return err
}
