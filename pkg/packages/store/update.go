package store

import (
	"cmp"
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

// Update changes a revision to what the user wants. The argument before is the revision that the
// change is based on. It is written only if it has not changed since. It must not be used
// afterwards.
func (s *Store) Update(ctx context.Context, before *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision, user string, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	from, to := before.Spec.Lifecycle, cmp.Or(wanted.Spec.Lifecycle, porchv1alpha1.LifecycleDraft)
	var wrong lifecycle.FieldErrors
	if text := lifecycle.CheckUpdate(from, to); text != "" {
		wrong = append(wrong, lifecycle.FieldError{Field: lifecycleField, Message: text})
	}
	wrong = append(wrong, lifecycle.CheckSpecUpdate(&before.Spec, &wanted.Spec)...)
	wrong = append(wrong, checkLabels(wanted.Labels, before.Labels)...)
	conditions := conditionsChanged(before, wanted)
	if conditions && from.Published() {
		wrong = append(wrong, lifecycle.FieldErrorf("status.conditions", "Forbidden: conditions of a %s revision cannot be changed; only Draft and Proposed revisions allow it", from))
	}
	if len(wrong) > 0 {
		return nil, invalid(before.Name, wrong...)
	}
	after := before.DeepCopy()
	if err := setServedMeta(after, &wanted.ObjectMeta); err != nil {
		return nil, err
	}
	setPrivateLabels(after)
	if len(wanted.Status.Conditions) == 0 {
		wanted = wanted.DeepCopy()
		wanted.Status.Conditions = before.Status.Conditions
	}
	own := []string{porchv1alpha1.ConditionPipelinePassed}
	content := !apiequality.Semantic.DeepEqual(gatesOf(before.Spec.ReadinessGates, own), gatesOf(wanted.Spec.ReadinessGates, own)) ||
		!apiequality.Semantic.DeepEqual(before.Spec.PackageMetadata, wanted.Spec.PackageMetadata)
	if content || conditions {
		if err := s.rewriteKptfile(ctx, after, wanted, content, dryRun); err != nil {
			return nil, err
		}
		recordAuthor(before, after, user)
	}
	if err := s.checkGates(after, from, to); err != nil {
		return nil, err
	}
	after.Spec.Lifecycle = to
	return s.replace(ctx, before, after, dryRun)
}

// conditionsChanged reports whether the user changed conditions. The condition of the pipeline
// belongs to the server. A request without conditions changes only the spec.
func conditionsChanged(before *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision) bool {
	if len(wanted.Status.Conditions) == 0 {
		return false
	}
	own := func(conditions []porchv1alpha1.Condition) []porchv1alpha1.Condition {
		return slices.DeleteFunc(slices.Clone(conditions), isPipelinePassed)
	}
	return !apiequality.Semantic.DeepEqual(own(before.Status.Conditions), own(wanted.Status.Conditions))
}

func isPipelinePassed(c porchv1alpha1.Condition) bool {
	return c.Type == porchv1alpha1.ConditionPipelinePassed
}

// rewriteKptfile writes changed gates, metadata and conditions into the Kptfile. It renders the
// package if anything but conditions changed: a condition is about the content as it is.
func (s *Store) rewriteKptfile(ctx context.Context, after *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision, renders, dryRun bool) error {
	files, err := s.Files(ctx, after.Name, after.Content.Digest)
	if err != nil {
		return err
	}
	leave, err := s.renders.acquire(ctx, files)
	if err != nil {
		return err
	}
	defer leave()
	d := draft{
		files: files, gates: wanted.Spec.ReadinessGates, conditions: wanted.Status.Conditions, metadata: wanted.Spec.PackageMetadata,
	}
	if d.deployment, err = s.deploys(ctx, after); err != nil {
		return err
	}
	after.Status.Deployment = d.deployment
	if d.metadata == nil {
		d.metadata = &porchv1alpha1.PackageMetadata{}
	}
	content, err := s.rewritten(ctx, after, d, renders)
	if err != nil {
		return err
	}
	if content.files[kpt.KptfileName] != files[kpt.KptfileName] {
		if err := ownKptfile(after); err != nil {
			return err
		}
	}
	return s.replaceContent(ctx, after, content, dryRun)
}

// rewritten returns a draft with its Kptfile, rendered if it should be. Proposed content is not
// rendered again, because it was reviewed as it is.
func (s *Store) rewritten(ctx context.Context, cr *storev1alpha1.PackageRevision, d draft, renders bool) (*renderedDraft, error) {
	if renders && cr.Spec.Lifecycle == porchv1alpha1.LifecycleDraft {
		return s.renderDraft(ctx, cr.Name, d)
	}
	d.transactionGates = s.TransactionGates
	passed := porchv1alpha1.Condition{Type: porchv1alpha1.ConditionPipelinePassed, Status: porchv1alpha1.ConditionUnknown}
	if i := slices.IndexFunc(cr.Status.Conditions, isPipelinePassed); i >= 0 {
		passed = cr.Status.Conditions[i]
	}
	files, err := d.writeKptfile(d.files, &passed)
	if err != nil {
		return nil, invalidText(cr.Name, err.Error())
	}
	if wrong := files.Check(); len(wrong) > 0 {
		return nil, invalidText(cr.Name, wrong...)
	}
	out := &renderedDraft{draft: draft{files: files}, passed: &passed}
	if err := out.readKptfile(cr.Name); err != nil {
		return nil, err
	}
	return out, nil
}

// replaceContent stores files and sets them, and the upstream that they were made from, in a
// revision, which has its earlier content.
func (s *Store) replaceContent(ctx context.Context, after *storev1alpha1.PackageRevision, content *renderedDraft, dryRun bool) error {
	if err := content.expireConditions(after); err != nil {
		return err
	}
	if err := s.updateUpstream(ctx, after, content.lock, dryRun); err != nil {
		return err
	}
	digest := content.files.Digest()
	if digest != after.Content.Digest && !dryRun {
		if err := s.storeContent(ctx, after.Name, content.files, nil); err != nil {
			return err
		}
	}
	content.applyTo(after, digest)
	return nil
}

// checkGates refuses a lifecycle change if a gate is not met.
func (s *Store) checkGates(cr *storev1alpha1.PackageRevision, from, to porchv1alpha1.PackageRevisionLifecycle) error {
	if !s.EnforceGates || !lifecycle.GatesOf(from, to) {
		return nil
	}
	if unmet := lifecycle.Unmet(&cr.Spec, &cr.Status); len(unmet) > 0 {
		return invalid(cr.Name, lifecycle.FieldErrorf(lifecycleField, "Forbidden: %s", lifecycle.NotReady(unmet)))
	}
	return nil
}

// replace updates a revision unless it changed since it was read as before. If nothing changed, the
// API server writes nothing.
func (s *Store) replace(ctx context.Context, before, after *storev1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	if apiequality.Semantic.DeepEqual(before, after) {
		return s.updateRevision(ctx, after, dryRun)
	}
	return s.write(ctx, after, dryRun)
}

// write updates a revision unless it changed since it was read.
func (s *Store) write(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	// The managedFields of stored revisions are useless: the server is their only writer. They
	// would take half of the time of a metadata list. An empty entry makes the API server drop
	// them.
	cr.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	return s.updateRevision(ctx, cr, dryRun)
}

func (s *Store) updateRevision(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	written, err := s.Revisions(cr.Namespace).Update(ctx, cr, metav1.UpdateOptions{DryRun: dryRunOption(dryRun)})
	if err != nil {
		return nil, TranslateError(err, cr.Name)
	}
	if !dryRun {
		s.cached.add(written.DeepCopy())
	}
	return written, nil
}
