// Package lineage tells what a revision of a package was made from, and what it can be upgraded to. It is pure.
package lineage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// Revisions are all revisions of a namespace.
type Revisions []porchv1alpha1.PackageRevision

// Latest is the word for the newest published revision of a package.
const Latest = "latest"

// Get returns the revision of that name, nil if there is none.
func (all Revisions) Get(name string) *porchv1alpha1.PackageRevision {
	i := slices.IndexFunc(all, func(r porchv1alpha1.PackageRevision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Base returns the revision that another one was made from, nil if it was made from nothing.
func (all Revisions) Base(r *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
	if len(r.Spec.Tasks) == 0 {
		return nil, nil //nolint:nilnil // made from nothing is an answer
	}
	switch task := r.Spec.Tasks[0]; {
	case task.Init != nil:
		return nil, nil //nolint:nilnil // made from nothing is an answer
	case task.Edit != nil && task.Edit.Source != nil:
		return all.made(r, task.Edit.Source.Name)
	case task.Upgrade != nil:
		return all.made(r, task.Upgrade.LocalPackageRevisionRef.Name)
	case task.Clone != nil:
		return all.cloned(r, &task.Clone.Upstream)
	default:
		return nil, fmt.Errorf("%s does not say what it was made from: its first task is of type %q", r.Name, task.Type)
	}
}

func (all Revisions) made(r *porchv1alpha1.PackageRevision, from string) (*porchv1alpha1.PackageRevision, error) {
	if source := all.Get(from); source != nil {
		return source, nil
	}
	return nil, fmt.Errorf("%s was made from %s, which is not there any more", r.Name, from)
}

// cloned returns the revision that a clone is of. What was cloned from git is one if a repository holds the same commit.
func (all Revisions) cloned(r *porchv1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) (*porchv1alpha1.PackageRevision, error) {
	if from.UpstreamRef != nil {
		return all.made(r, from.UpstreamRef.Name)
	}
	where := "elsewhere"
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
	}
	return nil, fmt.Errorf("%s was cloned from %s, which no repository of its namespace holds", r.Name, where)
}

func gitLock(l *porchv1alpha1.Locator) *porchv1alpha1.GitLock {
	if l == nil || l.Git == nil || l.Git.Commit == "" {
		return nil
	}
	return l.Git
}

// Upstream returns the revision of the upstream package that a revision was cloned from, or upgraded to, last.
func (all Revisions) Upstream(r *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
	for range len(all) + 1 { // no further than all of them, should they be made in a circle
		var source *porchv1alpha1.PackageRevision
		for _, task := range slices.Backward(r.Spec.Tasks) {
			var err error
			switch {
			case task.Upgrade != nil:
				return all.made(r, task.Upgrade.NewUpstream.Name)
			case task.Clone != nil:
				return all.cloned(r, &task.Clone.Upstream)
			case task.Edit != nil && task.Edit.Source != nil:
				if source, err = all.made(r, task.Edit.Source.Name); err != nil {
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
	return nil, errors.New("the revisions were made from one another in a circle")
}

// Published returns the published revisions of a package, the newest first. What is proposed for deletion is left out, and so is the
// content of a main branch.
func (all Revisions) Published(repository, packageName string) []*porchv1alpha1.PackageRevision {
	var found []*porchv1alpha1.PackageRevision
	for i := range all {
		if s := &all[i].Spec; s.RepositoryName == repository && s.PackageName == packageName &&
			s.Lifecycle == porchv1alpha1.LifecyclePublished && s.Revision > 0 {
			found = append(found, &all[i])
		}
	}
	slices.SortFunc(found, func(a, b *porchv1alpha1.PackageRevision) int {
		return cmp.Or(-cmp.Compare(a.Spec.Revision, b.Spec.Revision), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// Find returns the published revision of a package that a user names: "latest" (or nothing), a number with or without a "v", or a
// workspace.
func (all Revisions) Find(repository, packageName, named string) (*porchv1alpha1.PackageRevision, error) {
	published := all.Published(repository, packageName)
	if len(published) == 0 {
		return nil, fmt.Errorf("package %s of repository %s has no published revision", packageName, repository)
	}
	if named == "" || named == Latest {
		return published[0], nil
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
	const many = 10
	var known []string
	for _, r := range published[:min(many, len(published))] {
		known = append(known, "v"+strconv.Itoa(r.Spec.Revision))
	}
	if len(published) > many {
		known = append(known, fmt.Sprintf("and %d older ones", len(published)-many))
	}
	return nil, fmt.Errorf("package %s of repository %s has no published revision %q; there are %s", packageName, repository, named, strings.Join(known, ", "))
}

// Workspace returns a name for a workspace of a package that is free: the one wanted, or that with a number.
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

// Sources returns the names of the revisions that others were made from, sorted; elsewhere tells whether some were cloned from
// what has no name here.
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

// minCommit is how much of a commit must be given to name it.
const minCommit = 7

// FromGit returns the published revision that a repository holds of a directory in git at a tag or commit; the newest one if there are
// several, or neither is given. It returns nil if no repository holds it.
func (all Revisions) FromGit(from *porchv1alpha1.GitPackage) *porchv1alpha1.PackageRevision {
	directory := strings.Trim(from.Directory, "/")
	return all.newest(func(r *porchv1alpha1.PackageRevision) (is, exactly bool) {
		lock := gitLock(r.Status.SelfLock)
		if lock == nil || !SameRepository(lock.Repo, from.Repo) || strings.Trim(lock.Directory, "/") != directory {
			return false, false
		}
		// Only a tag begins with the directory; what the branch holds moves.
		tagged := strings.HasPrefix(lock.Ref, directory+"/") && (lock.Ref == from.Ref || lock.Ref == directory+"/"+from.Ref)
		return from.Ref == "" || lock.Ref == from.Ref || tagged || len(from.Ref) >= minCommit && strings.HasPrefix(lock.Commit, from.Ref), tagged
	})
}

// FromOCI returns the published revision that a repository holds of an image, by its tag or its digest; the newest one if neither is
// given. It returns nil if no repository holds it.
func (all Revisions) FromOCI(image string) *porchv1alpha1.PackageRevision {
	name, digest, _ := strings.Cut(image, "@")
	name, tag := splitTag(name)
	return all.newest(func(r *porchv1alpha1.PackageRevision) (is, exactly bool) {
		lock := r.Status.SelfLock
		if lock == nil || lock.OCI == nil {
			return false, false
		}
		lockName, lockTag := splitTag(lock.OCI.Image)
		is = lockName == name && (tag == "" || tag == lockTag) && (digest == "" || digest == lock.OCI.Digest)
		return is, is && tag+digest != ""
	})
}

// ImageName is an image without its tag and its digest.
func ImageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name, _ = splitTag(name)
	return name
}

// splitTag splits an image: a colon after the last slash begins a tag, one before is that of a port.
func splitTag(image string) (name, tag string) {
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon], image[colon+1:]
	}
	return image, ""
}

// newest returns the newest of the published revisions that are meant; one without a number only if it is meant exactly.
func (all Revisions) newest(meant func(*porchv1alpha1.PackageRevision) (is, exactly bool)) *porchv1alpha1.PackageRevision {
	var found *porchv1alpha1.PackageRevision
	for i := range all {
		r := &all[i]
		if r.Spec.Lifecycle != porchv1alpha1.LifecyclePublished {
			continue
		}
		is, exactly := meant(r)
		if is && (r.Spec.Revision > 0 || exactly) && (found == nil || found.Spec.Revision < r.Spec.Revision) {
			found = r
		}
	}
	return found
}

// SameRepository tells whether two addresses are of one git repository, however their ends are written.
func SameRepository(a, b string) bool { return address(a) == address(b) }

func address(repo string) string { return strings.TrimSuffix(strings.TrimRight(repo, "/"), ".git") }
