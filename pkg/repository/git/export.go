package git

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/repository"
)

// Export writes revisions as commits of the branch and tags, in one push, and says of each what became of it, in their order. A
// revision whose tag is there with the same content is done already: so Export can be repeated after whatever ended it. The same
// revisions on the same branch give the same commits. An error means that nothing is known of any.
func (r *Repository) Export(ctx context.Context, exports []repository.Export) ([]repository.Exported, error) {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	results := make([]repository.Exported, len(exports))
	missing, err := r.there(ctx, exports, results)
	if err != nil || len(missing) == 0 {
		return results, err
	}
	branch := branchPrefix + r.options.Branch
	old := r.refs.hashes[branch]
	base := old
	if base.IsZero() && r.refs.head != "" { // a new branch begins where the main one is
		base = r.refs.hashes[r.refs.head]
	}
	store := &overlay{added: memory.NewStorage()}
	if !base.IsZero() {
		objects, release, err := r.source.objects(ctx, []plumbing.Hash{base})
		if err != nil {
			return nil, fmt.Errorf("fetch the branch: %w", err)
		}
		defer release()
		store.below = objects
	}
	head := base
	var commands []*packp.Command
	for _, i := range missing {
		commit, err := r.commit(store, head, &exports[i])
		if err != nil {
			results[i].Problem = err.Error()
			continue
		}
		// The branch never goes back to an older revision: that one gets its tag beside the branch.
		if exports[i].Number > r.newest(exports[i].Package) {
			head = commit
		}
		tag := r.tagOf(&exports[i])
		results[i].Ref = repository.Ref{
			Name: tag, ID: commit.String(), Package: exports[i].Package, Workspace: exports[i].Workspace, Number: exports[i].Number,
		}
		results[i].Directory = r.path(exports[i].Package)
		commands = append(commands, &packp.Command{Name: plumbing.ReferenceName(tagPrefix + tag), New: commit})
	}
	if len(commands) == 0 {
		return results, nil
	}
	if head != old {
		commands = append([]*packp.Command{{Name: plumbing.ReferenceName(branch), Old: old, New: head}}, commands...)
	}
	if err := r.source.push(ctx, store, store.order, commands); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	for _, command := range commands {
		r.refs.hashes[command.Name.String()] = command.New
	}
	return results, nil
}

// Head is the commit of the branch as far as is known, after an Export that which it made; empty if there is none.
func (r *Repository) Head() string {
	if hash, ok := r.refs.hashes[branchPrefix+r.options.Branch]; ok {
		return hash.String()
	}
	return ""
}

// there settles those whose tags are there, and returns the others, oldest first.
func (r *Repository) there(ctx context.Context, exports []repository.Export, results []repository.Exported) (missing []int, err error) {
	if r.refs.hashes == nil {
		r.refs.hashes = map[string]plumbing.Hash{}
	}
	var tags []repository.Ref
	for i := range exports {
		tag := r.tagOf(&exports[i])
		if _, ok := r.refs.hashes[tagPrefix+tag]; ok {
			tags = append(tags, repository.Ref{Name: tag, Package: exports[i].Package, Number: exports[i].Number})
		} else {
			missing = append(missing, i)
		}
	}
	content := map[string]repository.Revision{}
	err = r.Load(ctx, tags, func(revision repository.Revision) error {
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
			results[i].Problem = fmt.Sprintf("the repository has the tag %s with other content, at commit %.12s", revision.Name, revision.ID)
			continue
		}
		results[i].Ref = revision.Ref
	}
	slices.SortStableFunc(missing, func(a, b int) int {
		x, y := &exports[a], &exports[b]
		return cmp.Or(strings.Compare(x.Package, y.Package), cmp.Compare(x.Number, y.Number))
	})
	return missing, nil
}

func (r *Repository) tagOf(e *repository.Export) string {
	return fmt.Sprintf("%s/v%d", r.path(e.Package), e.Number)
}

// newest is the highest numbered tag of a package; 0 if it has none.
func (r *Repository) newest(pkg string) int {
	newest := 0
	for name := range r.refs.hashes {
		if rest, ok := strings.CutPrefix(name, tagPrefix+r.path(pkg)+"/"); ok {
			if n, ok := repository.Number(rest); ok {
				newest = max(newest, n)
			}
		}
	}
	return newest
}

// commit makes a commit of an export upon another; the zero hash is none.
func (r *Repository) commit(store *overlay, parent plumbing.Hash, e *repository.Export) (plumbing.Hash, error) {
	dir := r.path(e.Package)
	message, err := annotate(fmt.Sprintf("Publish %s v%d", dir, e.Number), annotation{
		Package: dir, WorkspaceName: e.Workspace, Revision: fmt.Sprintf("v%d", e.Number), Task: json.RawMessage(e.Task),
	})
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write message: %w", err)
	}
	commit := &object.Commit{Author: r.author(e), Message: message}
	commit.Committer = commit.Author
	var root plumbing.Hash
	if !parent.IsZero() {
		before, err := commitOf(store, parent)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if before == nil {
			return plumbing.ZeroHash, fmt.Errorf("%s is no commit", parent)
		}
		root, commit.ParentHashes = before.TreeHash, []plumbing.Hash{parent}
	}
	path := strings.Split(dir, "/")
	pkg, err := store.writeFiles(e.Files, store.directory(root, path))
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if commit.TreeHash, err = store.replace(root, path, pkg); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("put %s: %w", dir, err)
	}
	return store.write(commit)
}

// author is whoever the Repository names, or who published the revision. Commits are of the time of the publication, so that
// the same revision gives the same commit whenever it is exported.
func (r *Repository) author(e *repository.Export) object.Signature {
	s := object.Signature{Name: r.options.Author, Email: r.options.Email, When: e.At.UTC().Truncate(time.Second)}
	unquoted := strings.NewReplacer("<", "", ">", "", "\n", "")
	if s.Name == "" {
		s.Name = unquoted.Replace(clip(e.By))
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

// overlay holds new objects above those of a repository.
type overlay struct {
	below storer.EncodedObjectStorer
	added *memory.Storage
	order []plumbing.Hash
}

var _ storer.EncodedObjectStorer = &overlay{}

func (o *overlay) NewEncodedObject() plumbing.EncodedObject { return o.added.NewEncodedObject() }

func (o *overlay) SetEncodedObject(obj plumbing.EncodedObject) (plumbing.Hash, error) {
	if o.HasEncodedObject(obj.Hash()) == nil {
		return obj.Hash(), nil
	}
	o.order = append(o.order, obj.Hash())
	return o.added.SetEncodedObject(obj)
}

func (o *overlay) EncodedObject(kind plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	if obj, err := o.added.EncodedObject(kind, hash); err == nil || o.below == nil {
		return obj, err
	}
	return o.below.EncodedObject(kind, hash)
}

func (o *overlay) HasEncodedObject(hash plumbing.Hash) error {
	if err := o.added.HasEncodedObject(hash); err == nil || o.below == nil {
		return err
	}
	return o.below.HasEncodedObject(hash)
}

func (o *overlay) EncodedObjectSize(hash plumbing.Hash) (int64, error) {
	if size, err := o.added.EncodedObjectSize(hash); err == nil || o.below == nil {
		return size, err
	}
	return o.below.EncodedObjectSize(hash)
}

func (o *overlay) IterEncodedObjects(kind plumbing.ObjectType) (storer.EncodedObjectIter, error) {
	return o.added.IterEncodedObjects(kind)
}

func (o *overlay) AddAlternate(string) error { return nil }

// write keeps an object and returns its hash.
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

// directory returns the tree at a path; an empty one if there is none.
func (o *overlay) directory(root plumbing.Hash, path []string) *object.Tree {
	tree := o.tree(root)
	for _, name := range path {
		entry := entryOf(tree, name)
		if entry == nil || entry.Mode != filemode.Dir {
			return &object.Tree{}
		}
		tree = o.tree(entry.Hash)
	}
	return tree
}

// tree returns a tree; an empty one if it is not there.
func (o *overlay) tree(hash plumbing.Hash) *object.Tree {
	if tree, err := object.GetTree(o, hash); err == nil {
		return tree
	}
	return &object.Tree{}
}

// writeFiles keeps files as trees and returns that of the top. A file that was executable before still is: packages say nothing of that.
func (o *overlay) writeFiles(files kptpkg.Files, before *object.Tree) (plumbing.Hash, error) {
	tree := &object.Tree{}
	below := map[string]kptpkg.Files{}
	for _, name := range files.Paths() {
		if dir, rest, deeper := strings.Cut(name, "/"); deeper {
			if below[dir] == nil {
				below[dir] = kptpkg.Files{}
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
	for dir, inside := range below {
		within := &object.Tree{}
		if entry := entryOf(before, dir); entry != nil && entry.Mode == filemode.Dir {
			within = o.tree(entry.Hash)
		}
		hash, err := o.writeFiles(inside, within)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: dir, Mode: filemode.Dir, Hash: hash})
	}
	return o.writeTree(tree)
}

func (o *overlay) writeTree(tree *object.Tree) (plumbing.Hash, error) {
	slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortKey(&a), sortKey(&b)) })
	return o.write(tree)
}

// sortKey is the name that git sorts an entry by.
func sortKey(e *object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// replace returns a tree like root with another directory at the path; the zero hash is an empty root.
func (o *overlay) replace(root plumbing.Hash, path []string, dir plumbing.Hash) (plumbing.Hash, error) {
	tree := &object.Tree{}
	if !root.IsZero() {
		before, err := object.GetTree(o, root)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		tree.Entries = slices.Clone(before.Entries)
	}
	entry := entryOf(tree, path[0])
	if len(path) > 1 {
		var below plumbing.Hash
		if entry != nil && entry.Mode == filemode.Dir {
			below = entry.Hash
		}
		var err error
		if dir, err = o.replace(below, path[1:], dir); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	switch {
	case entry == nil:
		tree.Entries = append(tree.Entries, object.TreeEntry{Name: path[0], Mode: filemode.Dir, Hash: dir})
	case entry.Mode != filemode.Dir:
		return plumbing.ZeroHash, fmt.Errorf("%s is a file in the repository", path[0])
	default:
		entry.Hash = dir
	}
	return o.writeTree(tree)
}

func deletion(name string, old plumbing.Hash) []*packp.Command {
	return []*packp.Command{{Name: plumbing.ReferenceName(name), Old: old}}
}
