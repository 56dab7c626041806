package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

// Create creates a revision. Its name follows from its spec; a different name is refused. The
// argument user is recorded as its author. With dryRun everything is checked and rendered, and
// nothing is stored.
func (s *Store) Create(ctx context.Context, pr *porchv1alpha1.PackageRevision, user string, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	pr = pr.DeepCopy()
	if err := validateAndDefault(pr); err != nil {
		return nil, err
	}
	repository, err := s.repository(ctx, pr)
	if err != nil {
		return nil, err
	}
	if err := s.checkLayout(ctx, pr); err != nil {
		return nil, err
	}
	from, err := s.loadSource(ctx, pr)
	if err != nil {
		return nil, err
	}
	leave, err := s.renders.acquire(ctx, from.files...)
	if err != nil {
		return nil, err
	}
	defer leave()
	src, err := from.build()
	if err != nil {
		return nil, err
	}
	if src.files, err = addPackageContext(src.files, repository, pr.Spec.PackageName); err != nil {
		return nil, invalidText(pr.Name, err.Error())
	}
	if err := src.addSpec(pr); err != nil {
		return nil, invalidText(pr.Name, err.Error())
	}
	src.deployment = repository != nil && repository.Spec.Deployment
	content, err := s.renderDraft(ctx, pr.Name, src.draft)
	if err != nil {
		return nil, err
	}
	cr := &storev1alpha1.PackageRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: storev1alpha1.GroupVersion.String(), Kind: "PackageRevision"},
		ObjectMeta: metav1.ObjectMeta{Name: pr.Name, Namespace: pr.Namespace},
		Spec:       pr.Spec,
		Status:     porchv1alpha1.PackageRevisionStatus{Deployment: src.deployment},
		Content:    src.content,
	}
	if err := setServedMeta(cr, &pr.ObjectMeta); err != nil {
		return nil, err
	}
	if cr.Content.Upstream == "" && cr.Content.UpstreamDigest == "" { // a copy whose upstream is known only from its files
		if err := s.updateUpstream(ctx, cr, content.lock, dryRun); err != nil {
			return nil, err
		}
	}
	digest := content.files.Digest()
	content.applyTo(cr, digest)
	cr.Status.Authors = []string{user}
	if !dryRun {
		if err := s.storeContent(ctx, pr.Name, content.files, src.requiredDigests); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// As soon as the revision exists, others see it. So what follows does not end with the request,
	// and the revision goes only because of a conflict that is known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	made, err := s.Revisions(pr.Namespace).Create(ctx, cr, metav1.CreateOptions{DryRun: dryRunOption(dryRun)})
	if err != nil {
		return nil, TranslateError(err, pr.Name)
	}
	if dryRun {
		return made, nil
	}
	s.cached.add(made.DeepCopy())
	switch other, err := s.recheckLayout(ctx, pr, made); {
	case other != nil:
		return nil, s.undoCreate(ctx, made, err)
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("the revision was created, but it is not known whether it conflicts with another one: %w", err))
	}
	return made, nil
}

// undoCreate deletes a revision whose creation is refused, unless somebody has changed it, and
// returns the reason.
func (s *Store) undoCreate(ctx context.Context, cr *storev1alpha1.PackageRevision, why error) error {
	err := s.Revisions(cr.Namespace).Delete(ctx, cr.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &cr.UID, ResourceVersion: &cr.ResourceVersion}})
	if err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(fmt.Errorf("%w; the revision was created and could not be deleted: %w", why, err))
	}
	return why
}

// validateAndDefault checks what can be checked without reading other objects, and sets defaults.
func validateAndDefault(pr *porchv1alpha1.PackageRevision) error {
	name := lifecycle.Name(pr.Spec.RepositoryName, pr.Spec.PackageName, pr.Spec.WorkspaceName)
	wrong := lifecycle.CheckNames(&pr.Spec)
	if pr.Name != "" && pr.Name != name && len(wrong) == 0 {
		wrong = append(wrong, lifecycle.FieldErrorf("metadata.name", "Invalid value: %q: must be empty or %q, which is <repository>.<package>.<workspaceName>", pr.Name, name))
	}
	wrong = append(wrong, lifecycle.CheckTasks(pr.Spec.Tasks)...)
	if text := lifecycle.CheckCreate(pr.Spec.Lifecycle); text != "" {
		wrong = append(wrong, lifecycle.FieldError{Field: lifecycleField, Message: text})
	}
	wrong = append(wrong, checkLabels(pr.Labels, nil)...)
	if len(wrong) > 0 {
		return invalid(cmp.Or(pr.Name, name), wrong...)
	}
	pr.Name, pr.GenerateName = name, ""
	pr.Spec.Lifecycle = porchv1alpha1.LifecycleDraft
	pr.Spec.Revision = 0
	pr.Spec.Parent = nil
	if len(pr.Spec.Tasks) == 0 {
		pr.Spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeInit, Init: &porchv1alpha1.PackageInitTaskSpec{}}}
	}
	return nil
}

// checkLabels returns the errors in the labels that a user wrote.
func checkLabels(labels, before map[string]string) lifecycle.FieldErrors {
	var wrong lifecycle.FieldErrors
	value, there := labels[porchv1alpha1.LatestRevisionLabel]
	was, wasThere := before[porchv1alpha1.LatestRevisionLabel]
	if there != wasThere || value != was {
		wrong = append(wrong, lifecycle.FieldErrorf("metadata.labels["+porchv1alpha1.LatestRevisionLabel+"]", "Forbidden: the server sets this label"))
	}
	for key := range labels {
		if isPrivate(key) {
			wrong = append(wrong, lifecycle.FieldErrorf("metadata.labels["+key+"]", "Forbidden: the prefix is reserved for the server"))
		}
	}
	slices.SortFunc(wrong, func(a, b lifecycle.FieldError) int { return strings.Compare(a.Field, b.Field) })
	return wrong
}

// repository returns the Repository of a revision, or nil if the API server does not serve
// Repositories at all.
func (s *Store) repository(ctx context.Context, pr *porchv1alpha1.PackageRevision) (*configv1alpha1.Repository, error) {
	// The API server's watch cache is recent enough, unless it has no such Repository.
	repository, err := s.repositories(pr.Namespace).Get(ctx, pr.Spec.RepositoryName, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		repository, err = s.repositories(pr.Namespace).Get(ctx, pr.Spec.RepositoryName, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, nil //nolint:nilnil // then any name is accepted
	case apierrors.IsNotFound(err):
		return nil, invalid(pr.Name, lifecycle.FieldErrorf("spec.repository", "Not found: %q: no Repository of this name in namespace %q", pr.Spec.RepositoryName, pr.Namespace))
	case err != nil:
		return nil, fmt.Errorf("read Repository %q: %w", pr.Spec.RepositoryName, err)
	case repository.DeletionTimestamp != nil:
		return nil, invalid(pr.Name, lifecycle.FieldErrorf("spec.repository", "Invalid value: %q: it is being deleted", pr.Spec.RepositoryName))
	}
	return repository, nil
}

// addSpec adds gates, conditions and metadata from the spec to what the task produced.
func (src *source) addSpec(pr *porchv1alpha1.PackageRevision) error {
	src.gates = append(src.gates, pr.Spec.ReadinessGates...)
	for _, c := range pr.Status.Conditions {
		if c.Type != porchv1alpha1.ConditionTransactionValidated { // no Transaction can be about it yet
			src.conditions = append(src.conditions, c)
		}
	}
	if pr.Spec.PackageMetadata == nil {
		return nil
	}
	kptfile, err := kpt.ParseKptfile(src.files[kpt.KptfileName])
	if err != nil {
		return fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	src.metadata = &porchv1alpha1.PackageMetadata{
		Labels:      mergeMaps(kptfile.Labels(), pr.Spec.PackageMetadata.Labels),
		Annotations: mergeMaps(kptfile.Annotations(), pr.Spec.PackageMetadata.Annotations),
	}
	return nil
}

func mergeMaps(below, above map[string]string) map[string]string {
	out := make(map[string]string, len(below)+len(above))
	maps.Copy(out, below)
	maps.Copy(out, above)
	return out
}

// storeContent stores files, and retains the content of others that the revision will refer to.
func (s *Store) storeContent(ctx context.Context, name string, files kpt.Files, needs []string) error {
	for _, digest := range needs {
		if err := s.Content.Retain(ctx, digest); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("retain the source content of revision %q: %w", name, err))
		}
	}
	if _, err := s.Content.Put(ctx, files); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("store the files of revision %q: %w", name, err))
	}
	return nil
}

func dryRunOption(dryRun bool) []string {
	if dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}
