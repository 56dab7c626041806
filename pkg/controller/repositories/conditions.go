package repositories

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/repository"
)

const (
	// maxErrors is how many packages status.errors tells of.
	maxErrors = 20
	// maxNamed is how many things a message names.
	maxNamed = 5
	// heartbeat is how old status.lastFullSyncTime may be: a look that found nothing new is not worth a write each time.
	heartbeat = time.Hour
)

// result is what the last look at a repository came to.
type result struct {
	// failed is why it could not be read whole; nil if it was.
	failed error
	// commit is what the placeholders are of.
	commit string
	// rewritten says how the branch was; empty if it was not.
	rewritten string
	// missing and moved are tags; problems are packages.
	missing  []string
	judged   map[string]judgement
	problems []configv1alpha1.RepositoryError
	// waiting is how many revisions are to be exported yet; conflicts are those that cannot be.
	waiting      int
	conflicts    []string
	exportFailed error
}

// wantedStatus returns the status that a Repository should have.
func wantedStatus(repo *configv1alpha1.Repository, here *revisions, r *result, now, next time.Time) configv1alpha1.RepositoryStatus {
	status := *repo.Status.DeepCopy()
	status.ObservedGeneration = repo.Generation
	status.PackageCount, status.Packages = counts(here)
	if repo.Spec.Type == configv1alpha1.RepositoryTypeHub {
		status.Errors = nil
		setCondition(&status, repo, configv1alpha1.RepositoryConditionReady, metav1.ConditionTrue, configv1alpha1.ReasonReady, "", now)
		return status
	}
	if r.failed != nil {
		setCondition(&status, repo, configv1alpha1.RepositoryConditionReady, metav1.ConditionFalse, string(repository.KindOf(r.failed)), message(r.failed), now)
	} else {
		setCondition(&status, repo, configv1alpha1.RepositoryConditionReady, metav1.ConditionTrue, configv1alpha1.ReasonReady, "", now)
		consistent(&status, repo, r, now)
		status.GitCommitHash = r.commit
		status.Errors = errorsOf(r)
		if repo.Spec.Sync != nil && repo.Spec.Sync.RunOnceAt != nil && !now.Before(repo.Spec.Sync.RunOnceAt.Time) {
			status.ObservedRunOnceAt = repo.Spec.Sync.RunOnceAt.DeepCopy()
		}
	}
	exported(&status, repo, r, now)
	changed := !apiequality.Semantic.DeepEqual(status, repo.Status)
	if r.failed == nil && (changed || status.LastFullSyncTime == nil || now.Sub(status.LastFullSyncTime.Time) >= heartbeat) {
		status.LastFullSyncTime = &metav1.Time{Time: now.UTC().Truncate(time.Second)}
	}
	// Looks that are nearer than that are too many to tell of each.
	status.NextFullSyncTime = nil
	if next.Sub(now) >= heartbeat {
		status.NextFullSyncTime = &metav1.Time{Time: next.UTC().Truncate(time.Second)}
	}
	return status
}

func consistent(status *configv1alpha1.RepositoryStatus, repo *configv1alpha1.Repository, r *result, now time.Time) {
	var reasons, texts []string
	say := func(reason, text string) {
		reasons, texts = append(reasons, reason), append(texts, text)
	}
	if r.rewritten != "" {
		say(configv1alpha1.ReasonHistoryRewritten, r.rewritten)
	}
	var moved []string
	for _, name := range slices.Sorted(maps.Keys(r.judged)) {
		if j := r.judged[name]; j.moved != "" && !j.conflict {
			moved = append(moved, j.moved)
		}
	}
	if len(moved) > 0 {
		say(configv1alpha1.ReasonTagsMoved, "tags lead to other content than was imported, which stays; delete a revision to have it imported anew: "+some(moved, "; "))
	}
	if len(r.missing) > 0 {
		say(configv1alpha1.ReasonTagsMissing, "tags are gone; their revisions stay until they are deleted: "+some(r.missing, ", "))
	}
	reason, state := configv1alpha1.ReasonConsistent, metav1.ConditionTrue
	switch len(reasons) {
	case 0:
	case 1:
		reason, state = reasons[0], metav1.ConditionFalse
	default:
		reason, state = configv1alpha1.ReasonSeveral, metav1.ConditionFalse
	}
	setCondition(status, repo, configv1alpha1.RepositoryConditionConsistent, state, reason, strings.Join(texts, ". "), now)
}

func exported(status *configv1alpha1.RepositoryStatus, repo *configv1alpha1.Repository, r *result, now time.Time) {
	if !repo.Spec.Exports() {
		meta.RemoveStatusCondition(&status.Conditions, configv1alpha1.RepositoryConditionExported)
		return
	}
	state, reason, text := metav1.ConditionFalse, configv1alpha1.ReasonExporting, ""
	switch {
	case r.exportFailed != nil:
		reason, text = configv1alpha1.ReasonFailed, message(r.exportFailed)
	case len(r.conflicts) > 0:
		reason, text = configv1alpha1.ReasonConflict, "the repository has other content for what was published here: "+some(r.conflicts, "; ")
	case r.waiting > 0:
		text = fmt.Sprintf("%d revisions wait", r.waiting)
	default:
		state, reason = metav1.ConditionTrue, configv1alpha1.ReasonExported
	}
	setCondition(status, repo, configv1alpha1.RepositoryConditionExported, state, reason, text, now)
}

// errorsOf lists what is wrong with single packages.
func errorsOf(r *result) []configv1alpha1.RepositoryError {
	all := slices.Clone(r.problems)
	for _, name := range slices.Sorted(maps.Keys(r.judged)) {
		if j := r.judged[name]; j.problem != "" {
			all = append(all, configv1alpha1.RepositoryError{Ref: clip(name, 512), Package: clip(j.pkg, 512), Message: clip(j.problem, 1024)})
		}
	}
	slices.SortStableFunc(all, func(a, b configv1alpha1.RepositoryError) int {
		return strings.Compare(a.Ref+"\x00"+a.Package, b.Ref+"\x00"+b.Package)
	})
	if len(all) > maxErrors {
		more := len(all) - maxErrors + 1
		all = append(all[:maxErrors-1], configv1alpha1.RepositoryError{Message: fmt.Sprintf("… and %d more", more)})
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// some names the first of many.
func some(all []string, separator string) string {
	if len(all) <= maxNamed {
		return strings.Join(all, separator)
	}
	return strings.Join(all[:maxNamed], separator) + fmt.Sprintf(" … and %d more", len(all)-maxNamed)
}

func message(err error) string { return clip(strings.Join(strings.Fields(err.Error()), " "), 1024) }

func clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

func setCondition(status *configv1alpha1.RepositoryStatus, repo *configv1alpha1.Repository, kind string, state metav1.ConditionStatus, reason, text string, now time.Time) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: state, Reason: reason, Message: clip(text, 4096), ObservedGeneration: repo.Generation,
		LastTransitionTime: metav1.Time{Time: now.UTC().Truncate(time.Second)},
	})
}
