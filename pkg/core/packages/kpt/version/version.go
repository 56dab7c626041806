// Package version identifies and orders the published revisions of a package. It is pure.
package version

import (
	"cmp"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Version identifies a published revision among those of its package: by its number, or by the tag
// from which it was imported, such as v1.2.3. It is comparable. The zero value is that of drafts,
// and of placeholders, whose content changes.
type Version struct {
	Number int
	Tag    string
}

// Of returns the version of a stored revision.
func Of(r *storev1alpha1.PackageRevision) Version {
	if r.External.Branch {
		return Version{}
	}
	return OfTag(r.Spec.Revision, r.External.Ref)
}

// OfTag returns the version of a revision that is imported from a tag: its number or, if that is
// negative, the tag.
func OfTag(number int, ref string) Version {
	switch {
	case number > 0:
		return Version{Number: number}
	case number < 0:
		return Version{Tag: tagName(ref)}
	}
	return Version{}
}

// OfServed returns the version of a revision as users see it.
func OfServed(r *porchv1alpha1.PackageRevision) Version {
	if r.Spec.Revision > 0 {
		return Version{Number: r.Spec.Revision}
	}
	if lock := r.Status.SelfLock; r.Spec.Revision < 0 && lock != nil {
		switch {
		case lock.OCI != nil:
			_, tag, _ := kpt.SplitImage(lock.OCI.Image)
			return Version{Tag: tag}
		case lock.Git == nil:
		case strings.Trim(lock.Git.Directory, "/") == "" && IsTag(lock.Git.Ref), // of a package in the root, which has no other number
			strings.HasPrefix(lock.Git.Ref, strings.Trim(lock.Git.Directory, "/")+"/"): // only a tag does
			return Version{Tag: tagName(lock.Git.Ref)}
		}
	}
	return Version{}
}

// tagName returns a tag without the path of the package, and without the registry.
func tagName(ref string) string {
	if ref == "" {
		return ""
	}
	name := path.Base(ref)
	return name[strings.LastIndex(name, ":")+1:]
}

// IsTag reports whether a text is a semantic version, with or without a v, by which a tag can be
// ordered.
func IsTag(text string) bool { return semantic(text) != nil }

func semantic(tag string) *version.Version {
	v, err := version.ParseSemantic(tag)
	if err != nil {
		return nil
	}
	return v
}

// IsZero reports whether there is no version.
func (v Version) IsZero() bool { return v.Number <= 0 && v.Tag == "" }

// IsRelease reports whether the version may be the latest one: it is a number, or a semantic
// version that is not a pre-release.
func (v Version) IsRelease() bool {
	s := semantic(v.Tag)
	return v.Number > 0 || s != nil && s.PreRelease() == ""
}

// Compare orders versions: tags that are no semantic versions, semantic versions, numbers. Numbers
// come last because revisions that are created here get numbers.
func Compare(a, b Version) int {
	if a.Number > 0 || b.Number > 0 {
		return cmp.Compare(a.Number, b.Number)
	}
	x, y := semantic(a.Tag), semantic(b.Tag)
	switch {
	case x == nil && y == nil:
		return cmp.Compare(a.Tag, b.Tag)
	case x == nil:
		return -1
	case y == nil:
		return 1
	case x.LessThan(y):
		return -1
	case y.LessThan(x):
		return 1
	}
	return cmp.Compare(a.Tag, b.Tag) // they differ in build metadata or in the v
}

// Latest returns the latest of the published revisions of a package: the highest release. It is the
// one that is labelled, delivered, and selected by "latest". A revision that is proposed for
// deletion counts. A revision that is being deleted does not: it cannot be restored, and its tag in
// git may delay the deletion for long. It returns nil if there is none.
func Latest(revisions []*storev1alpha1.PackageRevision) *storev1alpha1.PackageRevision {
	var latest *storev1alpha1.PackageRevision
	for _, r := range revisions {
		if !r.Spec.Lifecycle.Published() || !Of(r).IsRelease() || r.DeletionTimestamp != nil {
			continue
		}
		if latest == nil || Precedes(latest, r) {
			latest = r
		}
	}
	return latest
}

// Relabel returns copies of the revisions of a package whose label of the latest is wrong, with the
// right one. The one that gets the label comes first, so that the package has a latest revision at
// all times.
func Relabel(revisions []*storev1alpha1.PackageRevision) (changed []*storev1alpha1.PackageRevision) {
	latest := Latest(revisions)
	for _, r := range revisions {
		_, has := r.Labels[porchv1alpha1.LatestRevisionLabel]
		switch {
		case r == latest && !has:
			r = r.DeepCopy()
			metav1.SetMetaDataLabel(&r.ObjectMeta, porchv1alpha1.LatestRevisionLabel, "true")
			changed = append([]*storev1alpha1.PackageRevision{r}, changed...)
		case r != latest && has:
			r = r.DeepCopy()
			delete(r.Labels, porchv1alpha1.LatestRevisionLabel)
			changed = append(changed, r)
		}
	}
	return changed
}

// Precedes reports whether a precedes b. A restored backup may hold two revisions with the same
// version. The order must be deterministic.
func Precedes(a, b *storev1alpha1.PackageRevision) bool {
	return cmp.Or(Compare(Of(a), Of(b)), cmp.Compare(a.Name, b.Name)) < 0
}
