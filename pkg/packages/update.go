package packages

import (
	"context"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
)

// Update makes of what is kept what the user wants. Before is what the user's wish was formed on, and is written only if it is still
// that. Before must not be used afterwards.
func (s *Store) Update(ctx context.Context, before *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	to := wanted.Spec.Lifecycle
	if to == "" {
		to = porchv1alpha1.LifecycleDraft
	}
	from := before.Spec.Lifecycle
	var wrong []string
	if text := lifecycle.CheckUpdate(from, to); text != "" {
		wrong = append(wrong, text)
	}
	wrong = append(wrong, lifecycle.CheckSpecUpdate(&before.Spec, &wanted.Spec)...)
	wrong = append(wrong, checkLabels(wanted.Labels, before.Labels)...)
	conditions := conditionsChange(before, wanted)
	if conditions && from.Published() {
		wrong = append(wrong, fmt.Sprintf("status.conditions: Forbidden: may be changed in a Draft and in a Proposed revision only; the revision is %s", from))
	}
	if len(wrong) > 0 {
		return nil, invalid(before.Name, wrong...)
	}
	after := before.DeepCopy()
	if err := setMeta(after, &wanted.ObjectMeta); err != nil {
		return nil, err
	}
	setPrivateLabels(after)
	if len(wanted.Status.Conditions) == 0 {
		wanted = wanted.DeepCopy()
		wanted.Status.Conditions = before.Status.Conditions
	}
	rewrite := conditions ||
		!apiequality.Semantic.DeepEqual(gatesOf(before.Spec.ReadinessGates), gatesOf(wanted.Spec.ReadinessGates)) ||
		!apiequality.Semantic.DeepEqual(before.Spec.PackageMetadata, wanted.Spec.PackageMetadata)
	if rewrite {
		if err := s.rewrite(ctx, after, wanted, dryRun); err != nil {
			return nil, err
		}
	}
	if err := s.gate(after, from, to); err != nil {
		return nil, err
	}
	after.Spec.Lifecycle = to
	written, err := s.replace(ctx, before, after, dryRun)
	if err == nil && !dryRun {
		point := PointUpdateRevision
		if from != to {
			point = PointProposeRevision
		}
		s.Reached(point)
	}
	return written, err
}

// conditionsChange tells whether the user says other conditions than are kept. That of the pipeline is not the user's; and who says
// none speaks of the spec alone.
func conditionsChange(before *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision) bool {
	if len(wanted.Status.Conditions) == 0 {
		return false
	}
	own := func(conditions []porchv1alpha1.Condition) []porchv1alpha1.Condition {
		return slices.DeleteFunc(slices.Clone(conditions), func(c porchv1alpha1.Condition) bool { return c.Type == porchv1alpha1.ConditionPipelinePassed })
	}
	return !apiequality.Semantic.DeepEqual(own(before.Status.Conditions), own(wanted.Status.Conditions))
}

// rewrite puts gates, metadata and conditions that the user changed into the Kptfile, and renders the package if that may change it.
func (s *Store) rewrite(ctx context.Context, after *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision, dryRun bool) error {
	files, err := s.Files(ctx, after)
	if err != nil {
		return err
	}
	leave, err := s.room.enter(ctx, files)
	if err != nil {
		return err
	}
	defer leave()
	d := draft{
		files: files, gates: wanted.Spec.ReadinessGates, conditions: wanted.Status.Conditions, metadata: wanted.Spec.PackageMetadata,
	}
	if d.metadata == nil {
		d.metadata = &porchv1alpha1.PackageMetadata{}
	}
	content, err := s.reseal(ctx, after, d)
	if err != nil {
		return err
	}
	return s.replaceContent(ctx, after, content, dryRun)
}

// reseal seals a draft. Content that was proposed is not rendered again: it was looked at as it is.
func (s *Store) reseal(ctx context.Context, cr *storev1alpha1.PackageRevision, d draft) (*sealed, error) {
	if cr.Spec.Lifecycle == porchv1alpha1.LifecycleDraft {
		return s.seal(ctx, cr.Name, d)
	}
	i := slices.IndexFunc(cr.Status.Conditions, func(c porchv1alpha1.Condition) bool { return c.Type == porchv1alpha1.ConditionPipelinePassed })
	passed := porchv1alpha1.Condition{Type: porchv1alpha1.ConditionPipelinePassed, Status: porchv1alpha1.ConditionUnknown}
	if i >= 0 {
		passed = cr.Status.Conditions[i]
	}
	files, err := d.write(d.files, &passed)
	if err != nil {
		return nil, invalid(cr.Name, err.Error())
	}
	if wrong := files.Check(); len(wrong) > 0 {
		return nil, invalid(cr.Name, wrong...)
	}
	out := &sealed{files: files}
	if err := out.read(cr.Name); err != nil {
		return nil, err
	}
	return out, nil
}

// replaceContent keeps files and has a revision name them, and what they say they were made from.
func (s *Store) replaceContent(ctx context.Context, after *storev1alpha1.PackageRevision, content *sealed, dryRun bool) error {
	if err := s.follow(ctx, after, content.lock, dryRun); err != nil {
		return err
	}
	digest := content.files.Digest()
	if digest != after.Content.Digest && !dryRun {
		if err := s.keep(ctx, after.Name, content.files, nil); err != nil {
			return err
		}
		s.Reached(PointUpdateContent)
	}
	content.into(after, digest)
	return nil
}

// gate refuses a step that the revision is not ready for.
func (s *Store) gate(cr *storev1alpha1.PackageRevision, from, to porchv1alpha1.PackageRevisionLifecycle) error {
	if !s.EnforceGates || !lifecycle.GatesOf(from, to) {
		return nil
	}
	if unmet := lifecycle.Unmet(cr.Spec.ReadinessGates, cr.Status.Conditions); len(unmet) > 0 {
		return invalid(cr.Name, "spec.lifecycle: Forbidden: "+lifecycle.NotReady(unmet))
	}
	return nil
}

// replace updates a revision that was read as before, if it is still that. Nothing is written if nothing changed: the API server sees to it.
func (s *Store) replace(ctx context.Context, before, after *storev1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	if apiequality.Semantic.DeepEqual(before, after) {
		return s.put(ctx, after, dryRun)
	}
	return s.write(ctx, after, dryRun)
}

// write updates a revision that was changed, if it is still what it was.
func (s *Store) write(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	// Who wrote what is kept, in what is served: here it says nothing, and the API server takes half of the time of a list of metadata for
	// it. This has it keep none from now on.
	cr.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	return s.put(ctx, cr, dryRun)
}

func (s *Store) put(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	written, err := s.Revisions(cr.Namespace).Update(ctx, cr, metav1.UpdateOptions{DryRun: dryRuns(dryRun)})
	if err != nil {
		return nil, Explain(err, cr.Name)
	}
	if !dryRun {
		s.seen.add(written.DeepCopy())
	}
	return written, nil
}
