package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/repository"
)

const (
	// maxVisits bounds how many entries of trees are looked at for one ref: a tree may hold itself, in a way, many times.
	maxVisits = 2_000_000
	// maxTreeDepth bounds how deep directories nest.
	maxTreeDepth = 100
)

// Load reads what refs that List returned hold, and gives each revision to found: one, with neither files nor a problem, for a tag that
// leads to no package; and for the branch as many as it has packages. Found may keep the files. An error of found ends Load.
func (r *Repository) Load(ctx context.Context, refs []repository.Ref, found func(repository.Revision) error) error {
	if len(refs) == 0 {
		return nil
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	wants := make([]plumbing.Hash, 0, len(refs))
	for _, ref := range refs {
		wants = append(wants, r.refs.hashes[fullName(ref)])
	}
	objects, release, err := r.source.objects(ctx, wants)
	if err != nil {
		return fmt.Errorf("fetch %d references: %w", len(refs), err)
	}
	defer release()
	for i, ref := range refs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ref.Branch {
			if err := r.loadBranch(ctx, objects, ref, wants[i], found); err != nil {
				return fmt.Errorf("read %s: %w", ref.Name, err)
			}
			continue
		}
		revision, err := r.loadTag(ctx, objects, ref, wants[i])
		switch {
		case errors.Is(err, plumbing.ErrObjectNotFound), err != nil && repository.KindOf(err) == repository.TooLarge:
			revision = repository.Revision{Ref: ref, Problem: err.Error()} // the others can be had
		case err != nil:
			return fmt.Errorf("read %s: %w", ref.Name, err)
		}
		if err := found(revision); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) loadBranch(ctx context.Context, objects storer.EncodedObjectStorer, ref repository.Ref, hash plumbing.Hash, found func(repository.Revision) error) error {
	commit, err := commitOf(objects, hash)
	if err != nil || commit == nil {
		return err
	}
	return (&walker{objects: objects, repository: r, ref: ref, commit: commit}).branch(ctx, found)
}

func (r *Repository) loadTag(ctx context.Context, objects storer.EncodedObjectStorer, ref repository.Ref, hash plumbing.Hash) (repository.Revision, error) {
	commit, err := commitOf(objects, hash)
	if err != nil || commit == nil { // nil: a tag of something else
		return repository.Revision{Ref: ref}, err
	}
	return (&walker{objects: objects, repository: r, ref: ref, commit: commit}).tag(ctx)
}

func fullName(ref repository.Ref) string {
	if ref.Branch {
		return branchPrefix + ref.Name
	}
	return tagPrefix + ref.Name
}

// commitOf follows annotated tags to a commit; nil if they lead to something else.
func commitOf(objects storer.EncodedObjectStorer, hash plumbing.Hash) (*object.Commit, error) {
	for range 10 {
		obj, err := objects.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", hash, err)
		}
		switch obj.Type() {
		case plumbing.CommitObject:
			return object.DecodeCommit(objects, obj)
		case plumbing.TagObject:
			tag, err := object.DecodeTag(objects, obj)
			if err != nil {
				return nil, err
			}
			hash = tag.Target
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// walker reads the packages of one commit.
type walker struct {
	objects    storer.EncodedObjectStorer
	repository *Repository
	ref        repository.Ref
	commit     *object.Commit
	visits     int
	packages   int
}

// problemError is what is wrong with one package.
type problemError string

func (e problemError) Error() string { return string(e) }

// tag reads the one package of a tag.
func (w *walker) tag(ctx context.Context) (repository.Revision, error) {
	w.ref.ID = w.commit.Hash.String() // not every server tells where an annotated tag leads
	dir := w.repository.path(w.ref.Package)
	tree, err := w.subtree(dir)
	if err != nil || tree == nil || !has(tree, kptpkg.KptfileName) {
		return repository.Revision{Ref: w.ref}, err
	}
	revision := w.revision(dir)
	for _, a := range annotations(w.commit.Message) {
		number, ok := repository.Number(a.Revision)
		if a.Package == dir && ok && number == w.ref.Number && len(validation.IsDNS1123Label(a.WorkspaceName)) == 0 {
			revision.Workspace = a.WorkspaceName
		}
	}
	return w.read(ctx, tree, revision)
}

// branch reads all packages below the directory.
func (w *walker) branch(ctx context.Context, found func(repository.Revision) error) error {
	tree, err := w.subtree(w.repository.directory)
	if err != nil {
		return err
	}
	if tree == nil {
		return repository.Errorf(repository.NotFound, "the branch has no directory %q", w.repository.directory)
	}
	return w.find(ctx, tree, "", 0, found)
}

// find looks for packages. One that lies in another is a part of that.
func (w *walker) find(ctx context.Context, tree *object.Tree, pkg string, depth int, found func(repository.Revision) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxTreeDepth {
		return nil
	}
	if has(tree, kptpkg.KptfileName) {
		w.packages++
		if w.packages > w.repository.options.Limits.Packages {
			return repository.Errorf(repository.TooLarge, "the branch has more than %d packages", w.repository.options.Limits.Packages)
		}
		revision := w.revision(w.repository.path(pkg))
		revision.Package = pkg
		if pkg == "" {
			revision.Problem = "the top of the repository, or spec.git.directory, is a package itself, which has no name: move it to a directory below"
			return found(revision)
		}
		revision, err := w.read(ctx, tree, revision)
		if err != nil {
			return err
		}
		return found(revision)
	}
	for _, entry := range tree.Entries {
		w.visits++
		if w.visits > maxVisits {
			return repository.Errorf(repository.TooLarge, "the branch has more than %d files and directories", maxVisits)
		}
		if entry.Mode != filemode.Dir {
			continue
		}
		below, err := object.GetTree(w.objects, entry.Hash)
		if err != nil {
			return fmt.Errorf("directory %s/%s: %w", pkg, entry.Name, err)
		}
		if err := w.find(ctx, below, join(pkg, entry.Name), depth+1, found); err != nil {
			return err
		}
	}
	return nil
}

// join does not clean: what climbs must be seen to climb.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func (w *walker) revision(dir string) repository.Revision {
	return repository.Revision{
		Ref: w.ref, Directory: dir, By: clip(w.commit.Author.Email), At: w.commit.Author.When,
	}
}

// clip makes a name from a commit one that may stand in an object.
func clip(text string) string {
	const limit = 253
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}

// read reads the files of a package, or what is wrong with it.
func (w *walker) read(ctx context.Context, tree *object.Tree, revision repository.Revision) (repository.Revision, error) {
	files, err := w.files(ctx, tree)
	var problem problemError
	switch {
	case errors.As(err, &problem):
		revision.Problem = string(problem)
	case err != nil:
		return revision, fmt.Errorf("package %s: %w", revision.Package, err)
	default:
		if problem := repository.CheckFiles(files); problem != "" {
			revision.Problem = problem
		} else {
			revision.Files = files
		}
	}
	return revision, nil
}

// files reads a directory and all below it.
func (w *walker) files(ctx context.Context, tree *object.Tree) (kptpkg.Files, error) {
	files, size := kptpkg.Files{}, 0
	var below func(tree *object.Tree, dir string, depth int) error
	below = func(tree *object.Tree, dir string, depth int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if depth > maxTreeDepth {
			return problemError(fmt.Sprintf("directories nest deeper than %d", maxTreeDepth))
		}
		for _, entry := range tree.Entries {
			name := join(dir, entry.Name)
			w.visits++
			if w.visits > maxVisits {
				return repository.Errorf(repository.TooLarge, "the commit has more than %d files and directories", maxVisits)
			}
			if len(name) > 2*kptpkg.MaxPath || len(files) > kptpkg.MaxFiles || strings.Contains(entry.Name, "/") {
				return problemError(fmt.Sprintf("the package has more than %d files, or paths that are too long or odd", kptpkg.MaxFiles))
			}
			switch entry.Mode {
			case filemode.Dir:
				next, err := object.GetTree(w.objects, entry.Hash)
				if err != nil {
					return err
				}
				if err := below(next, name, depth+1); err != nil {
					return err
				}
				continue
			case filemode.Regular, filemode.Executable, filemode.Deprecated:
			case filemode.Symlink:
				return problemError(name + ": is a symbolic link, which packages may not have")
			case filemode.Submodule:
				return problemError(name + ": is a git submodule, which packages may not have")
			default:
				return problemError(name + ": is neither a file nor a directory")
			}
			bytes, err := w.objects.EncodedObjectSize(entry.Hash)
			if errors.Is(err, plumbing.ErrObjectNotFound) { // the server left it out as we asked it to
				return problemError(fmt.Sprintf("%s: has more than %d bytes", name, kptpkg.MaxBytes))
			}
			if err != nil {
				return err
			}
			if bytes > kptpkg.MaxBytes {
				return problemError(fmt.Sprintf("%s: has %d bytes; a package may have %d", name, bytes, kptpkg.MaxBytes))
			}
			if size += int(bytes) + len(name); size > kptpkg.MaxBytes {
				return problemError(fmt.Sprintf("the package has more than %d bytes", kptpkg.MaxBytes))
			}
			if files[name], err = w.text(entry.Hash); err != nil {
				return err
			}
		}
		return nil
	}
	return files, below(tree, "", 0)
}

func (w *walker) text(hash plumbing.Hash) (string, error) {
	blob, err := object.GetBlob(w.objects, hash)
	if err != nil {
		return "", err
	}
	reader, err := blob.Reader()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	var text strings.Builder
	_, err = io.Copy(&text, io.LimitReader(reader, kptpkg.MaxBytes+1))
	return text.String(), err
}

// subtree returns a directory of the commit; nil if there is none.
func (w *walker) subtree(dir string) (*object.Tree, error) {
	return subtree(w.objects, w.commit.TreeHash, dir)
}

func subtree(objects storer.EncodedObjectStorer, root plumbing.Hash, dir string) (*object.Tree, error) {
	tree, err := object.GetTree(objects, root)
	if err != nil || dir == "" {
		return tree, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		entry := entryOf(tree, name)
		if entry == nil || entry.Mode != filemode.Dir {
			return nil, nil
		}
		if tree, err = object.GetTree(objects, entry.Hash); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

func entryOf(tree *object.Tree, name string) *object.TreeEntry {
	for i := range tree.Entries {
		if tree.Entries[i].Name == name {
			return &tree.Entries[i]
		}
	}
	return nil
}

func has(tree *object.Tree, file string) bool {
	entry := entryOf(tree, file)
	return entry != nil && entry.Mode != filemode.Dir
}
