package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

// Options say which repository to open, and how.
type Options struct {
	// Repo is the address, as in spec.git.repo.
	Repo string
	// Branch is the branch with the packages.
	Branch string
	// CreateBranch lets Export create the branch.
	CreateBranch bool
	// HadBranch says that the branch was there once. If it is not, List does not fail.
	HadBranch bool
	// Directory is the directory of the packages; empty is the whole repository.
	Directory string
	// RootPackage is the name of the only package, whose files are in Directory itself; empty means
	// that packages are directories below it.
	RootPackage string
	// Insecure allows http, and so everybody between to read and change what is sent.
	Insecure bool
	// Author and Email are those of commits; empty means the publisher of the revision.
	Author, Email string
	// Secret is the content of the Secret that the Repository refers to; nil if there is none.
	Secret map[string][]byte
	// FileRoots are the directories that file URLs may point into.
	FileRoots []string
	// Hosts are the allowed hosts.
	Hosts remote.Hosts
	// Limits bound the cost.
	Limits remote.Limits
	// TempDir is for objects while they are read; empty is the default of the system.
	TempDir string
}

// source is the storage of a repository: a server, or a local directory.
type source interface {
	// references returns all references.
	references(ctx context.Context) (*references, error)
	// objects returns the objects of these commits or tags, and as few others as possible. The
	// caller must call the returned function after use.
	objects(ctx context.Context, wants []plumbing.Hash) (storer.EncodedObjectStorer, func(), error)
	// contains reports whether a commit is an ancestor of another one, or the same.
	contains(ctx context.Context, ancestor, of plumbing.Hash) (bool, error)
	// push writes objects, and changes references if they still have the old values of the
	// commands.
	push(ctx context.Context, added *memory.Storage, commands []*packp.Command) error
	close()
}

// references has the references of a repository by their full names.
type references struct {
	// hashes has what they point to: commits and annotated tags.
	hashes map[string]plumbing.Hash
	// peeled has the commits of annotated tags, if the server reports them.
	peeled map[string]plumbing.Hash
	// head is the branch of HEAD; empty if it is not known.
	head string
}

// commit returns the commit of a reference, as far as it is known.
func (r *references) commit(name string) plumbing.Hash {
	if hash, ok := r.peeled[name]; ok {
		return hash
	}
	return r.hashes[name]
}

// reaches reports whether ancestor is found by following parents from a commit, as far as there are
// commits.
func reaches(ctx context.Context, objects storer.EncodedObjectStorer, from, ancestor plumbing.Hash) (bool, error) {
	seen, next := map[plumbing.Hash]bool{from: true}, []plumbing.Hash{from}
	for len(next) > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		hash := next[len(next)-1]
		next = next[:len(next)-1]
		if hash == ancestor {
			return true, nil
		}
		commit, err := object.GetCommit(objects, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue // older than the fetched commits
		}
		if err != nil {
			return false, fmt.Errorf("read commit %s: %w", hash, err)
		}
		for _, parent := range commit.ParentHashes {
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
	}
	return false, nil
}
