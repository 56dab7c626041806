package remote

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// NotNumbered is the number of revisions without a number: the content of a branch, and tags that
// are not named vN.
const NotNumbered = -1

// Ref is a tag or branch with packages.
type Ref struct {
	// Name is the name of the tag or branch, as users write it.
	Name string
	// ID is its commit or digest.
	ID string
	// Branch is true for a branch, which has any number of packages. A tag has one.
	Branch bool
	// Package is the package path of a tag, as users of Starling see it.
	Package string
	// Workspace is the workspace of the revision, as far as it follows from the name.
	Workspace string
	// Number is N if the tag is named vN, otherwise NotNumbered.
	Number int
}

// Listing is the content of a repository at one time.
type Listing struct {
	// Branch is the branch with the packages; nil if it does not exist or there are no branches.
	Branch *Ref
	// Empty is true if the repository has no tags and branches at all.
	Empty bool
	// Tags are the tags that may be of packages, sorted by name. Their content is not known yet.
	Tags []Ref
	// Unread are the packages whose tags could not be read completely, with the error. Nothing is
	// known about tags of theirs that are not in Tags.
	Unread map[string]error
}

// Revision is one package at a ref.
type Revision struct {
	Ref
	// Directory is the directory of the package in the repository.
	Directory string
	// By and At are the author and the time, if known.
	By string
	At time.Time
	// Files is the valid content. It is nil if there is a Problem.
	Files kpt.Files
	// Problem is why this revision cannot be imported.
	Problem string
	// Passing is true if the problem may pass without a change of the ref. The revision is then
	// read again.
	Passing bool
}

// Export is a revision to be written to a repository.
type Export struct {
	Package   string
	Workspace string
	// Number is N of the tag vN.
	Number int
	By     string
	At     time.Time
	Files  kpt.Files
	// Task is the task that created it, as JSON; empty if it is not known.
	Task string
	// Known are the tags whose content this revision may replace on the branch: those of the last
	// export of the package, and of the revision that this one was made from. Content of anybody
	// else stays.
	Known []Ref
	// KnownFiles are the contents of such revisions whose tags the repository has lost.
	KnownFiles []kpt.Files
	// Commit is the commit that the tag of the revision had, if the repository has lost the tag.
	// The tag is created there if the repository still has the commit. Registries need none.
	Commit string
	// Replace is a commit of the branch whose content of the package may be replaced, whatever it
	// is; empty for none.
	Replace string
}

// ExportResult is the result of an Export.
type ExportResult struct {
	// Ref is the tag; valid if there is no Problem.
	Ref Ref
	// Directory is the directory of the package in the repository.
	Directory string
	// Conflict is true if the repository has the tag with different content.
	Conflict bool
	// BranchChanged is the commit of the branch if that has other content of the package, which
	// was left there. Then only the tag was written.
	BranchChanged string
	// Problem is why it could not be exported. It does not affect other exports.
	Problem string
}

// Limits bound the cost of reading a repository.
type Limits struct {
	// Bytes bounds one transfer.
	Bytes int64
	// Unpacked bounds the unpacked size of one transfer.
	Unpacked int64
	// Object bounds a single object, such as a file. A larger one ends the transfer.
	Object int64
	// Refs bounds the number of tags and branches in a repository.
	Refs int
	// Packages bounds the number of packages in a branch.
	Packages int
	// Timeout bounds the duration of one call.
	Timeout time.Duration
}

// DefaultLimits returns limits that no reasonable catalogue exceeds and that a controller with 1
// GiB of memory can handle.
func DefaultLimits() Limits {
	return Limits{
		Bytes:    512 << 20,
		Unpacked: 4 << 30,
		Object:   64 << 20,
		Refs:     50_000,
		Packages: 10_000,
		Timeout:  5 * time.Minute,
	}
}

// TagOf returns the tag of a revision of a package.
func TagOf(name, pkg, revision string) Ref {
	tag := Ref{Name: name, Package: pkg, Workspace: Workspace(revision), Number: NotNumbered}
	if n, ok := Number(revision); ok {
		tag.Number = n
	}
	return tag
}

// Number returns N of a name vN without leading zeros, and whether the name has this form.
func Number(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "v")
	if !ok || len(digits) > 8 || strings.HasPrefix(digits, "0") {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return int(n), err == nil
}

// Workspace converts the name of a tag or branch into a workspace name, which is a DNS label.
// Different names may have the same result.
func Workspace(name string) string {
	const longest = 63
	label := []byte(name)
	for i, c := range label {
		switch {
		case c >= 'A' && c <= 'Z':
			label[i] += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		default:
			label[i] = '-'
		}
	}
	label = bytes.TrimLeft(label, "-")
	return string(bytes.TrimRight(label[:min(len(label), longest)], "-"))
}
