package packages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
	"github.com/starlinghq/starling/pkg/core/kptpkg/upgrade"
)

// fencedLabel of what is kept changes its resourceVersion, and means nothing else.
const fencedLabel = "fenced" + privateSuffix + "at"

// Approve takes a revision where only the subresource approval leads, for a user. Nothing of wanted but its lifecycle and the record of
// who wrote that counts. Before is as in Update.
func (s *Store) Approve(ctx context.Context, before *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevision, user string, dryRun bool) (*storev1alpha1.PackageRevision, error) {
	from, to := before.Spec.Lifecycle, wanted.Spec.Lifecycle
	if to == "" {
		to = porchv1alpha1.LifecycleDraft
	}
	if text := lifecycle.CheckApproval(from, to); text != "" {
		return nil, invalid(before.Name, "spec.lifecycle: "+text)
	}
	if err := s.gate(before, from, to); err != nil {
		return nil, err
	}
	after := before.DeepCopy()
	meta := ServeMeta(before)
	meta.ManagedFields = wanted.ManagedFields
	if err := setMeta(after, &meta); err != nil {
		return nil, err
	}
	after.Spec.Lifecycle = to
	if from != porchv1alpha1.LifecycleProposed || to != porchv1alpha1.LifecyclePublished {
		setPrivateLabels(after)
		return s.replace(ctx, before, after, dryRun)
	}
	number, err := s.number(ctx, after, dryRun)
	if err != nil {
		return nil, err
	}
	if !dryRun {
		s.Reached(PointApproveNumber)
	}
	after.Spec.Revision = number
	after.Status.PublishedBy = user
	after.Status.PublishedAt = &metav1.Time{Time: s.Clock.Now().UTC().Truncate(time.Second)}
	if after.Labels == nil {
		after.Labels = map[string]string{}
	}
	after.Labels[porchv1alpha1.LatestRevisionLabel] = "true"
	setPrivateLabels(after)
	after.Status.SelfLock = upgrade.Locate(after)
	published, err := s.replace(ctx, before, after, dryRun)
	if err != nil || dryRun {
		return published, err
	}
	s.Reached(PointApproveRevision)
	// Approved is approved: if this fails, it is done later.
	if err := s.Relabel(ctx, published.Namespace, published.Spec.RepositoryName, published.Spec.PackageName); err != nil {
		return published, nil //nolint:nilerr // see above
	}
	return published, nil
}

// errTaken says that another revision holds the number and may be about to be published with it.
var errTaken = errors.New("another revision of the package is being approved")

// number returns the revision number that is to be written into a revision that was read before, and into no other.
//
// The number belongs to the holder that the PackageNumber names, which changes by compare-and-swap only. Who finds a holder that is not
// published takes the number over after it has changed that one's resourceVersion: whoever was about to publish it, with the
// resourceVersion from before it held the number, then fails, and begins anew. Who finds a holder that is published looks for the
// highest number after that, so it sees this one. So two revisions never have the same number, whoever dies in between; and since a
// number is taken over, none is left out either. Numbers that come from outside are kept free by a Reserver.
func (s *Store) number(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) (int, error) {
	const patience = 5
	for attempt := 0; ; attempt++ {
		number, err := s.tryNumber(ctx, cr, attempt >= patience, dryRun)
		switch {
		case errors.Is(err, errTaken):
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			if attempt >= 4*patience {
				return 0, conflict(cr.Name)
			}
		default:
			return number, err
		}
		// Who holds it needs some milliseconds to publish. Different names wait differently, so they do not meet again.
		pause := time.Duration(10+len(cr.Spec.WorkspaceName)%10+5*attempt) * time.Millisecond
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (s *Store) tryNumber(ctx context.Context, cr *storev1alpha1.PackageRevision, force, dryRun bool) (int, error) {
	numbers := s.numbers(cr.Namespace)
	name := numberName(cr)
	held, err := numbers.Get(ctx, name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return 0, Explain(err, cr.Name)
	}
	mine := !absent && held.HolderUID == string(cr.UID)
	if !absent && !mine && !dryRun {
		if err := s.fence(ctx, held, cr.Namespace, force); err != nil {
			return 0, err
		}
	}
	// After the holder was looked at: if it was published meanwhile, it is among these.
	highest, err := s.highest(ctx, cr)
	if err != nil {
		return 0, err
	}
	next := highest + 1
	if !absent {
		next = max(highest, held.Imported) + 1
	}
	switch {
	case dryRun, mine && held.Number == next:
		return next, nil
	case absent:
		_, err = numbers.Create(ctx, &storev1alpha1.PackageNumber{
			TypeMeta:   metav1.TypeMeta{APIVersion: storev1alpha1.GroupVersion.String(), Kind: "PackageNumber"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cr.Namespace},
			Number:     next, Holder: cr.Name, HolderUID: string(cr.UID),
		}, metav1.CreateOptions{})
	default:
		held.APIVersion, held.Kind = storev1alpha1.GroupVersion.String(), "PackageNumber"
		held.Number, held.Holder, held.HolderUID = next, cr.Name, string(cr.UID)
		_, err = numbers.Update(ctx, held, metav1.UpdateOptions{})
	}
	return next, err
}

// numberName is the name of the PackageNumber of a revision's package.
func numberName(cr *storev1alpha1.PackageRevision) string {
	return cr.Spec.RepositoryName + "." + strings.ReplaceAll(cr.Spec.PackageName, "/", ".")
}

// fence makes sure that the holder of a number cannot be published with it any more, unless it was.
func (s *Store) fence(ctx context.Context, held *storev1alpha1.PackageNumber, namespace string, force bool) error {
	if held.Holder == "" {
		return nil
	}
	holder, err := s.Revisions(namespace).Get(ctx, held.Holder, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return Explain(err, held.Holder)
	case string(holder.UID) != held.HolderUID, holder.Spec.Lifecycle.Published():
		return nil
	case !force:
		return errTaken
	}
	if holder.Labels == nil {
		holder.Labels = map[string]string{}
	}
	holder.Labels[fencedLabel] = holder.ResourceVersion
	_, err = s.write(ctx, holder, false)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// highest is the highest number of a package, of 0 and up.
func (s *Store) highest(ctx context.Context, cr *storev1alpha1.PackageRevision) (int, error) {
	all, err := s.list(ctx, cr.Namespace, ofPackage(cr.Spec.RepositoryName, cr.Spec.PackageName))
	if err != nil {
		return 0, fmt.Errorf("find the last revision of %s: %w", cr.Spec.PackageName, err)
	}
	highest := 0
	for i := range all {
		highest = max(highest, all[i].Spec.Revision)
	}
	return highest, nil
}
