// Package upgrade makes packages follow their upstreams: it notes where they come from, and merges newer revisions into them. It is pure.
package upgrade

import (
	"fmt"
	"maps"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/merge"
)

// ConditionMergeConflicts says that an upgrade met changes on both sides, where, and which it kept. There is none without conflicts.
// Owner: whoever merged, package-server as a rule.
const ConditionMergeConflicts = "MergeConflicts"

const (
	// maxConflicts bounds how many conflicts of a merge are told.
	maxConflicts = 10
	// maxMessage bounds the message of a condition.
	maxMessage = 2048
)

// Locate says where a revision lies: in the repository that it was imported from or exported to, or here. What lies here has no
// commit; its digest stands for that.
func Locate(cr *storev1alpha1.PackageRevision) *porchv1alpha1.Locator {
	if lock := cr.Status.SelfLock; lock != nil && lock.Git != nil {
		return lock
	}
	return LocateHere(cr)
}

// LocateHere says where a revision lies here, whether it lies elsewhere, too.
func LocateHere(cr *storev1alpha1.PackageRevision) *porchv1alpha1.Locator {
	ref := draftRef(cr)
	if cr.Spec.Lifecycle.Published() {
		ref = fmt.Sprintf("%s/v%d", cr.Spec.PackageName, cr.Spec.Revision)
	}
	return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{
		Repo: here + cr.Namespace + "/" + cr.Spec.RepositoryName, Directory: cr.Spec.PackageName, Ref: ref, Commit: cr.Content.Digest,
	}}
}

// here begins what stands for the address of a repository that lies in the space itself.
const here = "hub:"

func draftRef(cr *storev1alpha1.PackageRevision) string {
	return "drafts/" + cr.Spec.PackageName + "/" + cr.Spec.WorkspaceName
}

// Here returns the namespace and the Repository of what lies here; false for what lies elsewhere.
func Here(l *porchv1alpha1.Locator) (namespace, repository string, ok bool) {
	if l == nil || l.Git == nil || !strings.HasPrefix(l.Git.Repo, here) {
		return "", "", false
	}
	return strings.Cut(strings.TrimPrefix(l.Git.Repo, here), "/")
}

// IsAt tells whether a lock names this revision: as it is, or as the draft that it once was.
func IsAt(cr *storev1alpha1.PackageRevision, l *porchv1alpha1.Locator) bool {
	if l == nil || l.Git == nil {
		return false
	}
	if lock := cr.Status.SelfLock; lock != nil && lock.Git != nil && *lock.Git == *l.Git {
		return true
	}
	at := LocateHere(cr).Git
	return l.Git.Repo == at.Repo && l.Git.Directory == at.Directory && (l.Git.Ref == at.Ref || l.Git.Ref == draftRef(cr))
}

// Follow writes into a Kptfile which upstream it follows, and takes its own status out. With a name it is that of a new package, without
// the gates of the upstream.
func Follow(files kptpkg.Files, upstream *storev1alpha1.PackageRevision, name string, strategy porchv1alpha1.PackageMergeStrategy) (kptpkg.Files, error) {
	kptfile, err := kptpkg.ParseKptfile(files[kptpkg.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	if name != "" {
		if err := kptfile.SetName(name); err != nil {
			return nil, err
		}
		if err := kptfile.SetReadinessGates(nil); err != nil {
			return nil, err
		}
	}
	if err := kptfile.SetConditions(nil); err != nil {
		return nil, err
	}
	at := Locate(upstream)
	git := kptpkg.GitUpstream{Repo: at.Git.Repo, Directory: at.Git.Directory, Ref: at.Git.Ref}
	locked := git
	locked.Commit = at.Git.Commit
	err = kptfile.SetUpstream(
		kptpkg.Upstream{Type: string(at.Type), Git: &git, UpdateStrategy: string(strategy)},
		kptpkg.Upstream{Type: string(at.Type), Git: &locked})
	if err != nil {
		return nil, err
	}
	return with(files, kptpkg.KptfileName, kptfile.String()), nil
}

// UpstreamError says that the new upstream cannot be followed.
type UpstreamError struct{ Err error }

// Error implements error.
func (e *UpstreamError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the upstream.
func (e *UpstreamError) Unwrap() error { return e.Err }

// Merge brings local, which was made from the files of an old upstream, to those of a new one, and has it follow that. The condition tells
// of conflicts; it is nil if there are none. The conditions of local are gone: they were about other content.
func Merge(strategy porchv1alpha1.PackageMergeStrategy, original kptpkg.Files, upstream *storev1alpha1.PackageRevision, updated, local kptpkg.Files) (kptpkg.Files, *porchv1alpha1.Condition, error) {
	if strategy == "" {
		strategy = porchv1alpha1.ResourceMerge
	}
	// What the merge is told of as upstream becomes what the package follows.
	updated, err := Follow(updated, upstream, "", strategy)
	if err != nil {
		return nil, nil, &UpstreamError{err}
	}
	merged, err := merge.Merge(merge.Strategy(strategy), withoutStatus(original), withoutStatus(updated), withoutStatus(local))
	if err != nil {
		return nil, nil, err
	}
	return merge.AddMergeComments(merged.Files), conflictsOf(&merged), nil
}

// withoutStatus takes the conditions out of the Kptfile: they say how a revision did, and would be merged as if somebody had written
// them.
func withoutStatus(files kptpkg.Files) kptpkg.Files {
	kptfile, err := kptpkg.ParseKptfile(files[kptpkg.KptfileName])
	if err != nil || len(kptfile.Conditions()) == 0 {
		return files
	}
	if err := kptfile.SetConditions(nil); err != nil {
		return files
	}
	return with(files, kptpkg.KptfileName, kptfile.String())
}

func conflictsOf(merged *merge.Result) *porchv1alpha1.Condition {
	if len(merged.Conflicts) == 0 {
		return nil
	}
	var texts []string
	for _, c := range merged.Conflicts[:min(maxConflicts, len(merged.Conflicts))] {
		texts = append(texts, c.String())
	}
	text := strings.Join(texts, "; ")
	if more := len(merged.Conflicts) + merged.MoreConflicts - maxConflicts; more > 0 {
		text += fmt.Sprintf(" … and %d more", more)
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return &porchv1alpha1.Condition{Type: ConditionMergeConflicts, Status: porchv1alpha1.ConditionTrue, Reason: "ChangedOnBothSides", Message: text}
}

// with returns the files with one of them replaced.
func with(files kptpkg.Files, name, content string) kptpkg.Files {
	out := maps.Clone(files)
	if out == nil {
		out = kptpkg.Files{}
	}
	out[name] = content
	return out
}
