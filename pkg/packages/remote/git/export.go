package git

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/go-git/go-git/v5/storage/transactional"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// Export writes revisions as commits of the branch and tags, in one push if the server changes all
// references or none, otherwise the branch first. It returns the result of each in their order. A
// revision whose tag and branch have its content is already exported, so Export can be repeated
// after any error. The same revisions on the same branch give the same commits. After an error the
// state of all exports is unknown.
//
// On the branch, a revision replaces the content of a known tag of its package, and no other:
// others push to the branch, too. A revision that may not replace the current content only gets its
// tag.
func (r *Repository) Export(ctx context.Context, exports []remote.Export) ([]remote.ExportResult, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	results := make([]remote.ExportResult, len(exports))
	missing, err := r.findExisting(ctx, exports, results)
	if err != nil {
		return nil, err
	}
	if missing = r.tagAgain(ctx, exports, results, missing); len(missing) == 0 {
		return results, nil
	}
	branch := branchPrefix + r.options.Branch
	old := r.refs.hashes[branch]
	base := old
	if base.IsZero() && r.refs.head != "" { // a new branch starts at the main branch
		base = r.refs.hashes[r.refs.head]
	}
	var existing storer.EncodedObjectStorer = memory.NewStorage()
	if wants := r.wants(base, exports, missing); len(wants) > 0 {
		objects, release, err := r.source.objects(ctx, wants)
		if err != nil {
			return nil, fmt.Errorf("fetch the branch: %w", err)
		}
		defer release()
		existing = objects
	}
	added := memory.NewStorage()
	store := &overlay{transactional.NewObjectStorage(existing, added)}
	head := base
	var commands []*packp.Command
	pushed := map[string]plumbing.Hash{} // the trees of packages in commits of this push
	for _, i := range missing {
		if root := r.options.RootPackage; root != "" && exports[i].Package != root {
			results[i].Problem = fmt.Sprintf("the repository has only the package %q, which spec.git.rootPackage names", root)
			continue
		}
		current, files, err := r.trees(store, head, &exports[i])
		same, may := files == current, false
		var commit plumbing.Hash
		if err == nil && !same {
			may, err = r.mayReplace(store, current, &exports[i], pushed[exports[i].Package])
		}
		if err == nil {
			commit, err = r.commit(store, head, &exports[i], files)
		}
		if err != nil {
			results[i].Problem = err.Error()
			continue
		}
		// The branch never returns to an older revision: that one only gets its tag.
		newest, exported := r.newest(exports[i].Package), results[i].Ref.ID != ""
		switch newer := exports[i].Number > newest || exported && exports[i].Number == newest; {
		case same: // an export whose tag could not be written, or a merge by hand
		case newer && may:
			head = commit
			pushed[exports[i].Package] = files
		case newer:
			results[i].BranchChanged = base.String()
		}
		if exported {
			continue
		}
		tag := r.tagOf(&exports[i])
		results[i].Ref = remote.Ref{
			Name: tag, ID: commit.String(), Package: exports[i].Package, Workspace: exports[i].Workspace, Number: exports[i].Number,
		}
		results[i].Directory = r.path(exports[i].Package)
		commands = append(commands, &packp.Command{Name: plumbing.ReferenceName(tagPrefix + tag), New: commit})
	}
	if len(commands) == 0 && head == base {
		return results, nil
	}
	if head != old {
		commands = append([]*packp.Command{{Name: plumbing.ReferenceName(branch), Old: old, New: head}}, commands...)
	}
	if err := r.source.push(ctx, added, commands); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	for _, command := range commands {
		r.refs.hashes[command.Name.String()] = command.New
	}
	return results, nil
}

// tagAgain creates lost tags where they were, so that locks which name their commits stay true. It
// returns the indexes of the exports that are left. If the repository does not have one of the
// commits any more, all are left: they get new commits.
func (r *Repository) tagAgain(ctx context.Context, exports []remote.Export, results []remote.ExportResult, missing []int) (left []int) {
	var refs []string
	for _, i := range missing {
		if exports[i].Commit != "" && results[i].Ref.ID == "" {
			refs = append(refs, tagPrefix+r.tagOf(&exports[i]), exports[i].Commit)
		}
	}
	if len(refs) == 0 || len(r.refs.hashes) == 0 || r.create(ctx, refs...) != nil {
		return missing
	}
	for _, i := range missing {
		if exports[i].Commit == "" || results[i].Ref.ID != "" {
			left = append(left, i)
			continue
		}
		results[i].Ref = remote.Ref{
			Name: r.tagOf(&exports[i]), ID: exports[i].Commit, Package: exports[i].Package, Workspace: exports[i].Workspace, Number: exports[i].Number,
		}
		results[i].Directory = r.path(exports[i].Package)
	}
	return left
}

// wants returns the commits that exports are compared with, and built on.
func (r *Repository) wants(base plumbing.Hash, exports []remote.Export, missing []int) []plumbing.Hash {
	var wants []plumbing.Hash
	add := func(hash plumbing.Hash) {
		if !hash.IsZero() && !slices.Contains(wants, hash) {
			wants = append(wants, hash)
		}
	}
	add(base)
	for _, i := range missing {
		for _, known := range exports[i].Known {
			if full := tagPrefix + known.Name; r.refs.commit(full).String() == known.ID {
				add(r.refs.hashes[full])
			}
		}
	}
	return wants
}

// trees returns the tree of a package at a commit, the zero hash if there is none, and the tree of
// an export in its place.
func (r *Repository) trees(store *overlay, head plumbing.Hash, e *remote.Export) (current, files plumbing.Hash, err error) {
	if current, err = directoryAt(store, head, r.path(e.Package)); err != nil {
		return current, files, err
	}
	before := &object.Tree{}
	if !current.IsZero() {
		if before, err = object.GetTree(store, current); err != nil {
			return current, files, err
		}
	}
	files, err = store.writeFiles(e.Files, before)
	return current, files, err
}

// mayReplace reports whether a revision may replace the tree that its package has: none, the
// content of a known tag or of an earlier export of the same push, or what a user gave up.
func (r *Repository) mayReplace(store *overlay, current plumbing.Hash, e *remote.Export, pushed plumbing.Hash) (bool, error) {
	if e.Replace != "" && e.Replace == r.refs.commit(branchPrefix+r.options.Branch).String() || !pushed.IsZero() && current == pushed {
		return true, nil
	}
	for _, files := range e.KnownFiles {
		before, err := object.GetTree(store, current)
		if err != nil {
			continue // the package is not on the branch
		}
		if was, err := store.writeFiles(files, before); err != nil || was == current {
			return err == nil, err
		}
	}
	known := len(e.KnownFiles)
	for _, tag := range e.Known {
		full := tagPrefix + tag.Name
		if r.refs.commit(full).String() != tag.ID {
			continue // it was moved or deleted
		}
		known++
		if is, err := directoryAt(store, r.refs.hashes[full], r.path(e.Package)); err != nil || is == current {
			return err == nil, err
		}
	}
	// A package that was on the branch, and is not there, was removed by somebody.
	return current.IsZero() && known == 0, nil
}

// directoryAt returns the tree of a directory at a commit or an annotated tag; the zero hash if
// there is none.
func directoryAt(store *overlay, at plumbing.Hash, dir string) (plumbing.Hash, error) {
	if at.IsZero() {
		return plumbing.ZeroHash, nil
	}
	commit, err := commitOf(store, at)
	if err != nil || commit == nil {
		return plumbing.ZeroHash, err
	}
	tree, err := subtree(store, commit.TreeHash, dir)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read commit %s: %w", at, err)
	}
	if tree == nil {
		return plumbing.ZeroHash, nil
	}
	return tree.Hash, nil
}

// Head returns the commit of the branch as of the last List or Export; empty if there is none.
func (r *Repository) Head() string {
	if hash, ok := r.refs.hashes[branchPrefix+r.options.Branch]; ok {
		return hash.String()
	}
	return ""
}

// findExisting sets the results of revisions whose tags exist, and returns the indexes of all that
// may be missing on the branch, oldest first.
func (r *Repository) findExisting(ctx context.Context, exports []remote.Export, results []remote.ExportResult) (missing []int, err error) {
	var tags []remote.Ref
	for i := range exports {
		tag := r.tagOf(&exports[i])
		if _, ok := r.refs.hashes[tagPrefix+tag]; ok {
			tags = append(tags, remote.Ref{Name: tag, Package: exports[i].Package, Number: exports[i].Number})
		} else {
			missing = append(missing, i)
		}
	}
	content := map[string]remote.Revision{}
	err = r.Load(ctx, tags, func(revision remote.Revision) error {
		content[revision.Name] = revision
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range exports {
		revision, ok := content[r.tagOf(&exports[i])]
		if !ok {
			continue
		}
		results[i].Directory = r.path(exports[i].Package)
		if revision.Files == nil || revision.Files.Digest() != exports[i].Files.Digest() {
			results[i].Conflict = true
			results[i].Problem = fmt.Sprintf("the repository already has the tag %s with different content, at commit %.12s", revision.Name, revision.ID)
			continue
		}
		results[i].Ref = revision.Ref
		missing = append(missing, i) // a tag alone is no export
	}
	slices.SortStableFunc(missing, func(a, b int) int {
		x, y := &exports[a], &exports[b]
		return cmp.Or(strings.Compare(x.Package, y.Package), cmp.Compare(x.Number, y.Number))
	})
	return missing, nil
}

func (r *Repository) tagOf(e *remote.Export) string {
	return joinPath(r.path(e.Package), fmt.Sprintf("v%d", e.Number))
}

// newest returns the highest number among the tags of a package; 0 if it has none.
func (r *Repository) newest(pkg string) int {
	newest := 0
	for name := range r.refs.hashes {
		if rest, ok := strings.CutPrefix(name, tagPrefix+joinPath(r.path(pkg), "")); ok {
			if n, ok := remote.Number(rest); ok {
				newest = max(newest, n)
			}
		}
	}
	return newest
}

// commit creates a commit on top of parent, in which the package of an export has the tree files;
// the zero hash means no parent.
func (r *Repository) commit(store *overlay, parent plumbing.Hash, e *remote.Export, files plumbing.Hash) (plumbing.Hash, error) {
	dir := r.path(e.Package)
	message, err := annotate(fmt.Sprintf("Publish %s v%d", cmp.Or(dir, e.Package), e.Number), annotation{
		Package: dir, WorkspaceName: e.Workspace, Revision: fmt.Sprintf("v%d", e.Number), Task: json.RawMessage(e.Task),
	})
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write message: %w", err)
	}
	commit := &object.Commit{Author: r.author(e), Message: message}
	commit.Committer = commit.Author
	root := &object.Tree{}
	if !parent.IsZero() {
		before, err := commitOf(store, parent)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if before == nil {
			return plumbing.ZeroHash, fmt.Errorf("object %s is not a commit", parent)
		}
		if root, err = before.Tree(); err != nil {
			return plumbing.ZeroHash, fmt.Errorf("read commit %s: %w", parent, err)
		}
		commit.ParentHashes = []plumbing.Hash{parent}
	}
	var path []string
	if dir != "" {
		path = strings.Split(dir, "/")
	}
	if commit.TreeHash, err = store.replace(root, path, files); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write directory %q: %w", dir, err)
	}
	return store.write(commit)
}

// author returns the author of the Repository, or the publisher of the revision. The time of a
// commit is that of the publication, so that the same revision always gives the same commit.
func (r *Repository) author(e *remote.Export) object.Signature {
	s := object.Signature{Name: r.options.Author, Email: r.options.Email, When: e.At.UTC().Truncate(time.Second)}
	unquoted := strings.NewReplacer("<", "", ">", "", "\n", "")
	if s.Name == "" {
		s.Name = unquoted.Replace(visible(e.By))
	}
	if s.Name == "" {
		s.Name = "starling"
	}
	if s.Email == "" {
		s.Email = s.Name
	}
	s.Email = unquoted.Replace(s.Email)
	return s
}

// overlay adds new objects to those of a repository.
type overlay struct{ *transactional.ObjectStorage }

// SetEncodedObject adds an object unless the repository has it.
func (o *overlay) SetEncodedObject(obj plumbing.EncodedObject) (plumbing.Hash, error) {
	if o.HasEncodedObject(obj.Hash()) == nil {
		return obj.Hash(), nil
	}
	return o.ObjectStorage.SetEncodedObject(obj)
}

// write stores an object and returns its hash.
func (o *overlay) write(object interface {
	Encode(plumbing.EncodedObject) error
},
) (plumbing.Hash, error) {
	obj := o.NewEncodedObject()
	if err := object.Encode(obj); err != nil {
		return plumbing.ZeroHash, err
	}
	return o.SetEncodedObject(obj)
}

// directory returns a directory of a tree, or an empty one if there is none or it cannot be read.
func (o *overlay) directory(tree *object.Tree, name string) (*object.Tree, error) {
	entry := entryOf(tree, name)
	if entry == nil || entry.Mode != filemode.Dir {
		return &object.Tree{}, nil
	}
	below, err := object.GetTree(o, entry.Hash)
	if err != nil {
		return &object.Tree{}, err
	}
	return below, nil
}

// writeFiles stores files as trees and returns the hash of the root. A file that was executable
// stays executable, since packages have no file modes. Entries of the tree before that no package
// can hold, such as links and images, stay.
func (o *overlay) writeFiles(files kpt.Files, before *object.Tree) (plumbing.Hash, error) {
	tree := &object.Tree{}
	below := map[string]kpt.Files{}
	for _, name := range files.Paths() {
		if dir, rest, deeper := strings.Cut(name, "/"); deeper {
			if below[dir] == nil {
				below[dir] = kpt.Files{}
			}
			below[dir][rest] = files[name]
			continue
		}
		blob := o.NewEncodedObject()
		blob.SetType(plumbing.BlobObject)
		w, err := blob.Writer()
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			return plumbing.ZeroHash, err
		}
		hash, err := o.SetEncodedObject(blob)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		mode := filemode.Regular
		if entry := entryOf(before, name); entry != nil && entry.Mode == filemode.Executable {
			mode = filemode.Executable
		}
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: mode, Hash: hash})
	}
	for i := range before.Entries {
		entry := &before.Entries[i]
		_, file := files[entry.Name]
		switch _, dir := below[entry.Name]; {
		case file, dir && entry.Mode != filemode.Dir:
		case entry.Mode == filemode.Dir:
			if !dir {
				below[entry.Name] = nil
			}
		case o.isForeign(entry):
			tree.Entries = append(tree.Entries, *entry)
		}
	}
	for dir, inside := range below {
		within, _ := o.directory(before, dir)
		hash, err := o.writeFiles(inside, within)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if hash != emptyTree {
			tree.Entries = append(tree.Entries, object.TreeEntry{Name: dir, Mode: filemode.Dir, Hash: hash})
		}
	}
	return o.writeTree(tree)
}

// emptyTree is the hash of a directory without entries, which git does not store.
var emptyTree = plumbing.ComputeHash(plumbing.TreeObject, nil)

// isForeign reports whether an entry is one that no package can hold. A blob that is not there was
// left out by the server, because it is larger than any file of a package.
func (o *overlay) isForeign(entry *object.TreeEntry) bool {
	if entry.Mode != filemode.Regular && entry.Mode != filemode.Executable && entry.Mode != filemode.Deprecated {
		return true
	}
	blob, err := object.GetBlob(o, entry.Hash)
	if err != nil || blob.Size > kpt.MaxBytes {
		return true
	}
	reader, err := blob.Reader()
	if err != nil {
		return true
	}
	defer reader.Close()
	content, err := io.ReadAll(reader)
	return err != nil || len((kpt.Files{entry.Name: string(content)}).Check()) > 0
}

func (o *overlay) writeTree(tree *object.Tree) (plumbing.Hash, error) {
	slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortKey(&a), sortKey(&b)) })
	return o.write(tree)
}

// sortKey returns the name by which git sorts an entry.
func sortKey(e *object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// replace returns a tree like root with another directory at the path.
func (o *overlay) replace(root *object.Tree, path []string, dir plumbing.Hash) (plumbing.Hash, error) {
	if len(path) == 0 {
		return dir, nil
	}
	if len(path) > 1 {
		below, err := o.directory(root, path[0])
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if dir, err = o.replace(below, path[1:], dir); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	tree := &object.Tree{Entries: slices.Clone(root.Entries)}
	switch entry := entryOf(tree, path[0]); {
	case entry == nil:
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: path[0], Mode: filemode.Dir, Hash: dir})
	case entry.Mode != filemode.Dir:
		return plumbing.ZeroHash, fmt.Errorf("%q is a file in the repository", path[0])
	default:
		entry.Hash = dir
	}
	return o.writeTree(tree)
}
