package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// fencedLabel on a stored revision only serves to change its resourceVersion. Nothing reads it.
const fencedLabel = "fenced" + privateSuffix + "at"

// Approve changes the lifecycle of a revision as only the subresource approval may. Of wanted, only
// the lifecycle, managedFields and status.contentDigest are used: the digest is a precondition. The
// argument user is recorded as the publisher. The argument before is as in Update.
func (s *Store) Approve(ctx context.Context, before *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision, user string, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	from, to := before.Spec.Lifecycle, cmp.Or(wanted.Spec.Lifecycle, porchv1alpha1.LifecycleDraft)
	if text := lifecycle.CheckApproval(from, to); text != "" {
		return nil, invalid(before.Name, lifecycle.FieldError{Field: lifecycleField, Message: text})
	}
	if err := checkReviewed(before, wanted.Status.ContentDigest); err != nil {
		return nil, err
	}
	if err := s.checkGates(before, from, to); err != nil {
		return nil, err
	}
	after := before.DeepCopy()
	meta := ServeMeta(before)
	meta.ManagedFields = wanted.ManagedFields
	if err := setServedMeta(after, &meta); err != nil {
		return nil, err
	}
	after.Spec.Lifecycle = to
	if from != porchv1alpha1.LifecycleProposed || to != porchv1alpha1.LifecyclePublished {
		setPrivateLabels(after)
		return s.replace(ctx, before, after, dryRun)
	}
	number, err := s.assignNumber(ctx, after, dryRun)
	if err != nil {
		return nil, err
	}
	after.Spec.Revision = number
	after.Status.PublishedBy = user
	after.Status.PublishedAt = &metav1.Time{Time: s.Clock.Now().UTC().Truncate(time.Second)}
	metav1.SetMetaDataLabel(&after.ObjectMeta, porchv1alpha1.LatestRevisionLabel, "true")
	setPrivateLabels(after)
	after.Status.SelfLock = upgrade.Locate(after)
	published, err := s.replace(ctx, before, after, dryRun)
	if err != nil || dryRun {
		return published, err
	}
	// The revision is published now. If labelling fails, the Housekeeper repeats it.
	if err := s.LabelLatest(ctx, published.Namespace, published.Spec.RepositoryName, published.Spec.PackageName); err != nil {
		return published, nil //nolint:nilerr // see above
	}
	return published, nil
}

// checkReviewed refuses an approval of other content than the user reviewed. A request that names
// no digest has the current one, because it is a change of the current revision.
func checkReviewed(before *storev1alpha1.PackageRevision, digest string) error {
	if digest == "" || digest == before.Status.ContentDigest {
		return nil
	}
	return apierrors.NewConflict(revisionResource, before.Name, fmt.Errorf(
		"precondition failed: digest in precondition: %s, status.contentDigest: %s. The content has changed since it was reviewed", digest, before.Status.ContentDigest))
}

// errNumberHeld is returned if another revision holds the number and may be about to be published
// with it.
var errNumberHeld = errors.New("another revision of the package is being approved")

// assignNumber returns the number with which this revision may be published, and no other revision.
//
// The PackageNumber names the holder of the number. It changes by compare-and-swap only.
//
// If the holder is not published, the number is taken from it after its resourceVersion was changed
// ("fenced"). A request that was about to publish the holder uses the older resourceVersion. It
// fails with a conflict and starts again.
//
// If the holder is published, the highest number is read after that, so the holder's number is
// included.
//
// If the holder was deleted, it may have been published with the number, so the number is not used
// again.
//
// Two revisions therefore never have the same number, whichever replica crashes in between, and
// even if one is deleted before the other is approved. No number of an existing revision is
// skipped, because an unused one is taken over. A Reserver keeps imported numbers free.
func (s *Store) assignNumber(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) (int, error) {
	const patience = 5
	for attempt := 0; ; attempt++ {
		number, err := s.tryAssignNumber(ctx, cr, attempt >= patience, dryRun)
		switch {
		case errors.Is(err, errNumberHeld):
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			if attempt >= 4*patience {
				return 0, Conflict(cr.Name)
			}
		default:
			return number, err
		}
		// The holder needs some milliseconds to publish. Different names wait for different times,
		// so that two revisions do not collide again.
		pause := time.Duration(10+len(cr.Spec.WorkspaceName)%10+5*attempt) * time.Millisecond
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (s *Store) tryAssignNumber(ctx context.Context, cr *storev1alpha1.PackageRevision, force, dryRun bool) (int, error) {
	numbers := s.numbers(cr.Namespace)
	name := numberName(cr)
	held, err := numbers.Get(ctx, name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return 0, TranslateError(err, cr.Name)
	}
	mine := !absent && held.HolderUID == string(cr.UID)
	taken := false
	if !absent && !mine {
		if taken, err = s.fence(ctx, held, cr.Namespace, force, dryRun); err != nil {
			return 0, err
		}
	}
	// This read comes after the holder was checked. If the holder was published in between, it is
	// included.
	highest, err := s.highestNumber(ctx, cr)
	if err != nil {
		return 0, err
	}
	next := highest + 1
	if !absent {
		next = nextNumber(highest, held, taken)
	}
	switch {
	case dryRun, mine && held.Number == next:
		return next, nil
	case absent:
		_, err = numbers.Create(ctx, &storev1alpha1.PackageNumber{
			TypeMeta: numberType, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cr.Namespace},
			Number: next, Holder: cr.Name, HolderUID: string(cr.UID),
		}, metav1.CreateOptions{})
	default:
		held.TypeMeta = numberType
		held.Number, held.Holder, held.HolderUID = next, cr.Name, string(cr.UID)
		_, err = numbers.Update(ctx, held, metav1.UpdateOptions{})
	}
	return next, err
}

// nextNumber returns the number after all numbers that were given: those of existing revisions, of
// the repository, and the one that its holder took.
func nextNumber(highest int, held *storev1alpha1.PackageNumber, taken bool) int {
	last := held.Number
	if !taken {
		last--
	}
	return max(highest, held.Imported, last) + 1
}

// numberType must be set on written objects: reads do not return it.
var numberType = metav1.TypeMeta{APIVersion: storev1alpha1.GroupVersion.String(), Kind: "PackageNumber"}

// numberName returns the name of the PackageNumber of a revision's package.
func numberName(cr *storev1alpha1.PackageRevision) string {
	return cr.Spec.RepositoryName + "." + strings.ReplaceAll(cr.Spec.PackageName, "/", ".")
}

// fence makes sure that the holder cannot be published with its number any more, unless it is
// published already. It reports whether the holder took the number: it is published, or it was
// deleted and may have been published before.
func (s *Store) fence(ctx context.Context, held *storev1alpha1.PackageNumber, namespace string, force, dryRun bool) (taken bool, err error) {
	if held.Holder == "" {
		return true, nil
	}
	holder, err := s.Revisions(namespace).Get(ctx, held.Holder, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, TranslateError(err, held.Holder)
	case string(holder.UID) != held.HolderUID, holder.Spec.Lifecycle.Published():
		return true, nil
	case dryRun:
		return false, nil
	case !force:
		return false, errNumberHeld
	}
	metav1.SetMetaDataLabel(&holder.ObjectMeta, fencedLabel, holder.ResourceVersion)
	_, err = s.write(ctx, holder, false)
	if apierrors.IsNotFound(err) { // it was published and deleted, or only deleted
		return true, nil
	}
	return false, err
}

// highestNumber returns the highest number of a package's revisions, at least 0.
func (s *Store) highestNumber(ctx context.Context, cr *storev1alpha1.PackageRevision) (int, error) {
	all, err := s.list(ctx, cr.Namespace, packageSelector(cr.Spec.RepositoryName, cr.Spec.PackageName))
	if err != nil {
		return 0, fmt.Errorf("list revisions of package %q: %w", cr.Spec.PackageName, err)
	}
	highest := 0
	for i := range all {
		highest = max(highest, all[i].Spec.Revision)
	}
	return highest, nil
}
