package variants

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/packages"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// Points between two writes, besides those after actions. A test may end the process at one.
const (
	PointStatus = "variants/status"
	PointFiles  = "variants/files"
	PointFailed = "variants/failed"
)

// pointOf is the point after an action.
func pointOf(verb variant.Verb) string {
	return "variants/" + strings.ReplaceAll(string(verb), " ", "-")
}

// Points lists all of them.
func Points() []string {
	points := []string{PointStatus, PointFiles, PointFailed}
	for _, verb := range []variant.Verb{
		variant.AddFinalizer, variant.RemoveFinalizer, variant.Create, variant.Adopt, variant.Release, variant.Delete, variant.ProposeDeletion,
		variant.Restore, variant.Begin, variant.Propose, variant.Approve,
	} {
		points = append(points, pointOf(verb))
	}
	return points
}

// logAction and logRevision are keys of log lines.
const (
	logAction   = "action"
	logRevision = "packageRevision"
)

// carryOut does what a plan asks for. It returns the status if there was nothing to write; nil, without an error, if something was.
func (c *Controller) carryOut(ctx context.Context, s *state, in *variant.Input, plan *variant.Plan) (*configv1alpha1.PackageVariantStatus, error) {
	if len(plan.Actions) > 0 {
		return nil, c.act(ctx, s, in, plan.Actions)
	}
	return c.work(ctx, s, in, plan)
}

// act carries actions out, in their order, up to the first error. Updates of one revision that follow on each other are one write.
func (c *Controller) act(ctx context.Context, s *state, in *variant.Input, actions []variant.Action) error {
	for len(actions) > 0 {
		n := 1
		for n < len(actions) && updates(actions[0].Verb) && updates(actions[n].Verb) && actions[n].Revision == actions[0].Revision {
			n++
		}
		if err := c.actOnce(ctx, s, in, actions[:n]); err != nil {
			return fmt.Errorf("%s: %w", &actions[n-1], err)
		}
		for i := range actions[:n] {
			klog.FromContext(ctx).V(2).Info("Done", logAction, actions[i].Verb, logRevision, actions[i].Revision)
			c.tellAction(in.Variant, &actions[i])
		}
		c.config.Reached(pointOf(actions[n-1].Verb))
		actions = actions[n:]
	}
	return nil
}

// updates tells whether an action is an update of a PackageRevision, and of no subresource.
func updates(verb variant.Verb) bool {
	switch verb {
	case variant.Adopt, variant.Release, variant.ProposeDeletion, variant.Restore, variant.Begin, variant.Propose:
		return true
	default:
		return false
	}
}

// actOnce is one write.
func (c *Controller) actOnce(ctx context.Context, s *state, in *variant.Input, actions []variant.Action) error {
	a := &actions[0]
	switch a.Verb {
	case variant.AddFinalizer, variant.RemoveFinalizer:
		return c.setFinalizer(ctx, s, in.Variant, a.Verb == variant.AddFinalizer)
	case variant.Create:
		return c.create(ctx, s, a.Object)
	default:
	}
	r := revisionNamed(in, a.Revision)
	if r == nil {
		return apierrors.NewNotFound(porchv1alpha1.ResourcePackageRevisions.GroupResource(), a.Revision)
	}
	target := revisionTarget(r.Namespace, r.Name)
	if a.Verb == variant.Delete {
		err := c.config.Writer.Delete(ctx, target, packages.ServedUID(r.UID), "delete")
		if err == nil {
			s.wrote[r.Name] = packagewatch.Written{Deleted: r.UID, At: c.config.Clock.Now()}
		}
		return err
	}
	if a.Verb == variant.Approve {
		target.Subresource = "approval"
	}
	pr := served(r)
	for i := range actions {
		actions[i].Change(pr)
	}
	made, err := c.config.Writer.Update(ctx, target, pr, string(a.Verb))
	if err != nil {
		if a.Verb == variant.Approve && apierrors.IsForbidden(err) {
			return tell("annotation %s asks for it, but it is refused: %w. Approve it yourself, or bind ClusterRole %s to binding-controller",
				configv1alpha1.AnnotationApprovalPolicy, err, approvalRole)
		}
		return err
	}
	c.wrote(s, r.Name, made.ResourceVersion)
	return nil
}

// approvalRole is the ClusterRole that lets the controller approve.
const approvalRole = "starling:package-approval-policy"

func (c *Controller) setFinalizer(ctx context.Context, s *state, pv *configv1alpha1.PackageVariant, there bool) error {
	changed := pv.DeepCopy()
	changed.APIVersion, changed.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == configv1alpha1.PackageVariantFinalizer })
	if there {
		changed.Finalizers = append(changed.Finalizers, configv1alpha1.PackageVariantFinalizer)
	}
	target := write.Target{Resource: configv1alpha1.PackageVariants, Namespace: pv.Namespace, Name: pv.Name}
	made, err := c.config.Writer.Update(ctx, target, changed, "finalizer")
	if err != nil {
		return err
	}
	if there {
		c.wrote(s, "", made.ResourceVersion)
	}
	return nil
}

// create makes a draft. One of that name that is there is the one that is meant, and is waited for.
func (c *Controller) create(ctx context.Context, s *state, pr *porchv1alpha1.PackageRevision) error {
	made, err := c.config.Writer.Create(ctx, revisionTarget(pr.Namespace, pr.Name), pr, "draft")
	switch {
	case apierrors.IsAlreadyExists(err):
		s.wrote[pr.Name] = packagewatch.Written{Created: true, At: c.config.Clock.Now()}
		return nil
	case err != nil:
		return err
	}
	c.wrote(s, pr.Name, made.ResourceVersion)
	return nil
}

func revisionNamed(in *variant.Input, name string) *storev1alpha1.PackageRevision {
	for _, list := range [][]*storev1alpha1.PackageRevision{in.Downstreams, in.Upstreams} {
		for _, r := range list {
			if r.Name == name {
				return r
			}
		}
	}
	return nil
}

func revisionTarget(namespace, name string) write.Target {
	return write.Target{Resource: porchv1alpha1.ResourcePackageRevisions, Namespace: namespace, Name: name}
}

// served is the object of the API for what is kept.
func served(r *storev1alpha1.PackageRevision) *porchv1alpha1.PackageRevision {
	pr := packages.Serve(r.DeepCopy())
	pr.ManagedFields = nil // the server keeps them
	return pr
}

// servedMeta is the metadata that a write of files is decided on.
func servedMeta(r *storev1alpha1.PackageRevision) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: packages.ServedUID(r.UID), ResourceVersion: r.ResourceVersion}
}
