package repositories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// export exports published revisions. It reports whether there are more to export.
func (p *pass) export(ctx context.Context, listing *remote.Listing, result *result) (again bool, failed, err error) {
	if err := p.finalize(ctx); err != nil {
		return false, nil, err
	}
	if err := p.caughtUp(ctx); err != nil {
		return false, nil, err
	}
	result.waiting, result.conflicts, result.asked = 0, nil, asksAgain(p.repo)
	lost := lossOf(p.repo, listing, p.here, result)
	if goOn, again, failed, err := p.regain(ctx, &lost, result); !goOn {
		return again, failed, err
	}
	var batch []*storev1alpha1.PackageRevision
	var exports []remote.Export
	bytes := 0
	replace := ""
	pending := toExport(&p.repo.Spec, p.here)
	// What is given up is what the branch has now, not what was imported of it last.
	if accepted := acceptedBranch(p.repo, result); listing.Branch != nil && listing.Branch.ID == accepted && p.repo.Spec.Exports() {
		replace = accepted
		pending = append(pending, behindBranch(p.here)...)
	}
	// A branch that comes back has all its packages at once.
	together := 0
	if p.repo.Spec.Type == configv1alpha1.RepositoryTypeGit && listing.Branch == nil && slices.ContainsFunc(pending, wasExported) {
		pending, together = newestFirst(pending)
	}
	for i, cr := range pending {
		if j, known := conflictOf(p.findings, cr); known {
			result.conflicts = append(result.conflicts, j.moved)
			continue
		}
		if i >= together && (len(batch) >= exportRevisions || bytes >= exportBytes) {
			result.waiting++
			continue
		}
		if bytes >= firstBytes {
			return false, fmt.Errorf("the packages have more than %d MiB, which is too much for one push: push the branch from a clone", firstBytes>>20), nil
		}
		files, err := p.content.Get(ctx, cr.Content.Digest)
		if err != nil {
			return false, nil, fmt.Errorf("read the files of %s: %w", cr.Name, err)
		}
		e := exportOf(cr, files)
		var lost []string
		e.Known, lost = knownTags(listing, p.here, cr)
		for _, digest := range lost {
			if listing.Empty {
				break // nobody has removed this package alone
			}
			was, err := p.content.Get(ctx, digest)
			if err != nil {
				return false, nil, fmt.Errorf("read what %s replaces: %w", cr.Name, err)
			}
			e.KnownFiles = append(e.KnownFiles, was)
		}
		e.Replace = replace
		if wasExported(cr) {
			e.Commit = cr.External.ID
		}
		batch, exports = append(batch, cr), append(exports, e)
		bytes += files.Size()
	}
	if len(batch) == 0 {
		return false, nil, nil
	}
	done, failed := p.exportAll(ctx, exports, together > 0)
	if failed != nil {
		result.waiting += len(batch)
		return false, fmt.Errorf("export %s: %w", text.Count(len(batch), "revision"), failed), nil
	}
	for i, cr := range batch {
		switch {
		case done[i].Conflict:
			result.conflicts = append(result.conflicts, done[i].Problem) // the next pass finds the tag
		case done[i].Problem != "":
			result.waiting++
			failed = fmt.Errorf("export %s: %s", cr.Name, done[i].Problem)
		default:
			if err := p.noteExport(ctx, cr, &done[i]); err != nil {
				return false, nil, err
			}
		}
	}
	klog.FromContext(ctx).V(2).Info("Exported revisions", "count", len(batch))
	// The export added to the branch, so the placeholders must be updated.
	return failed == nil, failed, nil
}

// wasExported reports whether a revision had a tag that the repository has lost.
func wasExported(cr *storev1alpha1.PackageRevision) bool {
	return cr.External.Ref == "" && cr.External.ID != ""
}

// exportAll writes revisions together. If that fails, and they need not be together, it writes each
// alone, so that one that the repository refuses does not prevent the others.
func (p *pass) exportAll(ctx context.Context, exports []remote.Export, together bool) ([]remote.ExportResult, error) {
	done, err := p.remote.Export(ctx, exports)
	if err == nil || together || len(exports) == 1 || !mayBeOfOne(err) {
		return done, err
	}
	done = make([]remote.ExportResult, len(exports))
	for i := range exports {
		one, err := p.remote.Export(ctx, exports[i:i+1])
		switch {
		case err == nil:
			done[i] = one[0]
		case !mayBeOfOne(err):
			return nil, err
		default:
			done[i].Problem = err.Error()
		}
	}
	return done, nil
}

// mayBeOfOne reports whether an error may be about one item, not about the whole repository.
func mayBeOfOne(err error) bool {
	switch remote.KindOf(err) {
	case remote.Unreachable, remote.Unauthorized, remote.InvalidSpec, remote.SecretNotFound:
		return false
	case remote.NotFound, remote.TooLarge, remote.Other:
	}
	return !errors.Is(err, context.Canceled)
}

// conflictOf returns the finding that the repository has other content under the tag of a revision.
func conflictOf(findings map[string]finding, cr *storev1alpha1.PackageRevision) (finding, bool) {
	for _, name := range slices.Sorted(maps.Keys(findings)) {
		if j := findings[name]; j.conflict && j.uid == string(cr.UID) {
			return j, true
		}
	}
	return finding{}, false
}

// finalize adds our finalizer to revisions that have a tag, or will get one.
func (p *pass) finalize(ctx context.Context) error {
	return p.change(ctx, "finalizer", func(cr *storev1alpha1.PackageRevision) bool { return wantsFinalizer(&p.repo.Spec, cr) },
		func(changed *storev1alpha1.PackageRevision) {
			changed.Finalizers = append(changed.Finalizers, Finalizer)
		})
}

// change changes the revisions for which it is due. The reason is that of the writes.
func (p *pass) change(ctx context.Context, reason string, due func(*storev1alpha1.PackageRevision) bool, do func(changed *storev1alpha1.PackageRevision)) error {
	for i, cr := range p.here.all {
		if !due(cr) {
			continue
		}
		changed := cr.DeepCopy()
		do(changed)
		if err := p.update(ctx, changed, reason); err != nil {
			return fmt.Errorf("write %s (%s): %w", cr.Name, reason, err)
		}
		p.here.all[i] = changed // the next write is based on this
	}
	return nil
}

// caughtUp records which revisions the branch has by now, because a user has merged them there.
func (p *pass) caughtUp(ctx context.Context) error {
	return p.change(ctx, "caught-up", func(cr *storev1alpha1.PackageRevision) bool {
		return cr.External.BranchChanged != "" && cr.DeletionTimestamp == nil && branchHas(p.here, cr)
	}, func(changed *storev1alpha1.PackageRevision) { changed.External.BranchChanged = "" })
}

func (p *pass) noteExport(ctx context.Context, cr *storev1alpha1.PackageRevision, done *remote.ExportResult) error {
	changed := cr.DeepCopy()
	changed.External = storev1alpha1.External{Ref: done.Ref.Name, ID: done.Ref.ID, BranchChanged: done.BranchChanged}
	if wasExported(cr) && cr.External.ID == done.Ref.ID { // only the tag was created again
		changed.External.BranchChanged = cr.External.BranchChanged
	}
	if err := p.update(ctx, changed, "exported"); err != nil {
		return fmt.Errorf("record the tag of %s: %w", cr.Name, err)
	}
	return nil
}

func exportOf(cr *storev1alpha1.PackageRevision, files kpt.Files) remote.Export {
	e := remote.Export{
		Package: cr.Spec.PackageName, Workspace: cr.Spec.WorkspaceName, Number: cr.Spec.Revision, By: cr.Status.PublishedBy, At: cr.CreationTimestamp.Time, Files: files,
	}
	if cr.Status.PublishedAt != nil {
		e.At = cr.Status.PublishedAt.Time
	}
	if len(cr.Spec.Tasks) > 0 {
		if task, err := json.Marshal(cr.Spec.Tasks[0]); err == nil {
			e.Task = string(task)
		}
	}
	return e
}

// remove deletes the tags of revisions that are being deleted, and then removes our finalizer. A
// revision whose tag cannot be deleted stays, and failed says why. It does not prevent others.
func (p *pass) remove(ctx context.Context, listing *remote.Listing) (failed, err error) {
	gone := terminating(p.here)
	if !p.repo.Spec.Exports() {
		return nil, p.release(ctx, gone)
	}
	tags := map[string]remote.Ref{} // by name of the revision
	kept := map[string]error{}
	for _, cr := range gone {
		// Deleting a namespace is no decision about a git repository.
		if cr.Spec.Lifecycle != porchv1alpha1.LifecycleDeletionProposed {
			continue
		}
		if unread := listing.Unread[cr.Spec.PackageName]; unread != nil {
			kept[cr.Name] = unread
		}
		for _, tag := range listing.Tags {
			if isTagOf(&tag, cr) {
				tags[cr.Name] = tag
				delete(kept, cr.Name)
			}
		}
	}
	if len(tags) > 0 {
		if err := p.remote.Remove(ctx, slices.SortedFunc(maps.Values(tags), func(a, b remote.Ref) int { return strings.Compare(a.Name, b.Name) })); err != nil {
			maps.Copy(kept, p.removeEach(ctx, tags, err))
		}
	}
	released := slices.DeleteFunc(gone, func(cr *storev1alpha1.PackageRevision) bool { return kept[cr.Name] != nil })
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		failed = fmt.Errorf("delete the tag of %s: %w", name, kept[name])
		break
	}
	return failed, p.release(ctx, released)
}

// isTagOf reports whether a tag is that of a revision, also if an export has not recorded it yet.
func isTagOf(tag *remote.Ref, cr *storev1alpha1.PackageRevision) bool {
	named := tag.Name == cr.External.Ref || cr.External.Ref == "" && tag.Package == cr.Spec.PackageName && tag.Number == cr.Spec.Revision && tag.Number > 0
	return named && tag.ID == cr.External.ID && !cr.External.Branch
}

// removeEach deletes tags one by one after they could not be deleted together, and returns the
// errors by name of the revision.
func (p *pass) removeEach(ctx context.Context, tags map[string]remote.Ref, together error) map[string]error {
	kept := map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		err := together
		if len(tags) > 1 && mayBeOfOne(together) {
			err = p.remote.Remove(ctx, []remote.Ref{tags[name]})
		}
		if err != nil {
			kept[name] = err
		}
	}
	return kept
}
