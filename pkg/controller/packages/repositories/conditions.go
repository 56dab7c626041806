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
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

const (
	// maxErrors is the maximum number of items in status.errors.
	maxErrors = 20
	// maxNamed is the maximum number of names in a message.
	maxNamed = 5
	// heartbeat is how old status.lastFullSyncTime may be: a pass that found nothing new does not
	// cause a write each time.
	heartbeat = time.Hour
)

// result is the result of the last pass over a repository.
type result struct {
	// failed is why it could not be read completely; nil if it was.
	failed error
	// commit is the commit of the placeholders.
	commit string
	// rewritten is how the branch was rewritten; empty if it was not.
	rewritten string
	// missing and moved are tags; problems are packages.
	missing  []string
	findings map[string]finding
	problems []configv1alpha1.RepositoryError
	// unread are the packages whose tags could not be read.
	unread map[string]error
	// waiting is the number of revisions still to be exported; conflicts are those that cannot be.
	waiting      int
	conflicts    []string
	exportFailed error
	// loss is what the repository no longer has of what was exported.
	loss loss
	// asked is the request to export that again which the pass knew, served the one it carried out.
	asked, served string
}

// desiredStatus returns the desired status of a Repository.
func desiredStatus(repo *configv1alpha1.Repository, here *revisions, r *result, now, next time.Time) configv1alpha1.RepositoryStatus {
	status := *repo.Status.DeepCopy()
	status.ObservedGeneration = repo.Generation
	status.PackageCount, status.Packages = counts(here)
	if repo.Spec.Type == configv1alpha1.RepositoryTypeHub {
		status.Errors = nil
		setCondition(&status, repo, configv1alpha1.RepositoryConditionReady, metav1.ConditionTrue, configv1alpha1.ReasonReady, "", now)
		return status
	}
	if r.failed != nil {
		setCondition(&status, repo, configv1alpha1.RepositoryConditionReady, metav1.ConditionFalse, string(remote.KindOf(r.failed)), message(r.failed), now)
	} else {
		setCondition(&status, repo, configv1alpha1.RepositoryConditionReady, metav1.ConditionTrue, configv1alpha1.ReasonReady, warning(&repo.Spec), now)
		setConsistent(&status, repo, r, now)
		status.GitCommitHash = r.commit
		status.Errors = errorsOf(r)
		if repo.Spec.Sync != nil && repo.Spec.Sync.RunOnceAt != nil && !now.Before(repo.Spec.Sync.RunOnceAt.Time) {
			status.ObservedRunOnceAt = repo.Spec.Sync.RunOnceAt.DeepCopy()
		}
	}
	setExported(&status, repo, r, behindBranch(here), len(toExport(&repo.Spec, here)), now)
	if r.served != "" {
		status.ObservedExportAgain = r.served
	}
	changed := !apiequality.Semantic.DeepEqual(status, repo.Status)
	if r.failed == nil && (changed || status.LastFullSyncTime == nil || now.Sub(status.LastFullSyncTime.Time) >= heartbeat) {
		status.LastFullSyncTime = &metav1.Time{Time: now.UTC().Truncate(time.Second)}
	}
	// Passes in shorter intervals are too many to report each.
	status.NextFullSyncTime = nil
	if next.Sub(now) >= heartbeat {
		status.NextFullSyncTime = &metav1.Time{Time: next.UTC().Truncate(time.Second)}
	}
	return status
}

// warning returns what users should know of a Repository that works.
func warning(spec *configv1alpha1.RepositorySpec) string {
	if spec.Git != nil && spec.Git.Insecure && strings.HasPrefix(spec.Git.Repo, "http://") {
		return "spec.git.insecure: the traffic is not encrypted, everybody between can read the credentials and the packages, and change them"
	}
	return ""
}

func setConsistent(status *configv1alpha1.RepositoryStatus, repo *configv1alpha1.Repository, r *result, now time.Time) {
	var reasons, messages []string
	add := func(reason, message string) {
		reasons, messages = append(reasons, reason), append(messages, message)
	}
	if r.rewritten != "" {
		add(configv1alpha1.ReasonHistoryRewritten, r.rewritten)
	}
	var moved, ids []string
	for _, name := range slices.Sorted(maps.Keys(r.findings)) {
		j := r.findings[name]
		if j.moved == "" || j.conflict {
			continue
		}
		moved = append(moved, j.moved)
		if j.acceptable && len(ids) < maxNamed {
			ids = append(ids, acceptance(name, j.id))
		}
	}
	if len(moved) > 0 {
		message := fmt.Sprintf("%s to other content than the revision has, which is kept: %s",
			text.Plural(len(moved), "1 tag points", fmt.Sprintf("%d tags point", len(moved))), text.List(moved, maxNamed))
		if len(ids) > 0 {
			message += fmt.Sprintf(". To replace what was imported: kubectl annotate repository %s --namespace %s --overwrite %s=%s",
				repo.Name, repo.Namespace, configv1alpha1.AcceptTagsAnnotation, strings.Join(ids, ","))
		} else {
			message += ". Move the tag back, or delete the revision: then what the tag has is imported, if that is a package"
		}
		add(configv1alpha1.ReasonTagsMoved, message)
	}
	if len(r.missing) > 0 {
		add(configv1alpha1.ReasonTagsMissing, fmt.Sprintf("%s in the repository; revisions are kept until you delete them: %s",
			text.Plural(len(r.missing), "1 tag no longer exists", fmt.Sprintf("%d tags no longer exist", len(r.missing))), text.List(r.missing, maxNamed)))
	}
	reason, state := configv1alpha1.ReasonConsistent, metav1.ConditionTrue
	switch len(reasons) {
	case 0:
	case 1:
		reason, state = reasons[0], metav1.ConditionFalse
	default:
		reason, state = configv1alpha1.ReasonSeveral, metav1.ConditionFalse
	}
	setCondition(status, repo, configv1alpha1.RepositoryConditionConsistent, state, reason, strings.Join(messages, ". "), now)
}

func setExported(status *configv1alpha1.RepositoryStatus, repo *configv1alpha1.Repository, r *result, behind []*storev1alpha1.PackageRevision, waiting int, now time.Time) {
	if !repo.Spec.Exports() {
		meta.RemoveStatusCondition(&status.Conditions, configv1alpha1.RepositoryConditionExported)
		return
	}
	state, reason, explanation := metav1.ConditionFalse, configv1alpha1.ReasonExporting, ""
	switch {
	case r.exportFailed != nil:
		reason, explanation = configv1alpha1.ReasonFailed, message(r.exportFailed)
	case len(r.conflicts) > 0:
		reason = configv1alpha1.ReasonConflict
		explanation = "not exported, because the repository has other content under the same tag; delete the tag or the revision: " + text.Join(r.conflicts, "; ", maxNamed)
	case r.loss.reason != "":
		reason, explanation = r.loss.reason, r.loss.message
	case len(r.loss.tags) > 0:
		reason, explanation = configv1alpha1.ReasonTagsMissing, tagsGone(repo, r.loss.tags)
	case len(behind) > 0:
		reason, explanation = configv1alpha1.ReasonBranchChanged, branchChanged(repo, r.commit, behind)
	case r.waiting > 0:
		explanation = text.Count(r.waiting, "revision") + " still to be exported"
	case r.failed != nil && waiting > 0: // what it has is not known, but that these were not exported is
		explanation = text.Count(waiting, "revision") + " still to be exported"
	default:
		state, reason = metav1.ConditionTrue, configv1alpha1.ReasonExported
	}
	setCondition(status, repo, configv1alpha1.RepositoryConditionExported, state, reason, explanation, now)
}

// branchChanged says which revisions only have their tag, and what a user can do.
func branchChanged(repo *configv1alpha1.Repository, head string, behind []*storev1alpha1.PackageRevision) string {
	tags := make([]string, len(behind))
	for i, cr := range behind {
		tags[i] = fmt.Sprintf("%s (the branch at commit %.12s)", cr.External.Ref, cr.External.BranchChanged)
	}
	next := behind[0].External.Ref[:strings.LastIndex(behind[0].External.Ref, "/")+1] + fmt.Sprintf("v%d", behind[0].Spec.Revision+1)
	return fmt.Sprintf("only the tag was exported, because branch %q has content of the package that was neither exported from here nor is what the revision was made from: %s. "+
		"To import what the branch has: git tag %s %s, and push the tag. To replace it: kubectl annotate repository %s --namespace %s --overwrite %s=%s",
		branchName(&repo.Spec), text.List(tags, maxNamed), next, head, repo.Name, repo.Namespace, configv1alpha1.AcceptBranchAnnotation, head)
}

// errorsOf returns the problems of single packages.
func errorsOf(r *result) []configv1alpha1.RepositoryError {
	all := slices.Clone(r.problems)
	for _, pkg := range slices.Sorted(maps.Keys(r.unread)) {
		all = append(all, configv1alpha1.RepositoryError{Package: clip(pkg, 512), Message: clip(r.unread[pkg].Error(), 1024)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.findings)) {
		if j := r.findings[name]; j.problem != "" {
			all = append(all, configv1alpha1.RepositoryError{Ref: clip(name, 512), Package: clip(j.pkg, 512), Message: clip(j.problem, 1024)})
		}
	}
	slices.SortStableFunc(all, func(a, b configv1alpha1.RepositoryError) int {
		return strings.Compare(a.Ref+"\x00"+a.Package, b.Ref+"\x00"+b.Package)
	})
	if len(all) > maxErrors {
		more := len(all) - maxErrors + 1
		all = append(all[:maxErrors-1], configv1alpha1.RepositoryError{Message: text.More(more)})
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func message(err error) string { return clip(text.OneLine(err.Error()), 1024) }

// clip truncates a text that may be no valid UTF-8: an API server would store it otherwise than it
// was written, and each sync would write it again.
func clip(s string, limit int) string { return text.Clip(strings.ToValidUTF8(s, "?"), limit) }

func setCondition(status *configv1alpha1.RepositoryStatus, repo *configv1alpha1.Repository, kind string, state metav1.ConditionStatus, reason, message string, now time.Time) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: state, Reason: reason, Message: clip(message, 4096), ObservedGeneration: repo.Generation,
		LastTransitionTime: metav1.Time{Time: now.UTC().Truncate(time.Second)},
	})
}
