package repositories

import (
	"cmp"
	"slices"
	"strings"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
	"github.com/starlinghq/starling/pkg/repository"
)

// Finalizer is on revisions that have, or are about to get, a tag outside: it goes first, or the revision would be imported again.
const Finalizer = "starling.io/repository-tag"

// revisions are those of one Repository that are here.
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

// newRevisions indexes revisions, in an order that does not depend on the one given.
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

// ofTag returns the revision that a tag is of: the one that says so, or that has its number; nil if none is here.
func (r *revisions) ofTag(tag *repository.Ref) *storev1alpha1.PackageRevision {
	if cr := r.byTag[tag.Name]; cr != nil {
		return cr
	}
	if tag.Number > 0 {
		return r.byNumber[numbered{tag.Package, tag.Number}]
	}
	return nil
}

// judgement is what looking at a ref came to. It stands as long as the ref leads where it did, and compares with the same revision.
type judgement struct {
	id, uid string
	// problem is why it cannot be had; moved why the revision that is here is not what the tag leads to. Both empty: there is
	// nothing to be done.
	problem, moved string
	pkg            string
	conflict       bool
}

// standing are the judgements that still are about what they were about.
func standing(judged map[string]judgement, listing *repository.Listing, here *revisions) map[string]judgement {
	left := map[string]judgement{}
	for _, tag := range listing.Tags {
		if j, ok := judged[tag.Name]; ok && j.id == tag.ID && j.uid == uidOf(here.ofTag(&tag)) {
			left[tag.Name] = j
		}
	}
	return left
}

// toLoad returns the tags that must be read to know what they lead to. The judgements are those that stand.
func toLoad(repo string, listing *repository.Listing, here *revisions, judged map[string]judgement) []repository.Ref {
	var load []repository.Ref
	for _, tag := range listing.Tags {
		spec := &porchv1alpha1.PackageRevisionSpec{RepositoryName: repo, PackageName: tag.Package, WorkspaceName: tag.Workspace}
		if len(lifecycle.CheckNames(spec)) > 0 {
			continue // a tag of something else; what is a package is told of by the branch
		}
		cr := here.ofTag(&tag)
		if cr != nil && cr.External.ID == tag.ID {
			continue
		}
		if _, ok := judged[tag.Name]; ok {
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

// missingTags are those of revisions that are here and whose tags are gone.
func missingTags(listing *repository.Listing, here *revisions) []string {
	there := map[string]bool{}
	for _, tag := range listing.Tags {
		there[tag.Name] = true
	}
	var missing []string
	for _, cr := range here.all {
		if cr.External.Ref != "" && !cr.External.Branch && cr.DeletionTimestamp == nil && !there[cr.External.Ref] {
			missing = append(missing, cr.External.Ref)
		}
	}
	return missing
}

// toExport are the revisions that were published here and are not there.
func toExport(spec *configv1alpha1.RepositorySpec, here *revisions) []*storev1alpha1.PackageRevision {
	if !spec.Exports() {
		return nil
	}
	var export []*storev1alpha1.PackageRevision
	for _, cr := range here.all {
		if cr.Spec.Lifecycle.Published() && cr.Spec.Revision > 0 && cr.External.Ref == "" && !cr.Content.Imported && cr.DeletionTimestamp == nil {
			export = append(export, cr)
		}
	}
	slices.SortStableFunc(export, func(a, b *storev1alpha1.PackageRevision) int {
		return cmp.Or(strings.Compare(a.Spec.PackageName, b.Spec.PackageName), cmp.Compare(a.Spec.Revision, b.Spec.Revision))
	})
	return export
}

// leaving are the revisions that are being deleted and wait for us.
func leaving(here *revisions) []*storev1alpha1.PackageRevision {
	var all []*storev1alpha1.PackageRevision
	for _, cr := range here.all {
		if cr.DeletionTimestamp != nil && slices.Contains(cr.Finalizers, Finalizer) {
			all = append(all, cr)
		}
	}
	return all
}

// wantsFinalizer tells whether a revision has to wait for us when it is deleted.
func wantsFinalizer(spec *configv1alpha1.RepositorySpec, cr *storev1alpha1.PackageRevision) bool {
	return spec.Exports() && cr.Spec.Lifecycle.Published() && cr.Spec.Revision != 0 && !cr.External.Branch && cr.DeletionTimestamp == nil &&
		(cr.External.Ref != "" || cr.Spec.Revision > 0) && !slices.Contains(cr.Finalizers, Finalizer)
}

// stale are placeholders whose packages the branch does not have any more.
func stale(here *revisions, onBranch map[string]bool) []*storev1alpha1.PackageRevision {
	var all []*storev1alpha1.PackageRevision
	for _, cr := range here.all {
		if cr.External.Branch && cr.Content.Imported && cr.DeletionTimestamp == nil && !onBranch[cr.Spec.PackageName] {
			all = append(all, cr)
		}
	}
	return all
}

// relabelled returns the revisions, copied, whose label of the latest is wrong. Those to be labelled come first, so that each package has a
// latest one all the time.
func relabelled(here *revisions) []*storev1alpha1.PackageRevision {
	last := map[string]*storev1alpha1.PackageRevision{}
	for _, cr := range here.all {
		if cr.Spec.Lifecycle.Published() && cr.Spec.Revision > 0 && cr.DeletionTimestamp == nil {
			if known := last[cr.Spec.PackageName]; known == nil || cr.Spec.Revision > known.Spec.Revision {
				last[cr.Spec.PackageName] = cr
			}
		}
	}
	var add, remove []*storev1alpha1.PackageRevision
	for _, cr := range here.all {
		_, has := cr.Labels[porchv1alpha1.LatestRevisionLabel]
		switch latest := last[cr.Spec.PackageName] == cr; {
		case latest && !has:
			changed := cr.DeepCopy()
			if changed.Labels == nil {
				changed.Labels = map[string]string{}
			}
			changed.Labels[porchv1alpha1.LatestRevisionLabel] = "true"
			add = append(add, changed)
		case !latest && has && cr.DeletionTimestamp == nil:
			changed := cr.DeepCopy()
			delete(changed.Labels, porchv1alpha1.LatestRevisionLabel)
			remove = append(remove, changed)
		}
	}
	return append(add, remove...)
}

// newest returns the highest number of each package, here and there.
func newest(listing *repository.Listing, here *revisions) map[string]int {
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

// counts returns how many revisions of how many packages are here.
func counts(here *revisions) (revisionCount, packages int) {
	names := map[string]bool{}
	for _, cr := range here.all {
		names[cr.Spec.PackageName] = true
	}
	return len(here.all), len(names)
}
