package repository

import (
	"time"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// NotNumbered is the number of revisions that are no vN: what a branch holds, and tags of another form.
const NotNumbered = -1

// Ref is a tag or branch that leads to packages.
type Ref struct {
	// Name is that of the tag or branch, as users write it.
	Name string
	// ID is the commit, or the digest, that it leads to.
	ID string
	// Branch tells that it is a branch, with any number of packages. A tag leads to one.
	Branch bool
	// Package is the path of the package that a tag is of, as users of Starling see it.
	Package string
	// Workspace is that of the revision, as far as the name tells.
	Workspace string
	// Number is N if the tag is named vN, else NotNumbered.
	Number int
}

// Listing is what a repository has at one time.
type Listing struct {
	// Branch is the one with the packages; nil if it is not there or there are no branches.
	Branch *Ref
	// Tags are those that may be of packages, sorted by name. Nothing is known of what they lead to.
	Tags []Ref
}

// Revision is what a ref holds of one package.
type Revision struct {
	Ref
	// Directory is where the package lies in the repository.
	Directory string
	// By and At say who made it, and when, if that is known.
	By string
	At time.Time
	// Files are its content, which is checked. They are nil if there is a Problem.
	Files kptpkg.Files
	// Problem says why this revision cannot be had.
	Problem string
}

// Export is a revision that is to be in a repository.
type Export struct {
	Package   string
	Workspace string
	// Number is N of the tag vN.
	Number int
	By     string
	At     time.Time
	Files  kptpkg.Files
	// Task is how it came about, as JSON; empty if that is not known.
	Task string
}

// Exported is what became of an Export.
type Exported struct {
	// Ref is the tag; valid if there is no Problem.
	Ref Ref
	// Directory is where it lies.
	Directory string
	// Conflict says that the repository has the tag with other content.
	Conflict bool
	// Problem says why it could not be exported; the others are not affected.
	Problem string
}

// Limits bound what reading a repository may cost.
type Limits struct {
	// Bytes is the most that is transferred at once.
	Bytes int64
	// Unpacked is the most that comes to unpacked.
	Unpacked int64
	// Object is the largest single thing, such as a file, that is taken; larger ones end the transfer.
	Object int64
	// Refs is how many tags and branches a repository may have.
	Refs int
	// Packages is how many packages a branch may have.
	Packages int
	// Timeout ends a transfer.
	Timeout time.Duration
}

// DefaultLimits returns what a catalogue of any sensible size stays below, and a controller with 1 GiB of memory stands.
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

// Number returns N of a name vN without leading zeros, and whether it is one.
func Number(name string) (int, bool) {
	if len(name) < 2 || len(name) > 9 || name[0] != 'v' || name[1] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range name[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// Workspace makes the name of a tag or branch one of a workspace: a DNS label. Different names may become the same.
func Workspace(name string) string {
	const longest = 63
	label := make([]byte, 0, len(name))
	for _, c := range []byte(name) {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		default:
			c = '-'
		}
		if len(label) == longest {
			break
		}
		if c != '-' || len(label) > 0 {
			label = append(label, c)
		}
	}
	for len(label) > 0 && label[len(label)-1] == '-' {
		label = label[:len(label)-1]
	}
	return string(label)
}
