package repositories

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/store"
)

// importTags imports the revisions of unknown tags. The first error is about the repository, the
// second one about the WDS.
func (p *pass) importTags(ctx context.Context, listing *remote.Listing) (failed, err error) {
	load := toLoad(p.repo.Name, listing, p.here, p.findings)
	if len(load) == 0 {
		return nil, nil
	}
	p.newest, p.latest = newest(listing, p.here), latest(listing, p.here)
	listed := map[string]remote.Ref{}
	for _, tag := range load {
		listed[tag.Name] = tag
	}
	return p.load(ctx, load, func(ctx context.Context, revision remote.Revision) error {
		return p.importTag(ctx, listed[revision.Name], revision)
	})
}

// load reads the revisions of refs, and imports several at a time. The first error is about the
// repository, the second one about the WDS.
func (p *pass) load(ctx context.Context, refs []remote.Ref, do func(context.Context, remote.Revision) error) (failed, err error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(importers)
	failed = p.remote.Load(ctx, refs, func(revision remote.Revision) error {
		if groupCtx.Err() != nil {
			return groupCtx.Err()
		}
		group.Go(func() error { return do(groupCtx, revision) })
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return failed, nil
}

// importTag imports the revision of a tag. The ID of the tag in the listing may differ from that of
// the revision.
func (p *pass) importTag(ctx context.Context, tag remote.Ref, revision remote.Revision) error {
	cr := p.here.ofTag(&tag)
	result := finding{id: tag.ID, uid: uidOf(cr), pkg: tag.Package, passing: revision.Passing}
	switch {
	case revision.Passing: // whether it differs from cr is not known
		result.problem = revision.Problem
	case revision.Problem != "" && cr == nil:
		result.problem = revision.Problem
	case revision.Problem != "", revision.Files == nil && cr != nil:
		result.moved = fmt.Sprintf("%s (revision %s)", tag.Name, cr.Name)
	case revision.Files == nil: // no package
	case cr == nil:
		problem, err := p.create(ctx, revision)
		if err != nil {
			return err
		}
		if problem == "" {
			return nil // from now on the PackageRevision says it
		}
		result.problem = problem
	case revision.Files.Digest() != cr.Content.Digest:
		result.moved = fmt.Sprintf("%s (revision %s)", tag.Name, cr.Name)
		result.conflict = cr.External.Ref == ""
		// What was approved here is not replaced by what somebody pushed.
		if result.acceptable = cr.Content.Imported && cr.DeletionTimestamp == nil; result.acceptable {
			replaced, problem, err := p.moved(ctx, cr, tag.Name, result, revision)
			if err != nil || replaced {
				return err
			}
			result.acceptable, result.problem = problem == "", problem
		}
	case cr.External.Ref == "" && p.repo.Spec.Exports() && publishedHere(cr):
		// The export records it, when the branch has it, too.
	case cr.External.Ref != tag.Name || cr.External.ID != revision.ID || cr.External.Moved != "":
		changed := cr.DeepCopy()
		changed.External.Ref, changed.External.ID, changed.External.Moved = tag.Name, revision.ID, ""
		if err := p.update(ctx, changed, "external"); err != nil {
			return fmt.Errorf("record the tag of %s: %w", cr.Name, err)
		}
		p.count(&p.updated)
	}
	p.record(tag.Name, result)
	return nil
}

// moved records that the tag of a revision was moved, or replaces the content if a user accepted
// it. The revision stays the same object: a package that misses a revision for a moment would be
// withdrawn from its clusters. What was made from the former content keeps that, see
// content.upstreamDigest.
//
// The problem is why the content cannot be imported; then what was imported stays.
func (p *pass) moved(ctx context.Context, cr *storev1alpha1.PackageRevision, tag string, j finding, revision remote.Revision) (replaced bool, problem string, err error) {
	changed := cr.DeepCopy()
	if err := p.mirror(changed, revision, revision.Files.Digest()); err != nil {
		return false, err.Error(), nil //nolint:nilerr // it is a problem of the package
	}
	if !accepted(p.repo, tag, j) {
		if cr.External.Moved == j.id {
			return false, "", nil
		}
		changed = cr.DeepCopy()
		changed.External.Moved = j.id
		if err := p.update(ctx, changed, "moved"); err != nil {
			return false, "", fmt.Errorf("record that the tag of %s was moved: %w", cr.Name, err)
		}
		return false, "", nil
	}
	if _, err := p.content.Put(ctx, revision.Files); err != nil {
		return false, "", fmt.Errorf("store the files of %s: %w", cr.Name, err)
	}
	if err := p.update(ctx, changed, "accepted"); err != nil {
		return false, "", fmt.Errorf("replace the content of %s: %w", cr.Name, err)
	}
	p.count(&p.updated)
	return true, "", nil
}

// movedBack records which tags are no longer moved.
func (p *pass) movedBack(ctx context.Context, listing *remote.Listing) error {
	return p.change(ctx, "moved-back", func(cr *storev1alpha1.PackageRevision) bool {
		return movedBack(listing, cr) && cr.DeletionTimestamp == nil
	}, func(changed *storev1alpha1.PackageRevision) { changed.External.Moved = "" })
}

func (p *pass) count(n *int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	*n++
}

// create stores a revision of the repository: content first. It returns what is wrong with the
// revision if it cannot be imported.
func (p *pass) create(ctx context.Context, revision remote.Revision) (problem string, err error) {
	cr := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: p.repo.Namespace}}
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	cr.Spec = porchv1alpha1.PackageRevisionSpec{
		RepositoryName: p.repo.Name, PackageName: revision.Package, WorkspaceName: revision.Workspace, Revision: revision.Number,
		Lifecycle: porchv1alpha1.LifecyclePublished,
	}
	if wrong := lifecycle.CheckNames(&cr.Spec); len(wrong) > 0 {
		return "the name is not valid for a PackageRevision: " + strings.Join(wrong.Strings(), "; "), nil
	}
	cr.Name = lifecycle.Name(cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Spec.WorkspaceName)
	if taken := p.here.byName[cr.Name]; taken != nil {
		return fmt.Sprintf("PackageRevision %q has the same workspace and is another revision; to import this one, delete that one", taken.Name), nil
	}
	digest := revision.Files.Digest() // everything is checked before anything is written
	if err := p.mirror(cr, revision, digest); err != nil {
		return err.Error(), nil //nolint:nilerr // it is a problem of the package
	}
	if v := version.Of(cr); v.IsRelease() && v == p.latest[revision.Package] {
		// It is labelled as the latest; the one before loses its label when the informer shows this
		// one.
		if cr.Labels == nil {
			cr.Labels = map[string]string{}
		}
		cr.Labels[porchv1alpha1.LatestRevisionLabel] = "true"
	}
	if wantsFinalizer(&p.repo.Spec, cr) {
		cr.Finalizers = []string{Finalizer}
	}
	if revision.Number > 0 {
		given, err := p.reserve(ctx, cr)
		if err != nil {
			return "", fmt.Errorf("reserve number %d of %s: %w", revision.Number, revision.Package, err)
		}
		if given[revision.Number] { // the informer shows it soon, and then it is compared
			return "", nil
		}
	}
	if _, err := p.content.Put(ctx, revision.Files); err != nil {
		return "", fmt.Errorf("store the files of %s: %w", cr.Name, err)
	}
	_, err = p.writer.Create(ctx, revisionTarget(cr), cr, "import")
	switch {
	case apierrors.IsAlreadyExists(err): // the informer shows it soon, and then it is compared
		return "", nil
	case apierrors.IsInvalid(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("import %s: %w", cr.Name, err)
	}
	p.count(&p.created)
	return "", nil
}

// reservation is made once for a package, for all its tags that are imported in one pass.
type reservation struct {
	once  sync.Once
	given map[int]bool
	err   error
}

// reserve reserves the numbers that a package has in the repository, so that approvals do not
// assign them. It returns the numbers that approvals assigned before.
func (p *pass) reserve(ctx context.Context, cr *storev1alpha1.PackageRevision) (map[int]bool, error) {
	pkg := cr.Spec.PackageName
	p.mutex.Lock()
	r := p.reserved[pkg]
	if r == nil {
		r = &reservation{}
		if p.reserved == nil {
			p.reserved = map[string]*reservation{}
		}
		p.reserved[pkg] = r
	}
	p.mutex.Unlock()
	r.once.Do(func() { r.given, r.err = p.numbers.Reserve(ctx, cr, p.newest[pkg]) })
	return r.given, r.err
}

// mirror sets the fields of a PackageRevision from a revision of the repository.
func (p *pass) mirror(cr *storev1alpha1.PackageRevision, revision remote.Revision, digest string) error {
	cr.Content.Imported = true
	cr.External = storev1alpha1.External{Ref: revision.Name, ID: revision.ID, Branch: revision.Branch}
	cr.Status.Deployment = p.repo.Spec.Deployment
	cr.Status.PublishedBy = revision.By
	if !revision.At.IsZero() {
		cr.Status.PublishedAt = &metav1.Time{Time: revision.At.UTC().Truncate(time.Second)}
	}
	cr.Status.SelfLock = p.locator(revision)
	return store.SetContent(cr, revision.Files, digest)
}

func (p *pass) locator(revision remote.Revision) *porchv1alpha1.Locator {
	if p.repo.Spec.Type != configv1alpha1.RepositoryTypeGit {
		return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeOCI, OCI: &porchv1alpha1.OCILock{
			Image: p.remote.Address() + "/" + revision.Directory + ":" + revision.Name[strings.LastIndex(revision.Name, ":")+1:], Digest: revision.ID,
		}}
	}
	return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{
		Repo: p.remote.Address(), Directory: revision.Directory, Ref: revision.Name, Commit: revision.ID,
	}}
}

// importBranch updates the placeholders from the branch, if it only grew. It returns their commit.
func (p *pass) importBranch(ctx context.Context, listing *remote.Listing, result *result) (commit string, failed, err error) {
	before := p.state.result.commit
	result.rewritten = ""
	switch {
	case listing.Branch == nil && !wasImported(p.here, before):
		return "", nil, nil
	case listing.Branch == nil:
		result.rewritten = branchMissing(branchName(&p.repo.Spec))
		return before, nil, nil
	case listing.Branch.ID == before && p.state.synced:
		return before, nil, nil
	}
	// The first pass since the start reads the branch in any case: the problems of packages are
	// kept only in memory.
	head := listing.Branch.ID
	if before != "" && head != before && p.repo.Annotations[configv1alpha1.AcceptHistoryAnnotation] != head {
		if p.state.refused != [2]string{head, before} {
			grew, err := p.remote.Descends(ctx, before)
			if err != nil {
				return before, err, nil
			}
			if !grew {
				p.state.refused = [2]string{head, before}
			}
		}
		if p.state.refused == [2]string{head, before} {
			result.rewritten = branchRewritten(p.repo, listing.Branch.Name, head, before)
			return before, nil, nil
		}
	}
	onBranch := map[string]bool{}
	p.problems = nil
	failed, err = p.load(ctx, []remote.Ref{*listing.Branch}, func(ctx context.Context, revision remote.Revision) error {
		p.mutex.Lock()
		onBranch[revision.Package] = true
		p.mutex.Unlock()
		return p.importPlaceholder(ctx, revision)
	})
	if failed != nil || err != nil {
		return before, failed, err
	}
	for _, cr := range stale(p.here, onBranch) {
		if users := names(p.Watch.RevisionsFrom(cr)); len(users) > 0 {
			p.problem(cr.Spec.PackageName, placeholderUsed(cr.Namespace+"/"+slices.Min(users)))
			continue
		}
		if err := p.writer.Delete(ctx, revisionTarget(cr), cr.UID, "stale"); err != nil && !apierrors.IsNotFound(err) {
			return before, nil, fmt.Errorf("delete placeholder %s: %w", cr.Name, err)
		}
	}
	result.problems = p.problems
	return head, nil, nil
}

func branchMissing(branch string) string {
	return fmt.Sprintf("branch %q does not exist; placeholder revisions are kept", branch)
}

func branchRewritten(repo *configv1alpha1.Repository, branch, head, imported string) string {
	return fmt.Sprintf("branch %q was rewritten: its head %s does not contain commit %s, which was imported last; placeholder revisions are kept. "+
		"To import the new head: kubectl annotate repository %s --namespace %s --overwrite %s=%s",
		branch, head, imported, repo.Name, repo.Namespace, configv1alpha1.AcceptHistoryAnnotation, head)
}

func placeholderUsed(dependent string) string {
	return fmt.Sprintf("the branch no longer has this package; its placeholder revision is kept, because %s was created from it", dependent)
}

func branchName(spec *configv1alpha1.RepositorySpec) string {
	if spec.Git == nil {
		return ""
	}
	return spec.Git.Branch
}

func (p *pass) problem(pkg, text string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.problems = append(p.problems, configv1alpha1.RepositoryError{
		Ref: clip(branchName(&p.repo.Spec), 512), Package: clip(pkg, 512), Message: clip(text, 1024),
	})
}

// importPlaceholder updates the placeholder of a package from the branch.
func (p *pass) importPlaceholder(ctx context.Context, revision remote.Revision) error {
	if revision.Problem != "" {
		p.problem(revision.Package, revision.Problem)
		return nil
	}
	cr := p.here.byName[lifecycle.Name(p.repo.Name, revision.Package, revision.Workspace)]
	if cr == nil || !cr.External.Branch {
		problem, err := p.create(ctx, revision)
		if problem != "" {
			p.problem(revision.Package, problem)
		}
		return err
	}
	digest := revision.Files.Digest()
	if cr.DeletionTimestamp != nil || digest == cr.Content.Digest {
		return nil
	}
	changed := cr.DeepCopy()
	if err := p.mirror(changed, revision, digest); err != nil {
		p.problem(revision.Package, err.Error())
		return nil
	}
	if _, err := p.content.Put(ctx, revision.Files); err != nil {
		return fmt.Errorf("store the files of %s: %w", cr.Name, err)
	}
	if err := p.update(ctx, changed, "import"); err != nil {
		return fmt.Errorf("update placeholder %s: %w", cr.Name, err)
	}
	p.count(&p.updated)
	return nil
}
