// Package upgrade records the upstream of a package, and merges newer revisions of the upstream
// into the package. It is pure.
package upgrade

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/text"
)

// ConditionMergeConflicts reports that an upgrade found changes on both sides. Its message says
// where, and which side it used. It is absent if there are no conflicts. Owner: the program that
// merged, mostly package-server.
const ConditionMergeConflicts = "MergeConflicts"

const (
	// maxConflicts bounds the number of conflicts in a condition.
	maxConflicts = 10
	// maxMessage bounds the message of a condition.
	maxMessage = 2048
)

// Locate returns the location of a revision: in the repository that it was imported from or
// exported to, or else in this API server. There, the digest of the content takes the place of the
// commit.
func Locate(cr *storev1alpha1.PackageRevision) *porchv1alpha1.Locator {
	if lock := cr.Status.SelfLock; lock != nil && lock.Git != nil {
		return lock
	}
	return LocateHere(cr)
}

// LocateHere returns the location of a revision in this API server, even if it also has an external
// location.
func LocateHere(cr *storev1alpha1.PackageRevision) *porchv1alpha1.Locator {
	ref := draftRef(cr)
	switch v := version.Of(cr); {
	case v.Tag != "":
		ref = cr.Spec.PackageName + "/" + v.Tag
	case cr.Spec.Lifecycle.Published():
		ref = fmt.Sprintf("%s/v%d", cr.Spec.PackageName, cr.Spec.Revision)
	}
	return &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{
		Repo: here + cr.Namespace + "/" + cr.Spec.RepositoryName, Directory: cr.Spec.PackageName, Ref: ref, Commit: cr.Content.Digest,
	}}
}

// here is the prefix of the repository addresses of locations in this API server.
const here = "hub:"

func draftRef(cr *storev1alpha1.PackageRevision) string {
	return "drafts/" + cr.Spec.PackageName + "/" + cr.Spec.WorkspaceName
}

// Here returns the namespace and the Repository of a location in this API server; false for an
// external location.
func Here(l *porchv1alpha1.Locator) (namespace, repository string, ok bool) {
	if l == nil || l.Git == nil || !strings.HasPrefix(l.Git.Repo, here) {
		return "", "", false
	}
	return strings.Cut(strings.TrimPrefix(l.Git.Repo, here), "/")
}

// IsAt reports whether a lock refers to this revision: as it is, or as the draft that it was.
func IsAt(cr *storev1alpha1.PackageRevision, l *porchv1alpha1.Locator) bool {
	if l == nil || l.Git == nil {
		return false
	}
	if lock := cr.Status.SelfLock; lock != nil && lock.Git != nil && *lock.Git == *l.Git {
		return true
	}
	here := LocateHere(cr).Git
	return l.Git.Repo == here.Repo && l.Git.Directory == here.Directory && (l.Git.Ref == here.Ref || l.Git.Ref == draftRef(cr))
}

// Follow sets the upstream of a package in its Kptfile, and removes its conditions. If name is not
// empty, it becomes the name of the new package, and the readiness gates of the upstream are
// removed.
func Follow(files kpt.Files, upstream *storev1alpha1.PackageRevision, name string, strategy porchv1alpha1.PackageMergeStrategy) (kpt.Files, error) {
	kptfile, err := kpt.ParseKptfile(files[kpt.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
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
	git := kpt.GitUpstream{Repo: at.Git.Repo, Directory: at.Git.Directory, Ref: at.Git.Ref}
	locked := git
	locked.Commit = at.Git.Commit
	err = kptfile.SetUpstream(
		kpt.Upstream{Type: string(at.Type), Git: &git, UpdateStrategy: string(strategy)},
		kpt.Upstream{Type: string(at.Type), Git: &locked})
	if err != nil {
		return nil, err
	}
	return with(files, kpt.KptfileName, kptfile.String()), nil
}

// UpstreamError is the error if the package cannot be merged because of its new upstream.
type UpstreamError struct{ Err error }

// Error implements error.
func (e *UpstreamError) Error() string { return e.Err.Error() }

// Unwrap returns the error in the upstream.
func (e *UpstreamError) Unwrap() error { return e.Err }

// Merged is a merge of a new upstream into a package.
type Merged struct {
	// Files are the merged files, before any function of the package has run.
	Files kpt.Files

	result          merge.Result
	original, local kpt.Files
	gates           []kpt.ReadinessGate
	schemas         merge.Schemas
}

// Merge merges the files of a new upstream into local, which was created from original, the files
// of the old upstream, and sets the new upstream in its Kptfile. The conditions of local are
// removed, because they are about other content. The readiness gates of local stay, and those of
// the upstream are not merged: they are about its own approval. The argument schemas is that of
// merge.Merge, and so is a *merge.SchemaError.
func Merge(
	strategy porchv1alpha1.PackageMergeStrategy, original kpt.Files, upstream *storev1alpha1.PackageRevision, updated, local kpt.Files, schemas merge.Schemas,
) (*Merged, error) {
	if strategy == "" {
		strategy = porchv1alpha1.ResourceMerge
	}
	// The merge uses the upstream in the Kptfile of updated.
	updated, err := Follow(updated, upstream, "", strategy)
	if err != nil {
		return nil, &UpstreamError{err}
	}
	m := &Merged{schemas: schemas}
	if kptfile, err := kpt.ParseKptfile(local[kpt.KptfileName]); err == nil { // else the merge reports it
		m.gates = kptfile.ReadinessGates()
	}
	m.original, m.local = normalized(original, m.gates), normalized(local, m.gates)
	if m.result, err = merge.Merge(merge.Strategy(strategy), m.original, normalized(updated, m.gates), m.local, schemas); err != nil {
		return nil, err
	}
	m.Files = merge.AddMergeComments(m.result.Files)
	return m, nil
}

// Conflicts returns the condition that reports conflicts, nil if there are none.
func (m *Merged) Conflicts() *porchv1alpha1.Condition {
	return conflictsOf(m.result.Conflicts, m.result.MoreConflicts)
}

// ConflictsIn returns the condition for the merged files after the functions of the package have
// run. A field that a function sets, such as a replacement or a namespace, often differs between
// upstream and local, and the function sets it again: then nothing is overwritten.
func (m *Merged) ConflictsIn(rendered kpt.Files) *porchv1alpha1.Condition {
	if len(m.result.Conflicts) == 0 || m.result.MoreConflicts > 0 {
		return m.Conflicts()
	}
	// What differs from local where local differs from original is a conflict of this merge, too.
	again, err := merge.Merge(merge.ResourceMerge, m.original, normalized(rendered, m.gates), m.local, m.schemas)
	if err != nil || again.MoreConflicts > 0 {
		return m.Conflicts()
	}
	left := slices.DeleteFunc(slices.Clone(m.result.Conflicts), func(c merge.Conflict) bool {
		return c.Kept == merge.Upstream && c.Field != "" && !slices.ContainsFunc(again.Conflicts, func(o merge.Conflict) bool {
			return o.Path == c.Path && o.Object == c.Object && (strings.HasPrefix(o.Field, c.Field) || strings.HasPrefix(c.Field, o.Field))
		})
	})
	return conflictsOf(left, 0)
}

// normalized sets the readiness gates in the Kptfile, and removes the conditions. They are
// observations of a revision, and would be merged as if a user had written them.
func normalized(files kpt.Files, gates []kpt.ReadinessGate) kpt.Files {
	kptfile, err := kpt.ParseKptfile(files[kpt.KptfileName])
	if err != nil {
		return files // the merge reports it
	}
	if errors.Join(kptfile.SetConditions(nil), kptfile.SetReadinessGates(gates)) != nil || !kptfile.Changed() {
		return files
	}
	return with(files, kpt.KptfileName, kptfile.String())
}

func conflictsOf(conflicts []merge.Conflict, more int) *porchv1alpha1.Condition {
	if len(conflicts) == 0 {
		return nil
	}
	shown := min(maxConflicts, len(conflicts))
	list := make([]string, shown, shown+1)
	for i := range list {
		list[i] = conflicts[i].String()
	}
	if more += len(conflicts) - shown; more > 0 {
		list = append(list, text.More(more))
	}
	return &porchv1alpha1.Condition{
		Type: ConditionMergeConflicts, Status: porchv1alpha1.ConditionTrue, Reason: "ChangedOnBothSides", Message: text.Clip(strings.Join(list, "; "), maxMessage),
	}
}

// Accumulate returns the condition after another merge into a draft: what an earlier merge has
// overwritten is not there again.
func Accumulate(before, after *porchv1alpha1.Condition) *porchv1alpha1.Condition {
	if before == nil || before.Status != porchv1alpha1.ConditionTrue {
		return after
	}
	out := *before
	if after != nil && !strings.Contains(before.Message, after.Message) {
		out.Message = text.Clip(before.Message+"; "+after.Message, maxMessage)
	}
	return &out
}

// with returns the files with one of them replaced.
func with(files kpt.Files, name, content string) kpt.Files {
	out := maps.Clone(files)
	if out == nil {
		out = kpt.Files{}
	}
	out[name] = content
	return out
}
