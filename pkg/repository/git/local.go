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

	"github.com/starlinghq/starling/pkg/repository"
)

// local is a source in a directory, read where it lies.
type local struct {
	storage *filesystem.Storage
	// worktree tells that files of the branch that HEAD names lie beside the repository.
	worktree bool
	limits   repository.Limits
}

func openLocal(path string, limits repository.Limits) (*local, error) {
	dir, worktree := path, false
	if info, err := os.Stat(filepath.Join(path, ".git")); err == nil && info.IsDir() {
		dir, worktree = filepath.Join(path, ".git"), true
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return nil, repository.Errorf(repository.NotFound, "there is no git repository at this path")
	}
	storage := filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRU(objectCache))
	return &local{storage: storage, worktree: worktree, limits: limits}, nil
}

func (l *local) close() { l.storage.Close() }

func (l *local) references(ctx context.Context) (*references, error) {
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
			return repository.Errorf(repository.TooLarge, "the repository has more than %d references", l.limits.Refs)
		}
		refs.hashes[ref.Name().String()] = ref.Hash()
		for hash := ref.Hash(); ; { // a tag may be one of a tag
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

func (l *local) objects(context.Context, []plumbing.Hash) (storer.EncodedObjectStorer, func(), error) {
	return l.storage, func() {}, nil
}

func (l *local) contains(ctx context.Context, ancestor, of plumbing.Hash) (bool, error) {
	return reaches(ctx, l.storage, of, ancestor)
}

func (l *local) push(ctx context.Context, objects storer.EncodedObjectStorer, added []plumbing.Hash, commands []*packp.Command) error {
	refs, err := l.references(ctx)
	if err != nil {
		return err
	}
	for _, command := range commands {
		if l.worktree && command.Name.String() == refs.head {
			return repository.Errorf(repository.InvalidSpec, "%s is checked out in this repository, so that nothing is written to it: use a bare repository, or another branch",
				strings.TrimPrefix(refs.head, "refs/heads/"))
		}
		if refs.hashes[command.Name.String()] != command.Old {
			return fmt.Errorf("%s has changed meanwhile", command.Name)
		}
	}
	for _, hash := range added {
		obj, err := objects.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return err
		}
		if _, err := l.storage.SetEncodedObject(obj); err != nil {
			return fmt.Errorf("write object: %w", err)
		}
	}
	for _, command := range commands {
		switch command.Action() {
		case packp.Delete:
			err = l.storage.RemoveReference(command.Name)
		case packp.Create:
			// Nobody else creates references of these names, but for another replica that would create the same.
			err = l.storage.SetReference(plumbing.NewHashReference(command.Name, command.New))
		case packp.Update:
			err = l.storage.CheckAndSetReference(plumbing.NewHashReference(command.Name, command.New), plumbing.NewHashReference(command.Name, command.Old))
		case packp.Invalid:
			err = errors.New("the command is invalid")
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", command.Name, err)
		}
	}
	return nil
}
