package repositories

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/repository"
	"github.com/starlinghq/starling/pkg/write"
)

// sync does what has to be done about a Repository, and returns when to look again; 0 is when something changes.
func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	here := newRevisions(c.Watch.RevisionsIn(key.Namespace, key.Name))
	repo := c.Watch.Repository(key.Namespace, key.Name)
	if repo == nil || repo.DeletionTimestamp != nil {
		// Its revisions stay: whoever deletes a Repository and makes it anew, as tools do, loses nothing.
		c.forget(key)
		return 0, c.release(ctx, leaving(here))
	}
	s := c.stateOf(key, repo.UID)
	now := c.Clock.Now()
	if repo.Spec.Type == configv1alpha1.RepositoryTypeHub {
		if err := c.release(ctx, leaving(here)); err != nil {
			return 0, err
		}
		return 0, c.writeStatus(ctx, repo, wantedStatus(repo, here, &s.result, now, now))
	}
	if c.due(key, repo, s, here, now) {
		if err := c.look(ctx, repo, s, here); err != nil {
			return 0, err
		}
		now = c.Clock.Now()
	}
	if err := c.label(ctx, here); err != nil {
		return 0, err
	}
	if err := c.writeStatus(ctx, repo, wantedStatus(repo, here, &s.result, now, s.next)); err != nil {
		return 0, err
	}
	next := s.next
	if at := runOnceAt(repo); at != nil && at.After(now) && at.Before(next) {
		next = *at
	}
	return max(next.Sub(now), time.Millisecond), nil
}

// label sets the label of the latest revision right. What was imported a moment ago brings us here again.
func (c *Controller) label(ctx context.Context, here *revisions) error {
	for _, changed := range relabelled(here) {
		if err := c.update(ctx, changed, "latest"); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("label %s: %w", changed.Name, err)
		}
	}
	return nil
}

func runOnceAt(repo *configv1alpha1.Repository) *time.Time {
	if repo.Spec.Sync == nil || repo.Spec.Sync.RunOnceAt == nil || repo.Spec.Sync.RunOnceAt.Equal(repo.Status.ObservedRunOnceAt) {
		return nil
	}
	return &repo.Spec.Sync.RunOnceAt.Time
}

// due tells whether it is time to look at what is outside.
func (c *Controller) due(key types.NamespacedName, repo *configv1alpha1.Repository, s *state, here *revisions, now time.Time) bool {
	touched := c.takeTouched(key)
	once := runOnceAt(repo)
	switch {
	case !s.looked, touched, s.generation != repo.Generation, !now.Before(s.next):
		return true
	case s.result.failed != nil:
		return false // until it is tried again
	case once != nil && !now.Before(*once):
		return true
	case repo.Annotations[configv1alpha1.AcceptHistoryAnnotation] != "" && repo.Annotations[configv1alpha1.AcceptHistoryAnnotation] == s.refused[0]:
		return true
	case len(leaving(here)) > 0:
		return true
	}
	if s.result.exportFailed != nil {
		return false
	}
	for _, cr := range toExport(&repo.Spec, here) {
		if !s.knownConflict(cr) {
			return true
		}
	}
	// A revision was in the way of a tag and is gone.
	for _, j := range s.result.judged {
		if j.moved != "" && !slices.ContainsFunc(here.all, func(cr *storev1alpha1.PackageRevision) bool { return string(cr.UID) == j.uid }) {
			return true
		}
	}
	return false
}

// knownConflict tells whether the repository was seen to have other content under the tag of a revision.
func (s *state) knownConflict(cr *storev1alpha1.PackageRevision) bool {
	for _, j := range s.result.judged {
		if j.conflict && j.uid == string(cr.UID) {
			return true
		}
	}
	return false
}

// look looks at what is outside and brings the two together. What fails outside is part of the result; an error is about the WDS.
func (c *Controller) look(ctx context.Context, repo *configv1alpha1.Repository, s *state, here *revisions) error {
	now := c.Clock.Now()
	schedule, err := parseSchedule(repo.Spec.Sync)
	if err != nil {
		s.result.failed = repository.Errorf(repository.InvalidSpec, "%w", err)
		s.looked, s.generation, s.next = true, repo.Generation, now.Add(24*time.Hour)
		return nil
	}
	l := &looker{Controller: c, repo: repo, state: s, here: here, key: types.NamespacedName{Namespace: repo.Namespace, Name: repo.Name}}
	again, err := l.run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	s.looked, s.generation = true, repo.Generation
	if s.result.failed != nil || s.result.exportFailed != nil {
		s.failures++
	} else {
		s.failures = 0
	}
	now = c.Clock.Now()
	s.next = nextLook(schedule, now, s.failures, c.MinInterval)
	if again {
		s.next = now
	}
	logger := klog.FromContext(ctx)
	switch {
	case s.result.failed != nil:
		logger.V(2).Info("Repository could not be read", logReason, s.result.failed.Error())
	case s.result.exportFailed != nil:
		logger.V(2).Info("Revisions could not be exported", logReason, s.result.exportFailed.Error())
	}
	return nil
}

// logReason is a key of log lines.
const logReason = "reason"

// writeStatus writes the status if it says something new.
func (c *Controller) writeStatus(ctx context.Context, repo *configv1alpha1.Repository, status configv1alpha1.RepositoryStatus) error {
	if apiequality.Semantic.DeepEqual(repo.Status, status) {
		return nil
	}
	changed := repo.DeepCopy()
	changed.Status = status
	changed.APIVersion, changed.Kind = configv1alpha1.GroupVersion.String(), "Repository"
	target := write.Target{Resource: configv1alpha1.Repositories, Namespace: repo.Namespace, Name: repo.Name, Subresource: "status"}
	_, err := c.Writer.Update(ctx, target, changed, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func revisionTarget(cr *storev1alpha1.PackageRevision) write.Target {
	return write.Target{Resource: storev1alpha1.PackageRevisions, Namespace: cr.Namespace, Name: cr.Name}
}

// update writes a changed copy of a revision.
func (c *Controller) update(ctx context.Context, cr *storev1alpha1.PackageRevision, reason string) error {
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	written, err := c.Writer.Update(ctx, revisionTarget(cr), cr, reason)
	if err == nil {
		cr.ResourceVersion = written.ResourceVersion
	}
	return err
}

// release lets revisions go that are being deleted.
func (c *Controller) release(ctx context.Context, all []*storev1alpha1.PackageRevision) error {
	for _, cr := range all {
		changed := cr.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(name string) bool { return name == Finalizer })
		if err := c.update(ctx, changed, "release"); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("let %s go: %w", cr.Name, err)
		}
	}
	return nil
}

// used tells what was made of a revision: the name of one of them, "" for nothing.
func (c *Controller) used(cr *storev1alpha1.PackageRevision) (string, error) {
	found, err := c.Watch.Revisions.GetIndexer().ByIndex(byUpstream, cr.Namespace+"/"+cr.Name)
	if err != nil {
		return "", err
	}
	names := map[string]bool{}
	for _, obj := range found {
		if name, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		return name, nil
	}
	return "", nil
}
