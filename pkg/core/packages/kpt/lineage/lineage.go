// Package lineage finds the revision from which a revision was created, and the revisions to which
// it can be upgraded. It is pure.
package lineage

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Revisions are all revisions of a namespace.
type Revisions []porchv1alpha1.PackageRevision

// Latest selects the newest published revision of a package.
const Latest = "latest"

// Get returns the revision of that name, nil if there is none.
func (all Revisions) Get(name string) *porchv1alpha1.PackageRevision {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// Base returns the revision from which another revision was created, nil if it was created empty.
func (all Revisions) Base(r *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
	if len(r.Spec.Tasks) == 0 {
		return nil, nil //nolint:nilnil // created empty is a valid result
	}
	switch task := r.Spec.Tasks[0]; {
	case task.Init != nil:
		return nil, nil //nolint:nilnil // created empty is a valid result
	case task.Edit != nil && task.Edit.Source != nil:
		return all.source(r, task.Edit.Source.Name)
	case task.Upgrade != nil:
		return all.source(r, task.Upgrade.LocalPackageRevisionRef.Name)
	case task.Clone != nil:
		return all.cloned(r, &task.Clone.Upstream)
	default:
		return nil, fmt.Errorf("%s does not record what it was created from: its first task is of type %q", r.Name, task.Type)
	}
}

func (all Revisions) source(r *porchv1alpha1.PackageRevision, from string) (*porchv1alpha1.PackageRevision, error) {
	if source := all.Get(from); source != nil {
		return source, nil
	}
	return nil, fmt.Errorf("%s was created from %s, which no longer exists", r.Name, from)
}

// cloned returns the revision that was cloned. For a clone from git, it is the revision that a
// Repository imported from the same commit.
func (all Revisions) cloned(r *porchv1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) (*porchv1alpha1.PackageRevision, error) {
	if from.UpstreamRef != nil {
		return all.source(r, from.UpstreamRef.Name)
	}
	where := "an unknown location"
	switch {
	case from.Git != nil:
		where = strings.TrimSuffix(from.Git.Repo+"/"+from.Git.Directory, "/") + "@" + from.Git.Ref
	case from.OCI != nil:
		where = from.OCI.Image
	}
	if lock := gitLock(r.Status.UpstreamLock); lock != nil {
		for i := range all {
			if self := gitLock(all[i].Status.SelfLock); self != nil && self.Repo == lock.Repo && self.Commit == lock.Commit &&
				strings.Trim(self.Directory, "/") == strings.Trim(lock.Directory, "/") {
				return &all[i], nil
			}
		}
		for i := range all {
			if Moved(r, &all[i]) {
				return &all[i], nil
			}
		}
	}
	return nil, fmt.Errorf("%s was cloned from %s, which no Repository in its namespace imports", r.Name, where)
}

// Moved reports whether a revision was created from another commit of the tag that an upstream was
// imported from: the tag was moved since.
func Moved(r, upstream *porchv1alpha1.PackageRevision) bool {
	lock, self := gitLock(r.Status.UpstreamLock), gitLock(upstream.Status.SelfLock)
	return lock != nil && self != nil && self.Repo == lock.Repo && self.Ref != "" && self.Ref == lock.Ref && self.Commit != lock.Commit &&
		strings.Trim(self.Directory, "/") == strings.Trim(lock.Directory, "/")
}

func gitLock(l *porchv1alpha1.Locator) *porchv1alpha1.GitLock {
	if l == nil || l.Git == nil || l.Git.Commit == "" {
		return nil
	}
	return l.Git
}

// Upstream returns the revision of the upstream package that a revision was cloned from, or
// upgraded to, last.
func (all Revisions) Upstream(r *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
	name := r.Name
	for range len(all) + 1 { // the bound detects cycles
		var source *porchv1alpha1.PackageRevision
		for _, task := range slices.Backward(r.Spec.Tasks) {
			var err error
			switch {
			case task.Upgrade != nil:
				return all.source(r, task.Upgrade.NewUpstream.Name)
			case task.Clone != nil:
				return all.cloned(r, &task.Clone.Upstream)
			case task.Edit != nil && task.Edit.Source != nil:
				if source, err = all.source(r, task.Edit.Source.Name); err != nil {
					return nil, err
				}
			}
			if source != nil {
				break
			}
		}
		if source == nil {
			return nil, fmt.Errorf("%s has no upstream: it was not cloned", r.Name)
		}
		r = source
	}
	return nil, fmt.Errorf("%s has no upstream: its revisions were created from each other in a cycle", name)
}

// Published returns the published revisions of a package, the highest version first, with those
// that are proposed for deletion, and without placeholders.
func (all Revisions) Published(repository, packageName string) []*porchv1alpha1.PackageRevision {
	var found []*porchv1alpha1.PackageRevision
	for i := range all {
		if s := &all[i].Spec; s.RepositoryName == repository && s.PackageName == packageName &&
			s.Lifecycle.Published() && !version.OfServed(&all[i]).IsZero() {
			found = append(found, &all[i])
		}
	}
	slices.SortFunc(found, func(a, b *porchv1alpha1.PackageRevision) int {
		return cmp.Or(-version.Compare(version.OfServed(a), version.OfServed(b)), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// Find returns the published revision of a package by a name that a user gives: "latest" (the
// default), a number with or without a "v", a tag without a number, or a workspace name.
func (all Revisions) Find(repository, packageName, named string) (*porchv1alpha1.PackageRevision, error) {
	published := all.Published(repository, packageName)
	if len(published) == 0 {
		return nil, fmt.Errorf("package %s of repository %s has no published revision", packageName, repository)
	}
	if named == "" || named == Latest {
		if i := slices.IndexFunc(published, func(r *porchv1alpha1.PackageRevision) bool { return version.OfServed(r).IsRelease() }); i >= 0 {
			return published[i], nil
		}
	}
	for _, r := range published {
		if named != "" && version.OfServed(r).Tag == named {
			return r, nil
		}
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(named, "v")); err == nil {
		for _, r := range published {
			if r.Spec.Revision == n {
				return r, nil
			}
		}
	}
	for _, r := range published {
		if r.Spec.WorkspaceName == named {
			return r, nil
		}
	}
	known := make([]string, 0, len(published))
	for _, r := range published {
		if v := version.OfServed(r); v.Tag != "" {
			known = append(known, v.Tag)
		} else {
			known = append(known, "v"+strconv.Itoa(r.Spec.Revision))
		}
	}
	const shown = 10
	return nil, fmt.Errorf("package %s of repository %s has no published revision %q; it has %s", packageName, repository, named, text.List(known, shown))
}

// Workspace returns a workspace name that no revision of the package has: the given name, or that
// name with a number.
func (all Revisions) Workspace(repository, packageName, wanted string) string {
	taken := map[string]bool{}
	for i := range all {
		if s := &all[i].Spec; s.RepositoryName == repository && s.PackageName == packageName {
			taken[s.WorkspaceName] = true
		}
	}
	const longest = 63 // a label
	name := wanted[:min(len(wanted), longest)]
	for n := 2; taken[strings.TrimRight(name, "-")]; n++ {
		suffix := "-" + strconv.Itoa(n)
		name = wanted[:min(len(wanted), longest-len(suffix))] + suffix
	}
	return strings.TrimRight(name, "-")
}

// Sources returns the names of the revisions from which others were created, sorted; elsewhere is
// true if some revisions were cloned from an external location.
func Sources(all Revisions) (names []string, elsewhere bool) {
	for i := range all {
		for _, task := range all[i].Spec.Tasks {
			switch {
			case task.Edit != nil && task.Edit.Source != nil:
				names = append(names, task.Edit.Source.Name)
			case task.Upgrade != nil:
				names = append(names, task.Upgrade.LocalPackageRevisionRef.Name, task.Upgrade.NewUpstream.Name)
			case task.Clone != nil && task.Clone.Upstream.UpstreamRef != nil:
				names = append(names, task.Clone.Upstream.UpstreamRef.Name)
			case task.Clone != nil:
				elsewhere = true
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), elsewhere
}

// minCommit is the minimum length of an abbreviated commit.
const minCommit = 7

// FromGit returns the published revision that was imported from a directory in git at a tag or
// commit; the newest one if there are several, or neither is given. It returns nil if no Repository
// imported it.
func (all Revisions) FromGit(from *porchv1alpha1.GitPackage) *porchv1alpha1.PackageRevision {
	directory := strings.Trim(from.Directory, "/")
	return all.newest(func(r *porchv1alpha1.PackageRevision) (is, exactly bool) {
		lock := gitLock(r.Status.SelfLock)
		if lock == nil || !SameRepository(lock.Repo, from.Repo) || strings.Trim(lock.Directory, "/") != directory {
			return false, false
		}
		is = lock.Ref == from.Ref || lock.Ref == directory+"/"+from.Ref || len(from.Ref) >= minCommit && strings.HasPrefix(lock.Commit, from.Ref)
		return is || from.Ref == "", from.Ref != ""
	})
}

// FromOCI returns the published revision that was imported from an image, by its tag or its digest;
// the newest one if neither is given. It returns nil if no Repository imported it.
func (all Revisions) FromOCI(image string) *porchv1alpha1.PackageRevision {
	name, tag, digest := kpt.SplitImage(image)
	return all.newest(func(r *porchv1alpha1.PackageRevision) (is, exactly bool) {
		lock := r.Status.SelfLock
		if lock == nil || lock.OCI == nil {
			return false, false
		}
		lockName, lockTag, _ := kpt.SplitImage(lock.OCI.Image)
		is = lockName == name && (tag == "" || tag == lockTag) && (digest == "" || digest == lock.OCI.Digest)
		return is, tag+digest != ""
	})
}

// ImageName returns an image without its tag and its digest.
func ImageName(image string) string {
	name, _, _ := kpt.SplitImage(image)
	return name
}

// newest returns the highest of the published revisions that match. One that is no release must
// match exactly: the user named it. A placeholder never counts, because its content changes.
func (all Revisions) newest(match func(*porchv1alpha1.PackageRevision) (is, exactly bool)) *porchv1alpha1.PackageRevision {
	var found *porchv1alpha1.PackageRevision
	for i := range all {
		r := &all[i]
		if !r.Spec.Lifecycle.Published() {
			continue
		}
		is, exactly := match(r)
		v := version.OfServed(r)
		if is && (v.IsRelease() || exactly && !v.IsZero()) && (found == nil || version.Compare(version.OfServed(found), v) < 0) {
			found = r
		}
	}
	return found
}

// SameRepository reports whether two addresses are equal, except for a trailing slash or ".git".
func SameRepository(a, b string) bool { return address(a) == address(b) }

func address(repo string) string { return strings.TrimSuffix(strings.TrimRight(repo, "/"), ".git") }
