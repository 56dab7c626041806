package merge

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Strategy says how an upgrade treats local changes.
type Strategy string

const (
	// ResourceMerge merges object by object and field by field. It is the default.
	ResourceMerge Strategy = "resource-merge"
	// FastForward replaces the package by the new upstream, and fails if there are local changes.
	FastForward Strategy = "fast-forward"
	// ForceDeleteReplace replaces the package by the new upstream, and drops local changes.
	ForceDeleteReplace Strategy = "force-delete-replace"
	// CopyMerge copies the files of the new upstream over the local files. Other local files stay,
	// and the Kptfile of the root package is merged as in ResourceMerge.
	CopyMerge Strategy = "copy-merge"
)

// MaxConflicts bounds Result.Conflicts.
const MaxConflicts = 100

// Side is the origin of a value in the result.
type Side string

// The sides of a merge.
const (
	Local    Side = "local"
	Upstream Side = "upstream"
)

// Result of a merge.
type Result struct {
	// Files of the merged package.
	Files kpt.Files
	// Conflicts are the first MaxConflicts conflicts, ordered by path and position in the file.
	Conflicts []Conflict
	// MoreConflicts is the number of conflicts that are not in Conflicts.
	MoreConflicts int
}

// Conflict is a file, object or field that upstream and local changed differently. It never holds
// content.
type Conflict struct {
	// Path of the file.
	Path string
	// Object is the object in the file, as Kind.group namespace/name; empty if the conflict is
	// about the whole file.
	Object string
	// Field is the path of the field; empty if the conflict is about the whole object.
	Field string
	// Kept is the side whose content is in the result.
	Kept Side
	// Deleted is the side that deleted what the other side changed; empty if neither did.
	Deleted Side
}

// String describes the conflict and how it was resolved.
func (c Conflict) String() string {
	where := strings.Join(slices.DeleteFunc([]string{c.Path, c.Object, c.Field}, func(part string) bool { return part == "" }), ": ")
	what := "changed on both sides"
	switch c.Deleted {
	case Local:
		what = "deleted locally, changed upstream"
	case Upstream:
		what = "deleted upstream, changed locally"
	}
	result := fmt.Sprintf("the %s content is used", c.Kept)
	switch {
	case c.Deleted == c.Kept:
		result = "it is deleted"
	case c.Kept == Local:
		result = "the local content is kept"
	}
	return where + ": " + what + "; " + result
}

// SchemaError is the error if the schema of an object is not known now. The merge may succeed
// later.
type SchemaError struct {
	// Object is that of a Conflict.
	Object string
	Err    error
}

// Error implements error.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("read the schema of %s: %v", e.Object, e.Err)
}

// Unwrap returns the error of Schemas.
func (e *SchemaError) Unwrap() error { return e.Err }

// ErrLocalChanges is the error of FastForward if there are local changes.
var ErrLocalChanges = errors.New("the package has local changes, which fast-forward would lose")

// Merge merges the changes between original and updated into local, which was created from
// original. An empty strategy is ResourceMerge. Inputs are not changed. An error names the version,
// the file and the line, or it is a *SchemaError. The argument others has the schemas of kinds that
// neither Kubernetes nor the package defines; it may be nil.
func Merge(strategy Strategy, original, updated, local kpt.Files, others Schemas) (Result, error) {
	switch strategy {
	case ResourceMerge, "":
		return resourceMerge(original, updated, local, others)
	case FastForward:
		if err := unchanged(original, local, true); err != nil {
			return Result{}, err
		}
		return replace(updated, local, nil)
	case ForceDeleteReplace:
		return replace(updated, local, nil)
	case CopyMerge:
		return copyMerge(original, updated, local)
	}
	return Result{}, fmt.Errorf("unknown strategy %q; use %s, %s, %s or %s",
		text.Clip(string(strategy), maxShown), ResourceMerge, FastForward, ForceDeleteReplace, CopyMerge)
}

func copyMerge(original, updated, local kpt.Files) (Result, error) {
	result, err := replace(updated, local, local)
	if err != nil || updated[kpt.KptfileName] == "" || local[kpt.KptfileName] == "" {
		return result, err
	}
	m := &merger{versions: [3]kpt.Files{original, updated, local}, result: kpt.Files{}}
	if err := m.kptfile(kpt.KptfileName); err != nil {
		return Result{}, err
	}
	m.sortConflicts()
	result.Files[kpt.KptfileName] = m.result[kpt.KptfileName]
	result.Conflicts, result.MoreConflicts = m.conflicts, m.dropped
	return result, nil
}

// replace copies the files of updated over those of a base. The Kptfile retains the local name of
// the package and, unless updated has one, the local upstream.
func replace(updated, local, base kpt.Files) (Result, error) {
	files := maps.Clone(base)
	if files == nil {
		files = kpt.Files{}
	}
	for name, content := range updated {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			delete(files, dir) // it is a directory in updated
		}
		files[name] = content
	}
	dropFilesAboveOthers(files, updated)
	theirs, hasTheirs := updated[kpt.KptfileName]
	ours, hasOurs := local[kpt.KptfileName]
	switch {
	case hasTheirs && hasOurs:
		merged, err := adoptKptfile(theirs, ours)
		if err != nil {
			return Result{}, err
		}
		files[kpt.KptfileName] = merged
	case hasOurs:
		files[kpt.KptfileName] = ours // every package must have a Kptfile
	}
	return Result{Files: files}, nil
}

// dropFilesAboveOthers removes files below a path that is a file in updated.
func dropFilesAboveOthers(files, updated kpt.Files) {
	maps.DeleteFunc(files, func(name, _ string) bool {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := updated[dir]; file {
				return true
			}
		}
		return false
	})
}

// maxShown bounds a name in a conflict or an error.
const maxShown = 100
