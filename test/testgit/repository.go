package testgit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Repository is a bare repository in a temporary directory of the test.
type Repository struct {
	// Dir is the directory.
	Dir string
	// Files is the content of the next Commit by path. Tests change it freely.
	Files map[string]string
	// Executable are the paths in Files that the next Commit makes executable.
	Executable map[string]bool
	// Links are the symbolic links in the next Commit.
	Links map[string]string
	// Modules are the submodules in the next Commit.
	Modules []string
	t       testing.TB
	at      time.Time
}

// New returns a repository without commits, whose main branch is main.
func New(t testing.TB) *Repository {
	t.Helper()
	r := &Repository{Dir: t.TempDir(), Files: map[string]string{}, Links: map[string]string{}, Executable: map[string]bool{}, t: t, at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	storage := r.storage()
	defer storage.Close()
	if err := storage.Init(); err != nil {
		t.Fatal(err)
	}
	if err := storage.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, "refs/heads/main")); err != nil {
		t.Fatal(err)
	}
	config, err := storage.Config()
	if err != nil {
		t.Fatal(err)
	}
	config.Core.IsBare = true
	config.Raw.Section("http").SetOption("receivepack", "true")
	config.Raw.Section("uploadpack").SetOption("allowFilter", "true")
	if err := storage.SetConfig(config); err != nil {
		t.Fatal(err)
	}
	return r
}

// storage opens the repository again, since servers write to it as well.
func (r *Repository) storage() *filesystem.Storage {
	return filesystem.NewStorage(osfs.New(r.Dir), cache.NewObjectLRUDefault())
}

// Commit commits the files to a branch, on top of its head, and returns the commit.
func (r *Repository) Commit(branch, message string) string {
	r.t.Helper()
	var parents []string
	if hash := r.Ref("refs/heads/" + branch); hash != "" {
		parents = []string{hash}
	}
	return r.CommitOn(branch, message, parents...)
}

// CommitOn is Commit with these parents, which rewrites history.
func (r *Repository) CommitOn(branch, message string, parents ...string) string {
	r.t.Helper()
	storage := r.storage()
	defer storage.Close()
	r.at = r.at.Add(time.Minute)
	who := object.Signature{Name: "Author", Email: "author@example.com", When: r.at}
	commit := &object.Commit{Author: who, Committer: who, Message: message, TreeHash: r.tree(storage)}
	for _, parent := range parents {
		commit.ParentHashes = append(commit.ParentHashes, plumbing.NewHash(parent))
	}
	hash := r.write(storage, commit)
	r.SetRef("refs/heads/"+branch, hash.String())
	return hash.String()
}

// Tag creates or moves a tag.
func (r *Repository) Tag(name, hash string) { r.t.Helper(); r.SetRef("refs/tags/"+name, hash) }

// Annotate creates or moves an annotated tag.
func (r *Repository) Annotate(name, hash string) {
	r.t.Helper()
	storage := r.storage()
	defer storage.Close()
	r.at = r.at.Add(time.Minute)
	tag := &object.Tag{
		Name: name, Tagger: object.Signature{Name: "Tagger", Email: "t@example.com", When: r.at}, Message: "annotated\n",
		TargetType: plumbing.CommitObject, Target: plumbing.NewHash(hash),
	}
	r.SetRef("refs/tags/"+name, r.write(storage, tag).String())
}

// SetRef sets a reference, or removes it with "".
func (r *Repository) SetRef(name, hash string) {
	r.t.Helper()
	storage := r.storage()
	defer storage.Close()
	err := storage.RemoveReference(plumbing.ReferenceName(name))
	if hash != "" {
		err = storage.SetReference(plumbing.NewHashReference(plumbing.ReferenceName(name), plumbing.NewHash(hash)))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// Ref returns the hash of a reference, or "" if it does not exist.
func (r *Repository) Ref(name string) string {
	storage := r.storage()
	defer storage.Close()
	ref, err := storage.Reference(plumbing.ReferenceName(name))
	if err != nil {
		return ""
	}
	return ref.Hash().String()
}

// Hook sets a hook of the repository to a shell command.
func (r *Repository) Hook(name, command string) {
	r.t.Helper()
	file := filepath.Join(r.Dir, "hooks", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("#!/bin/sh\n"+command+"\n"), 0o755)); err != nil {
		r.t.Fatal(err)
	}
}

// Empty deletes all references and objects, as if the repository was re-created.
func (r *Repository) Empty() {
	r.t.Helper()
	for _, dir := range []string{"refs", "objects"} {
		if err := os.RemoveAll(filepath.Join(r.Dir, dir)); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(r.Dir, "packed-refs")); err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	storage := r.storage()
	defer storage.Close()
	if err := storage.Init(); err != nil {
		r.t.Fatal(err)
	}
	if err := storage.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, "refs/heads/main")); err != nil {
		r.t.Fatal(err)
	}
}

// Refs returns the names of all references but HEAD, sorted.
func (r *Repository) Refs() []string {
	r.t.Helper()
	storage := r.storage()
	defer storage.Close()
	iter, err := storage.IterReferences()
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	_ = iter.ForEach(func(ref *plumbing.Reference) error {
		if ref.Name() != plumbing.HEAD {
			names = append(names, ref.Name().String())
		}
		return nil
	})
	slices.Sort(names)
	return names
}

// Show returns the message, the parents and the files of a commit.
func (r *Repository) Show(hash string) (message string, parents []string, files map[string]string) {
	r.t.Helper()
	storage := r.storage()
	defer storage.Close()
	commit, err := object.GetCommit(storage, plumbing.NewHash(hash))
	if err != nil {
		r.t.Fatalf("commit %q: %v", hash, err)
	}
	for _, parent := range commit.ParentHashes {
		parents = append(parents, parent.String())
	}
	tree, err := commit.Tree()
	if err != nil {
		r.t.Fatal(err)
	}
	files = map[string]string{}
	err = tree.Files().ForEach(func(file *object.File) error {
		text, err := file.Contents()
		files[file.Name] = text
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return commit.Message, parents, files
}

// Executables returns the paths of the executable files of a commit, sorted.
func (r *Repository) Executables(hash string) []string {
	r.t.Helper()
	storage := r.storage()
	defer storage.Close()
	commit, err := object.GetCommit(storage, plumbing.NewHash(hash))
	if err != nil {
		r.t.Fatalf("commit %q: %v", hash, err)
	}
	tree, err := commit.Tree()
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	err = tree.Files().ForEach(func(file *object.File) error {
		if file.Mode == filemode.Executable {
			names = append(names, file.Name)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// tree writes the files as trees and returns the hash of the root.
func (r *Repository) tree(storage *filesystem.Storage) plumbing.Hash {
	type node struct {
		entries map[string]object.TreeEntry
		below   map[string]*node
	}
	newNode := func() *node { return &node{map[string]object.TreeEntry{}, map[string]*node{}} }
	root := newNode()
	put := func(name string, mode filemode.FileMode, hash plumbing.Hash) {
		parts := strings.Split(name, "/") // not cleaned, since some tests use ".."
		at, base := root, parts[len(parts)-1]
		for _, part := range parts[:len(parts)-1] {
			if at.below[part] == nil {
				at.below[part] = newNode()
			}
			at = at.below[part]
		}
		at.entries[base] = object.TreeEntry{Name: base, Mode: mode, Hash: hash}
	}
	blob := func(text string) plumbing.Hash {
		obj := storage.NewEncodedObject()
		obj.SetType(plumbing.BlobObject)
		w, err := obj.Writer()
		if err != nil {
			r.t.Fatal(err)
		}
		fmt.Fprint(w, text)
		w.Close()
		hash, err := storage.SetEncodedObject(obj)
		if err != nil {
			r.t.Fatal(err)
		}
		return hash
	}
	for name, text := range r.Files {
		mode := filemode.Regular
		if r.Executable[name] {
			mode = filemode.Executable
		}
		put(name, mode, blob(text))
	}
	for name, target := range r.Links {
		put(name, filemode.Symlink, blob(target))
	}
	for _, name := range r.Modules {
		put(name, filemode.Submodule, plumbing.NewHash(strings.Repeat("1", 40)))
	}
	var write func(*node) plumbing.Hash
	write = func(n *node) plumbing.Hash {
		tree := &object.Tree{}
		for _, entry := range n.entries {
			tree.Entries = append(tree.Entries, entry)
		}
		for name, below := range n.below {
			tree.Entries = append(tree.Entries, object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: write(below)})
		}
		slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int {
			key := func(e object.TreeEntry) string {
				if e.Mode == filemode.Dir {
					return e.Name + "/"
				}
				return e.Name
			}
			return strings.Compare(key(a), key(b))
		})
		return r.write(storage, tree)
	}
	return write(root)
}

func (r *Repository) write(storage *filesystem.Storage, what interface {
	Encode(plumbing.EncodedObject) error
},
) plumbing.Hash {
	r.t.Helper()
	obj := storage.NewEncodedObject()
	if err := what.Encode(obj); err != nil {
		r.t.Fatal(err)
	}
	hash, err := storage.SetEncodedObject(obj)
	if err != nil {
		r.t.Fatal(err)
	}
	return hash
}

// URL returns the file URL of the repository.
func (r *Repository) URL() string { return "file://" + r.Dir }

// Package adds the files of a small package. The text distinguishes versions.
func (r *Repository) Package(dir, text string) {
	r.Files[dir+"/Kptfile"] = fmt.Sprintf("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: %s\n", path.Base(dir))
	r.Files[dir+"/config.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  text: %q\n", path.Base(dir), text)
}
