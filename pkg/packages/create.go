package packages

import (
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
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
)

// Points between two writes. A test may end the process at one.
const (
	PointCreateContent   = "create/content-is-kept"
	PointCreateRevision  = "create/revision-is-kept"
	PointUpdateContent   = "update/content-is-kept"
	PointUpdateRevision  = "update/revision-is-kept"
	PointProposeRevision = "propose/revision-is-kept"
	PointApproveNumber   = "approve/number-is-held"
	PointApproveRevision = "approve/revision-is-kept"
	PointDeleteLabel     = "delete/label-is-moved"
	PointDeleteRevision  = "delete/revision-is-gone"
)

// Points lists all of them.
func Points() []string {
	return []string{
		PointCreateContent, PointCreateRevision, PointUpdateContent, PointUpdateRevision, PointProposeRevision,
		PointApproveNumber, PointApproveRevision, PointDeleteLabel, PointDeleteRevision,
	}
}

// Create makes a revision. It has the name that follows from its spec; another one is refused. With dryRun nothing is kept, but all is
// checked and rendered.
func (s *Store) Create(ctx context.Context, pr *porchv1alpha1.PackageRevision, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	pr = pr.DeepCopy()
	if err := prepare(pr); err != nil {
		return nil, err
	}
	repository, err := s.repository(ctx, pr)
	if err != nil {
		return nil, err
	}
	if err := s.checkPlace(ctx, pr); err != nil {
		return nil, err
	}
	from, err := s.take(ctx, pr)
	if err != nil {
		return nil, err
	}
	leave, err := s.room.enter(ctx, from.files...)
	if err != nil {
		return nil, err
	}
	defer leave()
	src, err := from.mix()
	if err != nil {
		return nil, err
	}
	if src.files, err = addContext(src.files, repository, pr.Spec.PackageName); err != nil {
		return nil, invalid(pr.Name, err.Error())
	}
	if err := src.add(pr); err != nil {
		return nil, invalid(pr.Name, err.Error())
	}
	content, err := s.seal(ctx, pr.Name, src.draft)
	if err != nil {
		return nil, err
	}
	cr := &storev1alpha1.PackageRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: storev1alpha1.GroupVersion.String(), Kind: "PackageRevision"},
		ObjectMeta: metav1.ObjectMeta{Name: pr.Name, Namespace: pr.Namespace},
		Spec:       pr.Spec,
		Status:     porchv1alpha1.PackageRevisionStatus{Deployment: repository != nil && repository.Spec.Deployment},
		Content:    src.content,
	}
	if err := setMeta(cr, &pr.ObjectMeta); err != nil {
		return nil, err
	}
	if cr.Content.Upstream == "" && cr.Content.UpstreamDigest == "" { // a copy of what says so in its files only
		if err := s.follow(ctx, cr, content.lock, dryRun); err != nil {
			return nil, err
		}
	}
	digest := content.files.Digest()
	content.into(cr, digest)
	if !dryRun {
		if err := s.keep(ctx, pr.Name, content.files, src.needs); err != nil {
			return nil, err
		}
		s.Reached(PointCreateContent)
	}
	made, err := s.Revisions(pr.Namespace).Create(ctx, cr, metav1.CreateOptions{DryRun: dryRuns(dryRun)})
	if err != nil {
		return nil, Explain(err, pr.Name)
	}
	if dryRun {
		return made, nil
	}
	s.seen.add(made.DeepCopy())
	s.Reached(PointCreateRevision)
	if err := s.checkPlaceAgain(ctx, pr, made); err != nil {
		return nil, s.withdraw(ctx, made, err)
	}
	return made, nil
}

// withdraw deletes a revision that should not have been made, and returns why.
func (s *Store) withdraw(ctx context.Context, cr *storev1alpha1.PackageRevision, why error) error {
	err := s.Revisions(cr.Namespace).Delete(context.WithoutCancel(ctx), cr.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &cr.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(fmt.Errorf("%w; it was created nevertheless, and could not be deleted: %w", why, err))
	}
	return why
}

// prepare checks what can be checked without looking at others, and fills in what the server says.
func prepare(pr *porchv1alpha1.PackageRevision) error {
	name := lifecycle.Name(pr.Spec.RepositoryName, pr.Spec.PackageName, pr.Spec.WorkspaceName)
	wrong := lifecycle.CheckNames(&pr.Spec)
	if pr.Name != "" && pr.Name != name && len(wrong) == 0 {
		wrong = append(wrong, fmt.Sprintf("metadata.name: Invalid value: %q: leave it empty; the name is <repository>.<package>.<workspaceName>, here %q", pr.Name, name))
	}
	wrong = append(wrong, lifecycle.CheckTasks(pr.Spec.Tasks)...)
	if text := lifecycle.CheckCreate(pr.Spec.Lifecycle); text != "" {
		wrong = append(wrong, text)
	}
	wrong = append(wrong, checkLabels(pr.Labels, nil)...)
	if len(wrong) > 0 {
		return invalid(pr.Name, wrong...)
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

// checkLabels returns what is wrong with the labels that a user wrote.
func checkLabels(labels, before map[string]string) []string {
	var wrong []string
	value, there := labels[porchv1alpha1.LatestRevisionLabel]
	was, wasThere := before[porchv1alpha1.LatestRevisionLabel]
	if there != wasThere || value != was {
		wrong = append(wrong, fmt.Sprintf("metadata.labels[%s]: Forbidden: is set by the server", porchv1alpha1.LatestRevisionLabel))
	}
	for key := range labels {
		if isPrivate(key) {
			wrong = append(wrong, fmt.Sprintf("metadata.labels[%s]: Forbidden: labels of store.starling.io are the server's", key))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// repository returns the Repository that a revision is to lie in; nil where Repositories are not served at all.
func (s *Store) repository(ctx context.Context, pr *porchv1alpha1.PackageRevision) (*configv1alpha1.Repository, error) {
	// What the API server remembers is enough, unless it remembers none.
	repository, err := s.repositories(pr.Namespace).Get(ctx, pr.Spec.RepositoryName, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		repository, err = s.repositories(pr.Namespace).Get(ctx, pr.Spec.RepositoryName, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, nil //nolint:nilnil // then any name will do
	case apierrors.IsNotFound(err):
		return nil, invalid(pr.Name, fmt.Sprintf("spec.repository: Not found: %q: there is no such Repository in namespace %s", pr.Spec.RepositoryName, pr.Namespace))
	case err != nil:
		return nil, fmt.Errorf("read Repository %s: %w", pr.Spec.RepositoryName, err)
	case repository.DeletionTimestamp != nil:
		return nil, invalid(pr.Name, fmt.Sprintf("spec.repository: Invalid value: %q: is being deleted", pr.Spec.RepositoryName))
	}
	return repository, nil
}

// add puts what the author said beside the task.
func (src *source) add(pr *porchv1alpha1.PackageRevision) error {
	src.gates = append(src.gates, pr.Spec.ReadinessGates...)
	src.conditions = append(src.conditions, pr.Status.Conditions...)
	if pr.Spec.PackageMetadata == nil {
		return nil
	}
	kptfile, err := kptpkg.ParseKptfile(src.files[kptpkg.KptfileName])
	if err != nil {
		return fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	src.metadata = &porchv1alpha1.PackageMetadata{
		Labels:      overlaid(kptfile.Labels(), pr.Spec.PackageMetadata.Labels),
		Annotations: overlaid(kptfile.Annotations(), pr.Spec.PackageMetadata.Annotations),
	}
	return nil
}

func overlaid(below, above map[string]string) map[string]string {
	out := make(map[string]string, len(below)+len(above))
	for _, layer := range []map[string]string{below, above} {
		maps.Copy(out, layer)
	}
	return out
}

// keep puts files, and keeps what others put that the revision will name.
func (s *Store) keep(ctx context.Context, name string, files kptpkg.Files, needs []string) error {
	for _, digest := range needs {
		if err := s.Content.Keep(ctx, digest); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("keep what %s is made of: %w", name, err))
		}
	}
	if _, err := s.Content.Put(ctx, files); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("keep the files of %s: %w", name, err))
	}
	return nil
}

func dryRuns(dryRun bool) []string {
	if dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// names of a list of revisions, a few of them.
func names(list []storev1alpha1.PackageRevision) string {
	const many = 3
	var out []string
	for i := range list {
		if i == many {
			out = append(out, fmt.Sprintf("… and %d more", len(list)-many))
			break
		}
		out = append(out, list[i].Name)
	}
	return strings.Join(out, ", ")
}
