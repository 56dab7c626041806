package repositories

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/writer"
)

// sync synchronizes a Repository with its repository, when that is due, and writes its status.
func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (worker.Result, error) {
	here := newRevisions(c.Watch.RevisionsIn(key.Namespace, key.Name))
	repo := c.Watch.Repositories.Get(key.Namespace, key.Name)
	if repo == nil || repo.DeletionTimestamp != nil {
		// Its revisions stay: tools that delete and re-create a Repository lose nothing.
		c.forget(key)
		return worker.Result{}, c.release(ctx, terminating(here))
	}
	s := c.stateOf(key, repo)
	now := c.clock.Now()
	if repo.Spec.Type == configv1alpha1.RepositoryTypeHub {
		if err := c.release(ctx, terminating(here)); err != nil {
			return worker.Result{}, err
		}
		return worker.Result{}, c.writeStatus(ctx, repo, desiredStatus(repo, here, &s.result, now, now))
	}
	if due(repo, s, here, now) {
		if err := c.syncRemote(ctx, repo, s, here); err != nil {
			return worker.Result{}, err
		}
		now = c.clock.Now()
	}
	if err := c.label(ctx, here); err != nil {
		return worker.Result{}, err
	}
	if err := c.writeStatus(ctx, repo, desiredStatus(repo, here, &s.result, now, s.next)); err != nil {
		return worker.Result{}, err
	}
	next := s.next
	if at := runOnceAt(repo); at != nil && at.After(now) && at.Before(next) {
		next = *at
	}
	return worker.Result{After: max(next.Sub(now), time.Millisecond)}, nil
}

// label corrects the label of the latest revision. Revisions that were just imported requeue the
// Repository.
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

// due reports whether a pass is due.
func due(repo *configv1alpha1.Repository, s *state, here *revisions, now time.Time) bool {
	secretChanged := s.secretChanged.Swap(false)
	once := runOnceAt(repo)
	switch {
	case !s.synced, secretChanged, s.generation != repo.Generation, !now.Before(s.next):
		return true
	case s.result.failed != nil:
		return false // until the next retry
	case once != nil && !now.Before(*once):
		return true
	case repo.Annotations[configv1alpha1.AcceptHistoryAnnotation] != "" && repo.Annotations[configv1alpha1.AcceptHistoryAnnotation] == s.refused[0]:
		return true
	case len(terminating(here)) > 0:
		return true
	case asksAgain(repo) != "" && asksAgain(repo) != s.result.asked:
		return true
	case acceptedBranch(repo, &s.result) != "" && len(behindBranch(here)) > 0:
		return true
	}
	for tag, j := range s.result.findings {
		if accepted(repo, tag, j) {
			return true
		}
	}
	if s.result.exportFailed != nil || s.result.loss.reason != "" {
		return false
	}
	for _, cr := range toExport(&repo.Spec, here) {
		if _, known := conflictOf(s.result.findings, cr); !known {
			return true
		}
	}
	// A revision that conflicted with a tag has been deleted.
	for _, j := range s.result.findings {
		if j.moved != "" && !slices.ContainsFunc(here.all, func(cr *storev1alpha1.PackageRevision) bool { return string(cr.UID) == j.uid }) {
			return true
		}
	}
	return false
}

// syncRemote makes a pass. Failures of the repository are part of the result; an error is about the
// WDS.
func (c *Controller) syncRemote(ctx context.Context, repo *configv1alpha1.Repository, s *state, here *revisions) error {
	now := c.clock.Now()
	schedule, err := parseSchedule(repo.Spec.Sync)
	if err != nil {
		s.result.failed = remote.Errorf(remote.InvalidSpec, "%w", err)
		s.synced, s.generation, s.next = true, repo.Generation, now.Add(24*time.Hour)
		return nil
	}
	p := &pass{Controller: c, repo: repo, state: s, here: here}
	again, err := p.run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	s.synced, s.generation = true, repo.Generation
	if s.result.failed != nil || s.result.exportFailed != nil {
		s.failures++
	} else {
		s.failures = 0
	}
	now = c.clock.Now()
	s.next = nextSync(schedule, now, s.failures, c.MinInterval)
	if again {
		s.next = now
	}
	logger := klog.FromContext(ctx)
	switch {
	case s.result.failed != nil:
		logger.V(2).Info("Cannot read repository; will retry", logging.Reason, s.result.failed.Error())
	case s.result.exportFailed != nil:
		logger.V(2).Info("Cannot export revisions; will retry", logging.Reason, s.result.exportFailed.Error())
	}
	return nil
}

// writeStatus writes the status if it changed.
func (c *Controller) writeStatus(ctx context.Context, repo *configv1alpha1.Repository, status configv1alpha1.RepositoryStatus) error {
	if apiequality.Semantic.DeepEqual(repo.Status, status) {
		return nil
	}
	changed := repo.DeepCopy()
	changed.Status = status
	changed.APIVersion, changed.Kind = configv1alpha1.GroupVersion.String(), "Repository"
	target := writer.Target{Resource: configv1alpha1.Repositories, Namespace: repo.Namespace, Name: repo.Name, Subresource: "status"}
	_, err := c.writer.Update(ctx, target, changed, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func revisionTarget(cr *storev1alpha1.PackageRevision) writer.Target {
	return writer.Target{Resource: storev1alpha1.PackageRevisions, Namespace: cr.Namespace, Name: cr.Name}
}

// update writes a changed copy of a revision.
func (c *Controller) update(ctx context.Context, cr *storev1alpha1.PackageRevision, reason string) error {
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	written, err := c.writer.Update(ctx, revisionTarget(cr), cr, reason)
	if err == nil {
		cr.ResourceVersion = written.ResourceVersion
	}
	return err
}

// release removes our finalizer from revisions that are being deleted.
func (c *Controller) release(ctx context.Context, all []*storev1alpha1.PackageRevision) error {
	for _, cr := range all {
		changed := cr.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(name string) bool { return name == Finalizer })
		if err := c.update(ctx, changed, "release"); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the finalizer of %s: %w", cr.Name, err)
		}
	}
	return nil
}
