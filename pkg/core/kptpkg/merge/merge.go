package merge

import (
	"errors"
	"fmt"
	"maps"
	"path"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// Strategy says how an upgrade treats what was changed locally.
type Strategy string

const (
	// ResourceMerge merges object by object and field by field. It is the default.
	ResourceMerge Strategy = "resource-merge"
	// FastForward takes the new upstream, and fails if anything was changed locally.
	FastForward Strategy = "fast-forward"
	// ForceDeleteReplace takes the new upstream, whatever was changed locally.
	ForceDeleteReplace Strategy = "force-delete-replace"
	// CopyMerge copies the files of the new upstream over the local ones; other local files stay.
	CopyMerge Strategy = "copy-merge"
)

// MaxConflicts bounds Result.Conflicts.
const MaxConflicts = 100

// Side is where a value comes from.
type Side string

// The sides of a merge that can win.
const (
	Local    Side = "local"
	Upstream Side = "upstream"
)

// Result of a merge.
type Result struct {
	// Files are the merged package.
	Files kptpkg.Files
	// Conflicts are what upstream and local changed differently: the first MaxConflicts, by path and then in the order of the file.
	Conflicts []Conflict
	// MoreConflicts counts those that are left out.
	MoreConflicts int
}

// Conflict is a place that upstream and local changed differently since they parted. It says where, and never holds content.
type Conflict struct {
	// Path of the file.
	Path string
	// Object is what it is about in the file, as Kind.group namespace/name; empty if it is the whole file.
	Object string
	// Field is the path of the field; empty if it is the whole object.
	Field string
	// Kept is the side whose content the result has.
	Kept Side
	// Deleted is the side that deleted what the other changed, if one did.
	Deleted Side
}

// String says in a sentence what the conflict is and how it was decided.
func (c Conflict) String() string {
	where := c.Path
	if c.Object != "" {
		where += ": " + c.Object
	}
	if c.Field != "" {
		where += ": " + c.Field
	}
	what := "changed on both sides"
	switch c.Deleted {
	case Local:
		what = "deleted locally, changed upstream"
	case Upstream:
		what = "deleted upstream, changed locally"
	}
	if c.Kept == Local {
		return where + ": " + what + "; it stays as it is locally"
	}
	return where + ": " + what + "; it is as upstream has it"
}

// ErrLocalChanges is why a FastForward fails: there is something to lose.
var ErrLocalChanges = errors.New("the package was changed locally; fast-forward would lose that")

// Merge brings local, which was made from original, to updated. An empty strategy is ResourceMerge. Inputs are not changed; on an error
// there is no result. An error names the version, the file and the line.
func Merge(strategy Strategy, original, updated, local kptpkg.Files) (Result, error) {
	switch strategy {
	case ResourceMerge, "":
		return resourceMerge(original, updated, local)
	case FastForward:
		if err := unchanged(original, local); err != nil {
			return Result{}, err
		}
		return replace(updated, local, nil)
	case ForceDeleteReplace:
		return replace(updated, local, nil)
	case CopyMerge:
		return replace(updated, local, local)
	}
	return Result{}, fmt.Errorf("strategy %q is not known; it can be %s, %s, %s or %s",
		clip(string(strategy)), ResourceMerge, FastForward, ForceDeleteReplace, CopyMerge)
}

// replace copies the files of updated over those of a base. The package stays the one that it is: its Kptfile keeps its name, and
// where it comes from unless updated says that.
func replace(updated, local, base kptpkg.Files) (Result, error) {
	files := maps.Clone(base)
	if files == nil {
		files = kptpkg.Files{}
	}
	for name, content := range updated {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			delete(files, dir) // what was a file is a directory now
		}
		files[name] = content
	}
	dropFilesAboveOthers(files, updated)
	theirs, hasTheirs := updated[kptpkg.KptfileName]
	ours, hasOurs := local[kptpkg.KptfileName]
	switch {
	case hasTheirs && hasOurs:
		merged, err := adoptKptfile(theirs, ours)
		if err != nil {
			return Result{}, err
		}
		files[kptpkg.KptfileName] = merged
	case hasOurs:
		files[kptpkg.KptfileName] = ours // a package without one is none
	}
	return Result{Files: files}, nil
}

// dropFilesAboveOthers removes what is below a path that updated has as a file.
func dropFilesAboveOthers(files, updated kptpkg.Files) {
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := updated[dir]; file {
				delete(files, name)
				break
			}
		}
	}
}

func clip(text string) string {
	const limit = 100
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
