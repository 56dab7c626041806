package repositories

import (
	"context"
	"fmt"
	"slices"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// loss is what a repository no longer has of what was exported to it, and what follows.
type loss struct {
	// reason and message say why nothing is exported; empty if exports go on.
	reason, message string
	// tags are the tags that are gone, of revisions that are exported again only if a user asks.
	tags []string
	// again are the revisions that are exported again.
	again []*storev1alpha1.PackageRevision
	// branch is the commit at which the branch is created again; empty if it is not.
	branch string
	// emptied is true if the repository has nothing any more, so that all is exported again.
	emptied bool
}

// lossOf decides what follows from what a repository no longer has. A branch that comes back with
// only some packages lets tools that follow it remove the others, so nothing is exported while the
// branch is missing or rewritten. Only a user knows if a tag was deleted by intent: it is exported
// again on request. A repository without any reference lost all of it.
func lossOf(repo *configv1alpha1.Repository, listing *remote.Listing, here *revisions, r *result) loss {
	ours := here.filter(publishedHere)
	if !repo.Spec.Exports() || len(ours) == 0 {
		return loss{}
	}
	asked, imported := asksAgain(repo) != "", wasImported(here, r.commit)
	gone := slices.DeleteFunc(missing(listing, here), func(cr *storev1alpha1.PackageRevision) bool { return !publishedHere(cr) })
	switch {
	case listing.Empty && (len(gone) > 0 || r.commit != "" || repo.Status.GitCommitHash != ""):
		if others := notFromHere(here); len(others) > 0 && !asked {
			return loss{reason: configv1alpha1.ReasonBranchMissing, message: repositoryEmpty(repo, others)}
		}
		return loss{again: gone, emptied: true}
	case listing.Branch == nil && r.commit != "" && asked:
		return loss{branch: r.commit}
	case listing.Branch == nil && !listing.Empty && imported:
		return loss{reason: configv1alpha1.ReasonBranchMissing, message: branchGone(repo, r.commit)}
	case listing.Branch != nil && r.rewritten != "":
		return loss{reason: configv1alpha1.ReasonHistoryRewritten, message: historyHolds}
	case asked:
		return loss{again: gone}
	}
	return loss{tags: refsOf(gone)}
}

// asksAgain returns the request to export again what the repository no longer has, "" if there is
// none that is not yet carried out.
func asksAgain(repo *configv1alpha1.Repository) string {
	if asked := clip(repo.Annotations[configv1alpha1.ExportAgainAnnotation], 256); asked != repo.Status.ObservedExportAgain {
		return asked
	}
	return ""
}

// publishedHere reports whether a revision was published in the WDS, and is to be exported.
func publishedHere(cr *storev1alpha1.PackageRevision) bool {
	return cr.Spec.Lifecycle.Published() && cr.Spec.Revision > 0 && !cr.Content.Imported && cr.DeletionTimestamp == nil
}

// wasImported reports whether the branch was imported once: its commit is known, or there are
// placeholders, of a Repository that was re-created.
func wasImported(here *revisions, commit string) bool {
	return commit != "" || slices.ContainsFunc(here.all, func(cr *storev1alpha1.PackageRevision) bool { return cr.External.Branch })
}

// notFromHere returns the packages that the branch had with other content than that of the newest
// revision that was published here: of others, or with changes of others.
func notFromHere(here *revisions) []string {
	ours, _ := newestFirst(here.filter(publishedHere))
	content := map[string]string{}
	for _, cr := range ours {
		if _, newer := content[cr.Spec.PackageName]; !newer {
			content[cr.Spec.PackageName] = cr.Content.Digest
		}
	}
	var others []string
	for _, cr := range here.all {
		if digest, is := content[cr.Spec.PackageName]; cr.External.Branch && (!is || digest != cr.Content.Digest) {
			others = append(others, cr.Spec.PackageName)
		}
	}
	return others
}

// newestFirst returns revisions with the newest of each package first, and how many these are.
func newestFirst(all []*storev1alpha1.PackageRevision) (sorted []*storev1alpha1.PackageRevision, packages int) {
	newest := map[string]*storev1alpha1.PackageRevision{}
	for _, cr := range all {
		if last := newest[cr.Spec.PackageName]; last == nil || last.Spec.Revision < cr.Spec.Revision {
			newest[cr.Spec.PackageName] = cr
		}
	}
	var older []*storev1alpha1.PackageRevision
	for _, cr := range all {
		if newest[cr.Spec.PackageName] == cr {
			sorted = append(sorted, cr)
		} else {
			older = append(older, cr)
		}
	}
	return append(sorted, older...), len(newest)
}

const historyHolds = "nothing is exported until the new head of the branch is accepted, as the condition Consistent says"

func exportAgain(repo *configv1alpha1.Repository) string {
	return fmt.Sprintf(`kubectl annotate repository %s --namespace %s --overwrite %s="$(date +%%s)"`, repo.Name, repo.Namespace, configv1alpha1.ExportAgainAnnotation)
}

func branchGone(repo *configv1alpha1.Repository, commit string) string {
	if commit == "" { // of a Repository that was re-created
		return fmt.Sprintf("nothing is exported, because branch %q no longer exists: push it from a clone", branchName(&repo.Spec))
	}
	return fmt.Sprintf("nothing is exported, because branch %q no longer exists. To create it again at commit %s, which was imported last: %s. "+
		"If the repository no longer has this commit, push the branch from a clone", branchName(&repo.Spec), commit, exportAgain(repo))
}

func repositoryEmpty(repo *configv1alpha1.Repository, others []string) string {
	return fmt.Sprintf("nothing is exported, because the repository is empty, and its branch had content that was not published here, in: %s. "+
		"Restore the repository, or export what was published here without that, which also deletes its placeholder revisions: %s", text.List(others, maxNamed), exportAgain(repo))
}

func tagsGone(repo *configv1alpha1.Repository, tags []string) string {
	return fmt.Sprintf("%s in the repository: %s. To export %s again: %s",
		text.Plural(len(tags), "1 tag that was exported no longer exists", fmt.Sprintf("%d tags that were exported no longer exist", len(tags))),
		text.List(tags, maxNamed), text.Plural(len(tags), "it", "them"), exportAgain(repo))
}

// regain carries out what follows from a loss. It reports whether exports go on in this pass, and
// whether to make another pass at once.
func (p *pass) regain(ctx context.Context, l *loss, result *result) (export, again bool, failed, err error) {
	result.loss, result.waiting = *l, len(l.again)+len(toExport(&p.repo.Spec, p.here))
	switch {
	case l.reason != "":
		return false, false, nil, nil
	case l.branch != "":
		if err := p.remote.CreateBranch(ctx, l.branch); err != nil {
			return false, false, fmt.Errorf("create branch %q again at commit %s, or push it from a clone if the repository no longer has this commit: %w", branchName(&p.repo.Spec), l.branch, err), nil
		}
		return false, true, nil, nil
	case l.emptied:
		result.commit, result.rewritten = "", ""
	}
	for _, cr := range l.again {
		changed := cr.DeepCopy()
		changed.External.Ref = "" // its ID stays: the repository may still have the commit
		if err := p.update(ctx, changed, "lost"); err != nil {
			return false, false, nil, fmt.Errorf("record that the tag of %s is gone: %w", cr.Name, err)
		}
	}
	// The status must say that nothing of the branch is imported before there is another branch:
	// the controller may end in between, and the next one would take it for a rewritten one.
	if len(l.again) > 0 || l.emptied && p.repo.Status.GitCommitHash != "" {
		return false, true, nil, nil
	}
	result.waiting = 0
	if p.repo.Spec.Exports() {
		result.served = asksAgain(p.repo)
	}
	return true, false, nil, nil
}
