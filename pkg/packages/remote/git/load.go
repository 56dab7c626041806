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

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

const (
	// maxVisits bounds the number of tree entries that are read for one ref: a tree may contain
	// itself, indirectly, many times.
	maxVisits = 2_000_000
	// maxTreeDepth bounds the nesting of directories.
	maxTreeDepth = 100
)

// Load reads refs that List returned, and calls found for each revision: once for a tag, with
// neither files nor a problem if the tag has no package; and for the branch once for each of its
// packages. The callback may keep the files. If it returns an error, Load ends with that error.
func (r *Repository) Load(ctx context.Context, refs []remote.Ref, found func(remote.Revision) error) error {
	if len(refs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	wants := make([]plumbing.Hash, 0, len(refs))
	for _, ref := range refs {
		wants = append(wants, r.refs.hashes[fullName(ref)])
	}
	objects, release, err := r.source.objects(ctx, wants)
	if err != nil {
		return fmt.Errorf("fetch %s: %w", text.Count(len(refs), "reference"), err)
	}
	defer release()
	for i, ref := range refs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if ref.Branch {
			if err := r.loadBranch(ctx, objects, ref, wants[i], found); err != nil {
				return fmt.Errorf("read %q: %w", ref.Name, err)
			}
			continue
		}
		revision, err := r.loadTag(ctx, objects, ref, wants[i])
		switch {
		case errors.Is(err, plumbing.ErrObjectNotFound), err != nil && remote.KindOf(err) == remote.TooLarge:
			revision = remote.Revision{Ref: ref, Problem: err.Error()} // the other refs can be read
		case err != nil:
			return fmt.Errorf("read %q: %w", ref.Name, err)
		}
		if err := found(revision); err != nil {
			return err
		}
	}
	return nil
}

// loadBranch reads all packages below the directory.
func (r *Repository) loadBranch(ctx context.Context, objects storer.EncodedObjectStorer, ref remote.Ref, hash plumbing.Hash, found func(remote.Revision) error) error {
	commit, err := commitOf(objects, hash)
	if err != nil || commit == nil {
		return err
	}
	tree, err := subtree(objects, commit.TreeHash, r.directory)
	if err != nil {
		return err
	}
	if tree == nil {
		return remote.Errorf(remote.NotFound, "the branch has no directory %q", r.directory)
	}
	reader := &packageReader{objects: objects, repository: r, ref: ref, commit: commit}
	if r.options.RootPackage == "" {
		return reader.find(ctx, tree, "", 0, found)
	}
	if !hasFile(tree, kpt.KptfileName) {
		return nil
	}
	revision := reader.revision(r.directory)
	revision.Package = r.options.RootPackage
	if revision, err = reader.read(ctx, tree, revision); err != nil {
		return err
	}
	return found(revision)
}

// loadTag reads the one package of a tag.
func (r *Repository) loadTag(ctx context.Context, objects storer.EncodedObjectStorer, ref remote.Ref, hash plumbing.Hash) (remote.Revision, error) {
	commit, err := commitOf(objects, hash)
	if err != nil || commit == nil { // nil: a tag of something else
		return remote.Revision{Ref: ref}, err
	}
	ref.ID = commit.Hash.String() // not every server reports the commit of an annotated tag
	dir := r.path(ref.Package)
	tree, err := subtree(objects, commit.TreeHash, dir)
	if err != nil || tree == nil || !hasFile(tree, kpt.KptfileName) {
		return remote.Revision{Ref: ref}, err
	}
	reader := &packageReader{objects: objects, repository: r, ref: ref, commit: commit}
	revision := reader.revision(dir)
	for _, a := range annotations(commit.Message) {
		number, ok := remote.Number(a.Revision)
		if a.Package == dir && ok && number == ref.Number && len(validation.IsDNS1123Label(a.WorkspaceName)) == 0 {
			revision.Workspace = a.WorkspaceName
		}
	}
	return reader.read(ctx, tree, revision)
}

func fullName(ref remote.Ref) string {
	if ref.Branch {
		return branchPrefix + ref.Name
	}
	return tagPrefix + ref.Name
}

// commitOf resolves annotated tags to a commit, or nil if they point to something else.
func commitOf(objects storer.EncodedObjectStorer, hash plumbing.Hash) (*object.Commit, error) {
	for range 10 {
		obj, err := objects.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", hash, err)
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

// packageReader reads the packages of one commit.
type packageReader struct {
	objects    storer.EncodedObjectStorer
	repository *Repository
	ref        remote.Ref
	commit     *object.Commit
	visits     int
	packages   int
}

// problemError is an error of one package.
type problemError string

func (e problemError) Error() string { return string(e) }

// rootProblem is the problem of a Kptfile in the root, or in spec.git.directory. What is below it
// cannot be parts of a package that is not imported, so the search goes on there.
const rootProblem = "the root of the repository, or spec.git.directory, is not imported as a package, because it would have no name; packages below it are imported. " +
	"If it is one package, create a Repository with spec.git.rootPackage, its name. To import it as well, move its files to a subdirectory; otherwise delete its Kptfile"

// find searches for packages. A package within another one is a part of that.
func (w *packageReader) find(ctx context.Context, tree *object.Tree, pkg string, depth int, found func(remote.Revision) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxTreeDepth {
		return nil
	}
	if hasFile(tree, kpt.KptfileName) {
		w.packages++
		if w.packages > w.repository.options.Limits.Packages {
			return remote.Errorf(remote.TooLarge, "the branch has more than %d packages", w.repository.options.Limits.Packages)
		}
		revision := w.revision(w.repository.path(pkg))
		revision.Package = pkg
		if pkg != "" {
			revision, err := w.read(ctx, tree, revision)
			if err != nil {
				return err
			}
			return found(revision)
		}
		revision.Problem = rootProblem
		if err := found(revision); err != nil {
			return err
		}
	}
	for _, entry := range tree.Entries {
		w.visits++
		if w.visits > maxVisits {
			return remote.Errorf(remote.TooLarge, "the branch has more than %d files and directories", maxVisits)
		}
		if entry.Mode != filemode.Dir {
			continue
		}
		below, err := object.GetTree(w.objects, entry.Hash)
		if err != nil {
			return fmt.Errorf("read directory %s/%s: %w", pkg, entry.Name, err)
		}
		if err := w.find(ctx, below, joinPath(pkg, entry.Name), depth+1, found); err != nil {
			return err
		}
	}
	return nil
}

// joinPath does not clean the path, so that ".." is detected.
func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func (w *packageReader) revision(dir string) remote.Revision {
	return remote.Revision{
		Ref: w.ref, Directory: dir, By: visible(w.commit.Author.Email), At: w.commit.Author.When,
	}
}

// maxName bounds names from commits, in bytes.
const maxName = 253

// visible removes control characters and invalid UTF-8 from a name in a commit, and bounds it.
func visible(name string) string {
	return text.Clip(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "")), maxName)
}

// read reads the files of a package, or sets its problem.
func (w *packageReader) read(ctx context.Context, tree *object.Tree, revision remote.Revision) (remote.Revision, error) {
	files, err := w.files(ctx, tree)
	if problem, ok := errors.AsType[problemError](err); ok {
		revision.Problem = string(problem)
		return revision, nil
	}
	if err != nil {
		return revision, fmt.Errorf("read package %q: %w", revision.Package, err)
	}
	if revision.Problem = remote.CheckFiles(files); revision.Problem == "" {
		revision.Files = files
	}
	return revision, nil
}

// files reads a directory recursively.
func (w *packageReader) files(ctx context.Context, tree *object.Tree) (kpt.Files, error) {
	files, size := kpt.Files{}, 0
	var below func(tree *object.Tree, dir string, depth int) error
	below = func(tree *object.Tree, dir string, depth int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if depth > maxTreeDepth {
			return problemError(fmt.Sprintf("directories are nested more than %d levels deep", maxTreeDepth))
		}
		for _, entry := range tree.Entries {
			name := joinPath(dir, entry.Name)
			w.visits++
			if w.visits > maxVisits {
				return remote.Errorf(remote.TooLarge, "the commit has more than %d files and directories", maxVisits)
			}
			if len(name) > 2*kpt.MaxPath || len(files) > kpt.MaxFiles || strings.Contains(entry.Name, "/") {
				return problemError(fmt.Sprintf("the package has more than %d files, or a path that is too long or invalid", kpt.MaxFiles))
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
				return problemError(name + ": symbolic links are not allowed in packages")
			case filemode.Submodule:
				return problemError(name + ": git submodules are not allowed in packages")
			default:
				return problemError(name + ": must be a regular file or a directory")
			}
			bytes, err := w.objects.EncodedObjectSize(entry.Hash)
			if errors.Is(err, plumbing.ErrObjectNotFound) { // the server omitted it, as requested
				return problemError(fmt.Sprintf("%s: the file has more than %d bytes", name, kpt.MaxBytes))
			}
			if err != nil {
				return err
			}
			if bytes > kpt.MaxBytes {
				return problemError(fmt.Sprintf("%s: the file has %d bytes, but a package may have at most %d", name, bytes, kpt.MaxBytes))
			}
			if size += int(bytes) + len(name); size > kpt.MaxBytes {
				return problemError(fmt.Sprintf("the package has more than %d bytes", kpt.MaxBytes))
			}
			if files[name], err = w.text(entry.Hash); err != nil {
				return err
			}
		}
		return nil
	}
	return files, below(tree, "", 0)
}

func (w *packageReader) text(hash plumbing.Hash) (string, error) {
	blob, err := object.GetBlob(w.objects, hash)
	if err != nil {
		return "", err
	}
	reader, err := blob.Reader()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	var content strings.Builder
	_, err = io.Copy(&content, io.LimitReader(reader, kpt.MaxBytes+1))
	return content.String(), err
}

// subtree returns a directory of a tree, or nil if there is none.
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

func hasFile(tree *object.Tree, file string) bool {
	entry := entryOf(tree, file)
	return entry != nil && entry.Mode != filemode.Dir
}
