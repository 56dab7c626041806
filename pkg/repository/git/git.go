package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/starlinghq/starling/pkg/repository"
)

// Options say which repository is opened, and how.
type Options struct {
	// Repo is its address, as in spec.git.repo.
	Repo string
	// Branch holds the packages.
	Branch string
	// CreateBranch lets Export make the branch.
	CreateBranch bool
	// Directory holds the packages; empty is the whole repository.
	Directory string
	// Author and Email are those of commits; empty are those of whoever made the revision.
	Author, Email string
	// Secret is what the Secret holds that the Repository names; nil if it names none.
	Secret map[string][]byte
	// FileRoots are directories below which file URLs may lead.
	FileRoots []string
	// Limits bound what it costs.
	Limits repository.Limits
	// TempDir is where objects are kept while they are read; empty is the system's.
	TempDir string
}

// Repository is a git repository that is looked at once: each call speaks of what the first List found. It is not safe for concurrent use.
// Errors say by their repository.Kind what helps.
type Repository struct {
	options   Options
	directory string
	source    source
	refs      *references
}

// Open returns a repository. Nothing is asked of a server yet. Close it.
func Open(o Options) (*Repository, error) {
	a, err := parseAddress(o.Repo, o.FileRoots)
	if err != nil {
		return nil, err
	}
	c, err := parseCredentials(o.Secret)
	if err != nil {
		return nil, err
	}
	r := &Repository{options: o, directory: cleanDirectory(o.Directory)}
	switch a.scheme {
	case "file":
		r.source, err = openLocal(a.path, o.Limits)
	case "ssh":
		r.source, err = newSSH(a, c, o)
	default:
		r.source = newHTTP(a, c, o)
	}
	return r, err
}

// Close ends all connections.
func (r *Repository) Close() {
	if r.source != nil {
		r.source.close()
	}
}

// Address is where the repository is, as the user wrote it.
func (r *Repository) Address() string { return r.options.Repo }

const (
	tagPrefix    = "refs/tags/"
	branchPrefix = "refs/heads/"
)

// List returns what the repository has. It is one request.
func (r *Repository) List(ctx context.Context) (*repository.Listing, error) {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	refs, err := r.source.references(ctx)
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	r.refs = refs
	listing := &repository.Listing{}
	branch := branchPrefix + r.options.Branch
	if _, ok := refs.hashes[branch]; ok {
		listing.Branch = &repository.Ref{
			Name: r.options.Branch, ID: refs.commit(branch).String(), Branch: true,
			Workspace: repository.Workspace(r.options.Branch), Number: repository.NotNumbered,
		}
	} else if len(refs.hashes) > 0 && !r.options.CreateBranch {
		return nil, repository.Errorf(repository.NotFound, "the repository has no branch %q: set spec.git.createBranch, or push one", r.options.Branch)
	}
	for name := range refs.hashes {
		if tag, ok := r.parseTag(name); ok {
			listing.Tags = append(listing.Tags, tag)
		}
	}
	slices.SortFunc(listing.Tags, func(a, b repository.Ref) int { return strings.Compare(a.Name, b.Name) })
	return listing, nil
}

// parseTag reads the full name of a tag <directory>/<package>/<revision>.
func (r *Repository) parseTag(full string) (repository.Ref, bool) {
	name, ok := strings.CutPrefix(full, tagPrefix)
	if !ok {
		return repository.Ref{}, false
	}
	last := strings.LastIndex(name, "/")
	if last < 0 {
		return repository.Ref{}, false // of the whole repository
	}
	dir, revision := name[:last], name[last+1:]
	if r.directory != "" {
		if dir, ok = strings.CutPrefix(dir, r.directory+"/"); !ok {
			return repository.Ref{}, false
		}
	}
	tag := repository.Ref{
		Name: name, ID: r.refs.commit(full).String(), Package: dir, Workspace: repository.Workspace(revision), Number: repository.NotNumbered,
	}
	if n, ok := repository.Number(revision); ok {
		tag.Number = n
	}
	return tag, true
}

// Descends tells whether the commit that the branch leads to comes after another commit, or is the same.
func (r *Repository) Descends(ctx context.Context, from string) (bool, error) {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	return r.source.contains(ctx, plumbing.NewHash(from), r.refs.commit(branchPrefix+r.options.Branch))
}

// Remove deletes tags, if they still lead where they are said to. It returns no error for those that do not.
func (r *Repository) Remove(ctx context.Context, tags []repository.Ref) error {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	for _, tag := range tags {
		full := tagPrefix + tag.Name
		if r.refs.commit(full).String() != tag.ID {
			continue
		}
		if err := r.source.push(ctx, nil, nil, deletion(full, r.refs.hashes[full])); err != nil {
			return fmt.Errorf("delete tag %s: %w", tag.Name, err)
		}
		delete(r.refs.hashes, full)
	}
	return nil
}

// deadline bounds how long one call lasts.
func (r *Repository) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := r.options.Limits.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	return context.WithTimeout(ctx, timeout)
}

// path is where a package lies in the repository.
func (r *Repository) path(pkg string) string {
	if r.directory == "" {
		return pkg
	}
	if pkg == "" {
		return r.directory
	}
	return r.directory + "/" + pkg
}
