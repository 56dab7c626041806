package variants

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/pkg/writer"
)

// logAction and logRevision are keys of log lines.
const (
	logAction   = "action"
	logRevision = "packageRevision"
)

// carryOut carries out a plan. It returns the status if there was nothing to write, and nil without
// an error if something was written.
func (c *Controller) carryOut(ctx context.Context, s *state, in *variant.Input, plan *variant.Plan) (*configv1alpha1.PackageVariantStatus, error) {
	if len(plan.Actions) > 0 {
		return nil, c.act(ctx, s, in, plan.Actions)
	}
	return c.work(ctx, s, in, plan)
}

// act carries out actions in their order, up to the first error. Consecutive updates of one
// revision are one write.
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
			klog.FromContext(ctx).V(2).Info("Acted on PackageRevision", logAction, actions[i].Verb, logRevision, actions[i].Revision)
			c.recordAction(in.Variant, &actions[i])
		}
		actions = actions[n:]
	}
	return nil
}

// updates reports whether an action updates a PackageRevision itself, not a subresource.
func updates(verb variant.Verb) bool {
	return slices.Contains([]variant.Verb{variant.Adopt, variant.Release, variant.Leave, variant.ProposeDeletion, variant.Restore, variant.Unmark, variant.Begin, variant.Propose}, verb)
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
		// With its version: what a person has written into the draft meanwhile must not be lost.
		err := c.writer.DeleteVersion(ctx, target, store.ServedUID(r.UID), r.ResourceVersion, "delete")
		if err == nil {
			s.wrote[r.Name] = informers.PendingWrite{Deleted: r.UID, At: c.clock.Now()}
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
	made, err := c.writer.Update(ctx, target, pr, string(a.Verb))
	if err != nil {
		if a.Verb == variant.Approve && apierrors.IsForbidden(err) {
			return approvalForbidden(err)
		}
		return err
	}
	c.wrote(s, r.Name, made.ResourceVersion)
	return nil
}

func approvalForbidden(err error) error {
	return userErrorf("annotation %s requests approval, but binding-controller may not approve: %w. Approve the revision yourself, or bind ClusterRole %s to binding-controller",
		configv1alpha1.AnnotationApprovalPolicy, err, approvalRole)
}

// approvalRole is the ClusterRole that lets the controller approve.
const approvalRole = "starling:package-approval-policy"

func (c *Controller) setFinalizer(ctx context.Context, s *state, pv *configv1alpha1.PackageVariant, add bool) error {
	changed := pv.DeepCopy()
	changed.APIVersion, changed.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == configv1alpha1.PackageVariantFinalizer })
	if add {
		changed.Finalizers = append(changed.Finalizers, configv1alpha1.PackageVariantFinalizer)
	}
	target := writer.Target{Resource: configv1alpha1.PackageVariants, Namespace: pv.Namespace, Name: pv.Name}
	made, err := c.writer.Update(ctx, target, changed, "finalizer")
	if err != nil {
		return err
	}
	if add {
		c.wrote(s, "", made.ResourceVersion)
	}
	return nil
}

// create creates a draft. If the name exists, it is the same draft, and the informer will show it.
func (c *Controller) create(ctx context.Context, s *state, pr *porchv1alpha1.PackageRevision) error {
	made, err := c.writer.Create(ctx, revisionTarget(pr.Namespace, pr.Name), pr, "draft")
	switch {
	case apierrors.IsAlreadyExists(err):
		s.wrote[pr.Name] = informers.PendingWrite{AlreadyExists: true, At: c.clock.Now()}
		return nil
	case err != nil:
		return err
	}
	c.wrote(s, pr.Name, made.ResourceVersion)
	return nil
}

func revisionNamed(in *variant.Input, name string) *storev1alpha1.PackageRevision {
	for _, r := range slices.Concat(in.Downstreams, in.Upstreams) {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func revisionTarget(namespace, name string) writer.Target {
	return writer.Target{Resource: porchv1alpha1.ResourcePackageRevisions, Namespace: namespace, Name: name}
}

// served returns the API object of a stored revision.
func served(r *storev1alpha1.PackageRevision) *porchv1alpha1.PackageRevision {
	pr := store.Serve(r.DeepCopy())
	pr.ManagedFields = nil // the server keeps them
	return pr
}
