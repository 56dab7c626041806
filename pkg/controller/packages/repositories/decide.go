package repositories

import (
	"cmp"
	"slices"
	"strings"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// Finalizer is on revisions that have, or will get, a tag in the repository: the tag is deleted
// first, or the revision would be imported again.
const Finalizer = "starling.io/repository-tag"

// revisions are the PackageRevisions of one Repository in the WDS.
type revisions struct {
	all      []*storev1alpha1.PackageRevision
	byName   map[string]*storev1alpha1.PackageRevision
	byNumber map[numbered]*storev1alpha1.PackageRevision
	byTag    map[string]*storev1alpha1.PackageRevision
}

type numbered struct {
	pkg    string
	number int
}

// newRevisions indexes revisions, sorted by name.
func newRevisions(all []*storev1alpha1.PackageRevision) *revisions {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *storev1alpha1.PackageRevision) int { return strings.Compare(a.Name, b.Name) })
	r := &revisions{
		all:      all,
		byName:   map[string]*storev1alpha1.PackageRevision{},
		byNumber: map[numbered]*storev1alpha1.PackageRevision{},
		byTag:    map[string]*storev1alpha1.PackageRevision{},
	}
	for _, cr := range all {
		r.byName[cr.Name] = cr
		if cr.Spec.Revision > 0 {
			r.byNumber[numbered{cr.Spec.PackageName, cr.Spec.Revision}] = cr
		}
		if cr.External.Ref != "" && !cr.External.Branch {
			r.byTag[cr.External.Ref] = cr
		}
	}
	return r
}

// ofTag returns the revision of a tag: the one that names the tag, or that has its number; nil for
// none.
func (r *revisions) ofTag(tag *remote.Ref) *storev1alpha1.PackageRevision {
	if cr := r.byTag[tag.Name]; cr != nil {
		return cr
	}
	if tag.Number > 0 {
		return r.byNumber[numbered{tag.Package, tag.Number}]
	}
	return nil
}

func (r *revisions) filter(keep func(*storev1alpha1.PackageRevision) bool) []*storev1alpha1.PackageRevision {
	return slices.DeleteFunc(slices.Clone(r.all), func(cr *storev1alpha1.PackageRevision) bool { return !keep(cr) })
}

func names(all []*storev1alpha1.PackageRevision) []string {
	var names []string
	for _, cr := range all {
		names = append(names, cr.Name)
	}
	return names
}

// finding is the result of comparing a ref with a revision. It is valid while both stay the same.
type finding struct {
	id, uid string
	// problem is why the ref cannot be imported; moved names the tag and the revision if their
	// contents differ. Both are empty if there is nothing to do.
	problem, moved string
	pkg            string
	conflict       bool
	// acceptable is true if a user may accept the content of the moved tag.
	acceptable bool
	// passing is true if the ref must be read again although nothing changed.
	passing bool
}

// accepted reports whether a user has accepted the content of a moved tag.
func accepted(repo *configv1alpha1.Repository, tag string, j finding) bool {
	return j.acceptable && slices.Contains(strings.Split(repo.Annotations[configv1alpha1.AcceptTagsAnnotation], ","), acceptance(tag, j.id))
}

// acceptance is how the annotation names what a tag points to.
func acceptance(tag, id string) string { return tag + "@" + id }

// validFindings returns the findings that are still valid.
func validFindings(repo *configv1alpha1.Repository, findings map[string]finding, listing *remote.Listing, here *revisions) map[string]finding {
	left := map[string]finding{}
	for _, tag := range listing.Tags {
		if j, ok := findings[tag.Name]; ok && !j.passing && j.id == tag.ID && j.uid == uidOf(here.ofTag(&tag)) && !accepted(repo, tag.Name, j) {
			left[tag.Name] = j
		}
	}
	return left
}

// toLoad returns the tags whose content must be read. The findings are valid ones.
func toLoad(repo string, listing *remote.Listing, here *revisions, findings map[string]finding) []remote.Ref {
	var load []remote.Ref
	for _, tag := range listing.Tags {
		spec := &porchv1alpha1.PackageRevisionSpec{RepositoryName: repo, PackageName: tag.Package, WorkspaceName: tag.Workspace}
		if len(lifecycle.CheckNames(spec)) > 0 {
			continue // not a tag of a package; problems of packages are reported for the branch
		}
		cr := here.ofTag(&tag)
		if cr != nil && cr.External.ID == tag.ID {
			continue
		}
		if _, ok := findings[tag.Name]; ok {
			continue
		}
		load = append(load, tag)
	}
	return load
}

func uidOf(cr *storev1alpha1.PackageRevision) string {
	if cr == nil {
		return ""
	}
	return string(cr.UID)
}

// missing returns the revisions whose tags the repository no longer has.
func missing(listing *remote.Listing, here *revisions) []*storev1alpha1.PackageRevision {
	there := map[string]bool{}
	for _, tag := range listing.Tags {
		there[tag.Name] = true
	}
	return here.filter(func(cr *storev1alpha1.PackageRevision) bool {
		return cr.External.Ref != "" && !cr.External.Branch && cr.DeletionTimestamp == nil && !there[cr.External.Ref] && listing.Unread[cr.Spec.PackageName] == nil
	})
}

func refsOf(all []*storev1alpha1.PackageRevision) []string {
	var refs []string
	for _, cr := range all {
		refs = append(refs, cr.External.Ref)
	}
	return refs
}

// behindBranch returns the newest revisions of packages that only have their tag, because the
// branch has content of somebody else, sorted by name.
func behindBranch(here *revisions) []*storev1alpha1.PackageRevision {
	newest := map[string]*storev1alpha1.PackageRevision{}
	for _, cr := range here.all {
		if !cr.Spec.Lifecycle.Published() || cr.External.Branch || cr.Spec.Revision <= 0 || cr.DeletionTimestamp != nil {
			continue
		}
		if last := newest[cr.Spec.PackageName]; last == nil || last.Spec.Revision < cr.Spec.Revision {
			newest[cr.Spec.PackageName] = cr
		}
	}
	return here.filter(func(cr *storev1alpha1.PackageRevision) bool {
		return newest[cr.Spec.PackageName] == cr && cr.External.BranchChanged != "" && !branchHas(here, cr)
	})
}

// acceptedBranch returns the commit of the branch whose content a user gives up, "" if there is
// none or the branch was not imported at that commit.
func acceptedBranch(repo *configv1alpha1.Repository, r *result) string {
	if accepted := repo.Annotations[configv1alpha1.AcceptBranchAnnotation]; accepted == r.commit && r.rewritten == "" {
		return accepted
	}
	return ""
}

// branchHas reports whether the branch, as it was imported, has the content of a revision.
func branchHas(here *revisions, cr *storev1alpha1.PackageRevision) bool {
	return slices.ContainsFunc(here.all, func(other *storev1alpha1.PackageRevision) bool {
		return other.External.Branch && other.Spec.PackageName == cr.Spec.PackageName && other.Content.Digest == cr.Content.Digest
	})
}

// knownTags returns the tags whose content a revision may replace on the branch: that of the last
// revision of the package that is on the branch, and that of the revision that it was made
// from. If the repository has lost such a tag, the digest of its content is returned.
func knownTags(listing *remote.Listing, here *revisions, cr *storev1alpha1.PackageRevision) (known []remote.Ref, lost []string) {
	add := func(from *storev1alpha1.PackageRevision) {
		if from == nil || from.External.ID == "" || from.External.Branch {
			return
		}
		if i := slices.IndexFunc(listing.Tags, func(tag remote.Ref) bool { return isTagOf(&tag, from) }); i >= 0 {
			known = append(known, listing.Tags[i])
		} else {
			lost = append(lost, from.Content.Digest)
		}
	}
	var last *storev1alpha1.PackageRevision
	for _, other := range here.all {
		if other.Spec.PackageName == cr.Spec.PackageName && other.Spec.Revision > 0 && other.Spec.Revision < cr.Spec.Revision &&
			other.External.ID != "" && !other.External.Branch && other.External.BranchChanged == "" && (last == nil || last.Spec.Revision < other.Spec.Revision) {
			last = other
		}
	}
	add(last)
	if len(cr.Spec.Tasks) > 0 {
		switch task := &cr.Spec.Tasks[0]; {
		case task.Edit != nil && task.Edit.Source != nil:
			add(here.byName[task.Edit.Source.Name])
		case task.Upgrade != nil:
			add(here.byName[task.Upgrade.LocalPackageRevisionRef.Name])
		}
	}
	return known, lost
}

// toExport returns the published revisions that the repository does not have.
func toExport(spec *configv1alpha1.RepositorySpec, here *revisions) []*storev1alpha1.PackageRevision {
	if !spec.Exports() {
		return nil
	}
	export := here.filter(func(cr *storev1alpha1.PackageRevision) bool {
		return publishedHere(cr) && cr.External.Ref == ""
	})
	slices.SortStableFunc(export, func(a, b *storev1alpha1.PackageRevision) int {
		return cmp.Or(strings.Compare(a.Spec.PackageName, b.Spec.PackageName), cmp.Compare(a.Spec.Revision, b.Spec.Revision))
	})
	return export
}

// exportedPackages returns the packages that are, or will be, exported.
func exportedPackages(spec *configv1alpha1.RepositorySpec, here *revisions) []string {
	if !spec.Exports() {
		return nil
	}
	var packages []string
	for _, cr := range here.filter(publishedHere) {
		packages = append(packages, cr.Spec.PackageName)
	}
	return packages
}

// terminating returns the revisions that are being deleted and have our finalizer.
func terminating(here *revisions) []*storev1alpha1.PackageRevision {
	return here.filter(func(cr *storev1alpha1.PackageRevision) bool {
		return cr.DeletionTimestamp != nil && slices.Contains(cr.Finalizers, Finalizer)
	})
}

// movedBack reports whether the tag of a revision that was moved is where it was, or is gone.
func movedBack(listing *remote.Listing, cr *storev1alpha1.PackageRevision) bool {
	return cr.External.Moved != "" && !slices.ContainsFunc(listing.Tags, func(tag remote.Ref) bool {
		return tag.Name == cr.External.Ref && tag.ID != cr.External.ID
	})
}

// wantsFinalizer reports whether our finalizer must be added to a revision.
func wantsFinalizer(spec *configv1alpha1.RepositorySpec, cr *storev1alpha1.PackageRevision) bool {
	return spec.Exports() && cr.Spec.Lifecycle.Published() && cr.Spec.Revision != 0 && !cr.External.Branch && cr.DeletionTimestamp == nil &&
		(cr.External.Ref != "" || cr.Spec.Revision > 0) && !slices.Contains(cr.Finalizers, Finalizer)
}

// stale returns the placeholders whose packages the branch no longer has.
func stale(here *revisions, onBranch map[string]bool) []*storev1alpha1.PackageRevision {
	return here.filter(func(cr *storev1alpha1.PackageRevision) bool {
		return cr.External.Branch && cr.Content.Imported && cr.DeletionTimestamp == nil && !onBranch[cr.Spec.PackageName]
	})
}

// relabelled returns copies of the revisions whose label of the latest is wrong, corrected.
func relabelled(here *revisions) (changed []*storev1alpha1.PackageRevision) {
	byPackage := map[string][]*storev1alpha1.PackageRevision{}
	for _, cr := range here.all {
		byPackage[cr.Spec.PackageName] = append(byPackage[cr.Spec.PackageName], cr)
	}
	for _, all := range byPackage {
		changed = append(changed, version.Relabel(all)...)
	}
	return changed
}

// newest returns the highest number of each package, in the WDS or in the repository.
func newest(listing *remote.Listing, here *revisions) map[string]int {
	highest := map[string]int{}
	for _, tag := range listing.Tags {
		highest[tag.Package] = max(highest[tag.Package], tag.Number)
	}
	for _, cr := range here.all {
		if cr.Spec.Lifecycle.Published() && cr.DeletionTimestamp == nil {
			highest[cr.Spec.PackageName] = max(highest[cr.Spec.PackageName], cr.Spec.Revision)
		}
	}
	return highest
}

// latest returns the version of the latest revision of each package, in the WDS or in the
// repository.
func latest(listing *remote.Listing, here *revisions) map[string]version.Version {
	highest := map[string]version.Version{}
	note := func(pkg string, v version.Version) {
		if v.IsRelease() && version.Compare(v, highest[pkg]) > 0 {
			highest[pkg] = v
		}
	}
	for _, tag := range listing.Tags {
		note(tag.Package, version.OfTag(tag.Number, tag.Name))
	}
	for _, cr := range here.all {
		if cr.Spec.Lifecycle.Published() && cr.DeletionTimestamp == nil {
			note(cr.Spec.PackageName, version.Of(cr))
		}
	}
	return highest
}

// counts returns the numbers of revisions and of packages in the WDS.
func counts(here *revisions) (revisionCount, packages int) {
	names := map[string]bool{}
	for _, cr := range here.all {
		names[cr.Spec.PackageName] = true
	}
	return len(here.all), len(names)
}
