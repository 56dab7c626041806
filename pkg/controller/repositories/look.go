package repositories

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
	"github.com/starlinghq/starling/pkg/packages"
	"github.com/starlinghq/starling/pkg/repository"
)

const (
	// importers is how many revisions are written at once; each holds its files.
	importers = 8
	// exportRevisions and exportBytes bound what goes in one push.
	exportRevisions = 50
	exportBytes     = 32 << 20
)

// Points between two writes, which Config.Reached is told.
const (
	PointImportNumber   = "import:number"   // no approval takes the number, and the revision is not there
	PointImportContent  = "import:content"  // the files are kept, the revision is not there
	PointImportRevision = "import:revision" // the revision is there, others are not
	PointExportWaits    = "export:waits"    // the revision waits for us when it is deleted, and has no tag
	PointExportTag      = "export:tag"      // the tag is there, and the revision does not say so
	PointDeleteTag      = "delete:tag"      // the tag is gone, and the revision is not
)

// looker is one look at a repository.
type looker struct {
	*Controller
	repo   *configv1alpha1.Repository
	key    types.NamespacedName
	state  *state
	here   *revisions
	remote Remote
	// newest is the highest number of each package, here and there.
	newest map[string]int

	mutex sync.Mutex
	// reserved are the packages whose numbers are kept from approvals, with those that approvals gave before.
	reserved map[string]*reservation
	judged   map[string]judgement
	problems []configv1alpha1.RepositoryError
	created  int
	updated  int
}

// run looks, and tells whether to look again at once. What fails outside goes into the result.
func (l *looker) run(ctx context.Context) (again bool, err error) {
	result := l.state.result // what is not found out stays as it was
	result.failed, result.exportFailed = nil, nil
	defer func() {
		if err == nil {
			l.state.result = result
		}
	}()
	// Conflicts, moved tags and so on are known from the last look as long as they are what they were.
	l.judged = maps.Clone(l.state.result.judged)

	listing, err := l.open(ctx)
	if l.remote != nil {
		defer l.remote.Close()
	}
	if err != nil {
		result.failed = err
		if !l.repo.Spec.Exports() { // who deletes must not wait for what is only read
			return false, l.release(ctx, leaving(l.here))
		}
		return false, nil
	}
	l.judged = standing(l.judged, listing, l.here)
	if failed, err := l.importTags(ctx, listing); failed != nil || err != nil {
		result.failed = failed
		return false, err
	}
	commit, failed, err := l.importBranch(ctx, listing, &result)
	if failed != nil || err != nil {
		result.failed = failed
		return false, err
	}
	result.commit = commit
	result.missing = missingTags(listing, l.here)
	result.judged = l.judged
	if l.created+l.updated > 0 {
		klog.FromContext(ctx).V(2).Info("Imported revisions", "created", l.created, "updated", l.updated)
	}
	again, failed, err = l.export(ctx, &result)
	if err != nil {
		return false, err
	}
	if failed == nil {
		failed, err = l.remove(ctx, listing)
	}
	result.exportFailed = failed
	return again, err
}

// open opens and lists the repository.
func (l *looker) open(ctx context.Context) (*repository.Listing, error) {
	var secret map[string][]byte
	if name := secretName(&l.repo.Spec); name != "" {
		var err error
		secret, err = l.Secret(ctx, l.repo.Namespace, name)
		if apierrors.IsNotFound(err) {
			return nil, repository.Errorf(repository.SecretNotFound, "there is no Secret %q in namespace %q", name, l.repo.Namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("read Secret %q: %w", name, err)
		}
	}
	var err error
	if l.remote, err = l.Open(&l.repo.Spec, secret); err != nil {
		return nil, err
	}
	return l.remote.List(ctx)
}

// judge remembers what looking at a tag came to.
func (l *looker) judge(tag string, j judgement) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.judged[tag] = j
}

// importTags imports what tags lead to that are not known. The first error is one of the repository, the second one of the WDS.
func (l *looker) importTags(ctx context.Context, listing *repository.Listing) (failed, err error) {
	load := toLoad(l.repo.Name, listing, l.here, l.judged)
	if len(load) == 0 {
		return nil, nil
	}
	l.newest = newest(listing, l.here)
	listed := map[string]repository.Ref{}
	for _, tag := range load {
		listed[tag.Name] = tag
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(importers)
	failed = l.remote.Load(ctx, load, func(revision repository.Revision) error {
		if groupCtx.Err() != nil {
			return groupCtx.Err()
		}
		tag := listed[revision.Name]
		group.Go(func() error { return l.importTag(groupCtx, tag, revision) })
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return failed, nil
}

// importTag takes what a tag leads to. The id of the tag as it was listed may differ from that of the revision.
func (l *looker) importTag(ctx context.Context, tag repository.Ref, revision repository.Revision) error {
	cr := l.here.ofTag(&tag)
	verdict := judgement{id: tag.ID, uid: uidOf(cr), pkg: tag.Package}
	switch {
	case revision.Problem != "" && cr == nil:
		verdict.problem = revision.Problem
	case revision.Problem != "", revision.Files == nil && cr != nil:
		verdict.moved = fmt.Sprintf("%s (revision %s)", tag.Name, cr.Name)
	case revision.Files == nil: // no package
	case cr == nil:
		problem, err := l.create(ctx, revision)
		if err != nil {
			return err
		}
		if problem == "" {
			return nil // from now on it is known by what is here
		}
		verdict.problem = problem
	case revision.Files.Digest() != cr.Content.Digest:
		verdict.moved = fmt.Sprintf("%s (revision %s)", tag.Name, cr.Name)
		verdict.conflict = cr.External.Ref == ""
	case cr.External.Ref != tag.Name || cr.External.ID != revision.ID:
		changed := cr.DeepCopy()
		changed.External = storev1alpha1.External{Ref: tag.Name, ID: revision.ID}
		if err := l.update(ctx, changed, "external"); err != nil {
			return fmt.Errorf("note the tag of %s: %w", cr.Name, err)
		}
		l.count(&l.updated)
	}
	l.judge(tag.Name, verdict)
	return nil
}

func (l *looker) count(n *int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	*n++
}

// create makes a revision of what was found: content first. It returns what is wrong with it if it cannot be had.
func (l *looker) create(ctx context.Context, revision repository.Revision) (problem string, err error) {
	cr := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: l.repo.Namespace}}
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	cr.Spec = porchv1alpha1.PackageRevisionSpec{
		RepositoryName: l.repo.Name, PackageName: revision.Package, WorkspaceName: revision.Workspace, Revision: revision.Number,
		Lifecycle: porchv1alpha1.LifecyclePublished,
	}
	if wrong := lifecycle.CheckNames(&cr.Spec); len(wrong) > 0 {
		return "its name cannot be had here: " + strings.Join(wrong, "; "), nil
	}
	cr.Name = lifecycle.Name(cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Spec.WorkspaceName)
	if taken := l.here.byName[cr.Name]; taken != nil {
		return fmt.Sprintf("the workspace %q is taken by a revision of another kind or number that is here; delete that one", revision.Workspace), nil
	}
	digest := revision.Files.Digest() // what is wrong is known before anything is written
	if err := l.mirror(cr, revision, digest); err != nil {
		return err.Error(), nil //nolint:nilerr // it is told of the package
	}
	if revision.Number > 0 && revision.Number == l.newest[revision.Package] {
		// It is what it will be labelled; the one before loses its label when this one is seen.
		if cr.Labels == nil {
			cr.Labels = map[string]string{}
		}
		cr.Labels[porchv1alpha1.LatestRevisionLabel] = "true"
	}
	if wantsFinalizer(&l.repo.Spec, cr) {
		cr.Finalizers = []string{Finalizer}
	}
	if revision.Number > 0 {
		given, err := l.reserve(ctx, cr)
		if err != nil {
			return "", fmt.Errorf("keep revision %d of %s from being given to another: %w", revision.Number, revision.Package, err)
		}
		l.Reached(PointImportNumber)
		if given[revision.Number] { // it is seen soon, and compared then
			return "", nil
		}
	}
	if _, err := l.Content.Put(ctx, revision.Files); err != nil {
		return "", fmt.Errorf("keep the files of %s: %w", cr.Name, err)
	}
	l.Reached(PointImportContent)
	_, err = l.Writer.Create(ctx, revisionTarget(cr), cr, "import")
	switch {
	case apierrors.IsAlreadyExists(err): // it is seen soon, and compared then
		return "", nil
	case apierrors.IsInvalid(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("import %s: %w", cr.Name, err)
	}
	l.Reached(PointImportRevision)
	l.count(&l.created)
	return "", nil
}

// reservation is made once for a package, for all its tags that are imported in one look.
type reservation struct {
	once  sync.Once
	given map[int]bool
	err   error
}

// reserve keeps the numbers of a package that are outside from approvals, and returns those that these gave before.
func (l *looker) reserve(ctx context.Context, cr *storev1alpha1.PackageRevision) (map[int]bool, error) {
	pkg := cr.Spec.PackageName
	l.mutex.Lock()
	r := l.reserved[pkg]
	if r == nil {
		r = &reservation{}
		if l.reserved == nil {
			l.reserved = map[string]*reservation{}
		}
		l.reserved[pkg] = r
	}
	l.mutex.Unlock()
	r.once.Do(func() { r.given, r.err = l.Numbers.Reserve(ctx, cr, l.newest[pkg]) })
	return r.given, r.err
}

// mirror writes into a revision what was found.
func (l *looker) mirror(cr *storev1alpha1.PackageRevision, revision repository.Revision, digest string) error {
	cr.Content.Imported = true
	cr.External = storev1alpha1.External{Ref: revision.Name, ID: revision.ID, Branch: revision.Branch}
	cr.Status.Deployment = l.repo.Spec.Deployment
	cr.Status.PublishedBy = revision.By
	if !revision.At.IsZero() {
		cr.Status.PublishedAt = &metav1.Time{Time: revision.At.UTC().Truncate(time.Second)}
	}
	cr.Status.SelfLock = l.locator(revision)
	return packages.Mirror(cr, revision.Files, digest)
}

func (l *looker) locator(revision repository.Revision) *porchv1alpha1.Locator {
	if l.repo.Spec.Type != configv1alpha1.RepositoryTypeGit {
		return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeOCI, OCI: &porchv1alpha1.OCILock{
			Image: l.remote.Address() + "/" + revision.Directory + ":" + revision.Name[strings.LastIndex(revision.Name, ":")+1:], Digest: revision.ID,
		}}
	}
	return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{
		Repo: l.remote.Address(), Directory: revision.Directory, Ref: revision.Name, Commit: revision.ID,
	}}
}

// importBranch lets the placeholders follow the branch, if it grew. It returns the commit that they are of then.
func (l *looker) importBranch(ctx context.Context, listing *repository.Listing, result *result) (commit string, failed, err error) {
	before := l.repo.Status.GitCommitHash
	if l.state.result.commit != "" {
		before = l.state.result.commit // our own write may not have come back yet
	}
	result.rewritten = ""
	switch {
	case listing.Branch == nil && before == "":
		return "", nil, nil
	case listing.Branch == nil:
		result.rewritten = fmt.Sprintf("the branch %q is gone; the placeholder revisions stay", branchName(&l.repo.Spec))
		return before, nil, nil
	case listing.Branch.ID == before && l.state.looked:
		return before, nil, nil
	}
	// The first look since the start reads the branch in any case: what is wrong with packages is known to nobody but us.
	head := listing.Branch.ID
	if before != "" && head != before && l.repo.Annotations[configv1alpha1.AcceptHistoryAnnotation] != head {
		if l.state.refused != [2]string{head, before} {
			grew, err := l.remote.Descends(ctx, before)
			if err != nil {
				return before, err, nil
			}
			if !grew {
				l.state.refused = [2]string{head, before}
			}
		}
		if l.state.refused == [2]string{head, before} {
			result.rewritten = fmt.Sprintf("the branch %q is at %s and does not contain %s any more, which was imported; to let the placeholder revisions follow it: "+
				"kubectl annotate repository %s --overwrite %s=%s", listing.Branch.Name, head, before, l.repo.Name, configv1alpha1.AcceptHistoryAnnotation, head)
			return before, nil, nil
		}
	}
	onBranch := map[string]bool{}
	l.problems = nil
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(importers)
	failed = l.remote.Load(ctx, []repository.Ref{*listing.Branch}, func(revision repository.Revision) error {
		if groupCtx.Err() != nil {
			return groupCtx.Err()
		}
		onBranch[revision.Package] = true
		group.Go(func() error { return l.importPlaceholder(groupCtx, revision) })
		return nil
	})
	if err := group.Wait(); err != nil {
		return before, nil, err
	}
	if failed != nil {
		return before, failed, nil
	}
	for _, cr := range stale(l.here, onBranch) {
		user, err := l.used(cr)
		if err != nil {
			return before, nil, err
		}
		if user != "" {
			l.problem(cr.Spec.PackageName, fmt.Sprintf("the branch does not have this package any more; its placeholder revision stays since %s was made of it", user))
			continue
		}
		if err := l.Writer.Delete(ctx, revisionTarget(cr), cr.UID, "stale"); err != nil && !apierrors.IsNotFound(err) {
			return before, nil, fmt.Errorf("delete placeholder %s: %w", cr.Name, err)
		}
	}
	result.problems = l.problems
	return head, nil, nil
}

func branchName(spec *configv1alpha1.RepositorySpec) string {
	if spec.Git == nil {
		return ""
	}
	return spec.Git.Branch
}

func (l *looker) problem(pkg, text string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.problems = append(l.problems, configv1alpha1.RepositoryError{
		Ref: clip(branchName(&l.repo.Spec), 512), Package: clip(pkg, 512), Message: clip(text, 1024),
	})
}

// importPlaceholder makes the placeholder of a package what the branch has.
func (l *looker) importPlaceholder(ctx context.Context, revision repository.Revision) error {
	if revision.Problem != "" {
		l.problem(revision.Package, revision.Problem)
		return nil
	}
	cr := l.here.byName[lifecycle.Name(l.repo.Name, revision.Package, revision.Workspace)]
	if cr == nil || !cr.External.Branch {
		problem, err := l.create(ctx, revision)
		if problem != "" {
			l.problem(revision.Package, problem)
		}
		return err
	}
	digest := revision.Files.Digest()
	if cr.DeletionTimestamp != nil || digest == cr.Content.Digest {
		return nil
	}
	changed := cr.DeepCopy()
	if err := l.mirror(changed, revision, digest); err != nil {
		l.problem(revision.Package, err.Error())
		return nil
	}
	if _, err := l.Content.Put(ctx, revision.Files); err != nil {
		return fmt.Errorf("keep the files of %s: %w", cr.Name, err)
	}
	l.Reached(PointImportContent)
	if err := l.update(ctx, changed, "import"); err != nil {
		return fmt.Errorf("update placeholder %s: %w", cr.Name, err)
	}
	l.count(&l.updated)
	return nil
}

// export writes what was published here. It tells whether there is more to be written.
func (l *looker) export(ctx context.Context, result *result) (again bool, failed, err error) {
	if err := l.finalize(ctx); err != nil {
		return false, nil, err
	}
	var batch []*storev1alpha1.PackageRevision
	var exports []repository.Export
	bytes := 0
	result.waiting, result.conflicts = 0, nil
	for _, cr := range toExport(&l.repo.Spec, l.here) {
		if j, known := l.conflictOf(cr); known {
			result.conflicts = append(result.conflicts, j.moved)
			continue
		}
		if len(batch) >= exportRevisions || bytes >= exportBytes {
			result.waiting++
			continue
		}
		files, err := l.Content.Get(ctx, cr.Content.Digest)
		if err != nil {
			return false, nil, fmt.Errorf("read the files of %s: %w", cr.Name, err)
		}
		batch, exports = append(batch, cr), append(exports, exportOf(cr, files))
		bytes += files.Size()
	}
	if len(batch) == 0 {
		return false, nil, nil
	}
	l.Reached(PointExportWaits)
	done, failed := l.remote.Export(ctx, exports)
	if failed != nil {
		result.waiting += len(batch)
		return false, fmt.Errorf("export %d revisions: %w", len(batch), failed), nil
	}
	l.Reached(PointExportTag)
	for i, cr := range batch {
		switch {
		case done[i].Conflict:
			result.conflicts = append(result.conflicts, done[i].Problem) // the next look finds the tag
		case done[i].Problem != "":
			result.waiting++
			failed = fmt.Errorf("export %s: %s", cr.Name, done[i].Problem)
		default:
			if err := l.noteExport(ctx, cr, &done[i].Ref); err != nil {
				return false, nil, err
			}
		}
	}
	klog.FromContext(ctx).V(2).Info("Exported revisions", "count", len(batch))
	// The branch has grown by what was exported, so the placeholders follow.
	return failed == nil, failed, nil
}

func (l *looker) conflictOf(cr *storev1alpha1.PackageRevision) (judgement, bool) {
	for _, name := range slices.Sorted(maps.Keys(l.judged)) {
		if j := l.judged[name]; j.conflict && j.uid == string(cr.UID) {
			return j, true
		}
	}
	return judgement{}, false
}

// finalize makes revisions that have tags, or are about to get them, wait for us when they are deleted.
func (l *looker) finalize(ctx context.Context) error {
	for i, cr := range l.here.all {
		if !wantsFinalizer(&l.repo.Spec, cr) {
			continue
		}
		changed := cr.DeepCopy()
		changed.Finalizers = append(changed.Finalizers, Finalizer)
		if err := l.update(ctx, changed, "finalizer"); err != nil {
			return fmt.Errorf("make %s wait: %w", cr.Name, err)
		}
		l.here.all[i] = changed // what is written next is written upon this
	}
	return nil
}

func (l *looker) noteExport(ctx context.Context, cr *storev1alpha1.PackageRevision, ref *repository.Ref) error {
	changed := cr.DeepCopy()
	changed.External = storev1alpha1.External{Ref: ref.Name, ID: ref.ID}
	if err := l.update(ctx, changed, "exported"); err != nil {
		return fmt.Errorf("note the tag of %s: %w", cr.Name, err)
	}
	return nil
}

func exportOf(cr *storev1alpha1.PackageRevision, files kptpkg.Files) repository.Export {
	e := repository.Export{
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

// remove deletes the tags of revisions that are being deleted, and lets these go.
func (l *looker) remove(ctx context.Context, listing *repository.Listing) (failed, err error) {
	gone := leaving(l.here)
	if l.repo.Spec.Exports() {
		var tags []repository.Ref
		for _, cr := range gone {
			// Whoever deletes a namespace has decided nothing about a git repository.
			if cr.Spec.Lifecycle != porchv1alpha1.LifecycleDeletionProposed {
				continue
			}
			for _, tag := range listing.Tags {
				if tag.Name == cr.External.Ref && tag.ID == cr.External.ID && !cr.External.Branch {
					tags = append(tags, tag)
				}
			}
		}
		if len(tags) > 0 {
			if err := l.remote.Remove(ctx, tags); err != nil {
				return err, nil
			}
			l.Reached(PointDeleteTag)
		}
	}
	return nil, l.release(ctx, gone)
}
