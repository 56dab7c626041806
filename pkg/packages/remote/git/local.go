package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

// localSource is a source in a local directory, which it reads directly.
type localSource struct {
	storage *filesystem.Storage
	// worktree is true if the branch of HEAD is checked out beside the repository.
	worktree bool
	limits   remote.Limits
}

func openLocal(path string, limits remote.Limits) (*localSource, error) {
	dir, worktree := path, false
	if info, err := os.Stat(filepath.Join(path, ".git")); err == nil && info.IsDir() {
		dir, worktree = filepath.Join(path, ".git"), true
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return nil, remote.Errorf(remote.NotFound, "there is no git repository at this path")
	}
	storage := filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRU(objectCache))
	return &localSource{storage: storage, worktree: worktree, limits: limits}, nil
}

func (l *localSource) close() { l.storage.Close() }

func (l *localSource) references(ctx context.Context) (*references, error) {
	iter, err := l.storage.IterReferences()
	if err != nil {
		return nil, err
	}
	defer iter.Close()
	refs := &references{hashes: map[string]plumbing.Hash{}, peeled: map[string]plumbing.Hash{}}
	err = iter.ForEach(func(ref *plumbing.Reference) error {
		if ref.Type() == plumbing.SymbolicReference && ref.Name() == plumbing.HEAD {
			refs.head = ref.Target().String()
		}
		if ref.Type() != plumbing.HashReference {
			return nil
		}
		if len(refs.hashes) >= l.limits.Refs {
			return remote.Errorf(remote.TooLarge, "the repository has more than %d references", l.limits.Refs)
		}
		refs.hashes[ref.Name().String()] = ref.Hash()
		for hash := ref.Hash(); ; { // a tag may point to a tag
			tag, err := object.GetTag(l.storage, hash)
			if err != nil {
				break
			}
			hash = tag.Target
			refs.peeled[ref.Name().String()] = hash
		}
		return ctx.Err()
	})
	return refs, err
}

func (l *localSource) objects(context.Context, []plumbing.Hash) (storer.EncodedObjectStorer, func(), error) {
	return l.storage, func() {}, nil
}

func (l *localSource) contains(ctx context.Context, ancestor, of plumbing.Hash) (bool, error) {
	return reaches(ctx, l.storage, of, ancestor)
}

func (l *localSource) push(ctx context.Context, added *memory.Storage, commands []*packp.Command) error {
	refs, err := l.references(ctx)
	if err != nil {
		return err
	}
	for _, command := range commands {
		if l.worktree && command.Name.String() == refs.head {
			return remote.Errorf(remote.InvalidSpec, "branch %q is checked out in this repository and cannot be written: use a bare repository, or another branch",
				strings.TrimPrefix(refs.head, "refs/heads/"))
		}
		if refs.hashes[command.Name.String()] != command.Old {
			return fmt.Errorf("reference %s was changed by somebody else", command.Name)
		}
	}
	for _, obj := range added.Objects {
		if _, err := l.storage.SetEncodedObject(obj); err != nil {
			return fmt.Errorf("write object: %w", err)
		}
	}
	for _, command := range commands {
		if command.Action() == packp.Delete {
			continue
		}
		commit, err := object.GetCommit(l.storage, command.New)
		if err == nil {
			_, err = commit.Tree()
		}
		if err != nil {
			return fmt.Errorf("the repository has no commit %s: %w", command.New, err)
		}
	}
	for _, command := range commands {
		switch command.Action() {
		case packp.Delete:
			err = l.storage.RemoveReference(command.Name)
		case packp.Create:
			// Only another replica creates references with these names, and it would create the
			// same.
			err = l.storage.SetReference(plumbing.NewHashReference(command.Name, command.New))
		case packp.Update:
			err = l.storage.CheckAndSetReference(plumbing.NewHashReference(command.Name, command.New), plumbing.NewHashReference(command.Name, command.Old))
		case packp.Invalid:
			err = errors.New("the command is invalid")
		}
		if err != nil {
			return fmt.Errorf("write reference %s: %w", command.Name, err)
		}
	}
	return nil
}
