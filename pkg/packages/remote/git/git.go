package git

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

// go-git (v5.18) leaves out what it does not know in all cases. It does not know several rounds of
// negotiation with multi_ack, and there is only one here: all that is had is sent at once. Azure
// DevOps requires multi_ack. The variable is global, and nothing else uses go-git.
func init() { //nolint:gochecknoinits // before any session
	transport.UnsupportedCapabilities = []capability.Capability{capability.MultiACKDetailed, capability.ThinPack}
}

// Repository is a git repository as of one List: all other calls use its result. It is not safe for
// concurrent use. remote.KindOf classifies its errors.
type Repository struct {
	options   Options
	directory string
	source    source
	refs      *references
}

// Open returns a Repository. It sends no request. The caller must close it.
func Open(o Options) (*Repository, error) {
	a, err := parseAddress(o.Repo, o.FileRoots, o.Insecure)
	if err != nil {
		return nil, err
	}
	if a.scheme != "file" {
		if err := o.Hosts.Check("spec.git.repo", a.host); err != nil {
			return nil, err
		}
	}
	c, err := parseCredentials(o.Secret)
	if err != nil {
		return nil, err
	}
	r := &Repository{options: o, directory: strings.Trim(o.Directory, "/")}
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

// Close closes all connections.
func (r *Repository) Close() {
	if r.source != nil {
		r.source.close()
	}
}

// Address returns the address as the user wrote it.
func (r *Repository) Address() string { return r.options.Repo }

const (
	tagPrefix    = "refs/tags/"
	branchPrefix = "refs/heads/"
)

// List returns the tags and the branch. It takes one request.
func (r *Repository) List(ctx context.Context) (*remote.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	refs, err := r.source.references(ctx)
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	r.refs = refs
	listing := &remote.Listing{Empty: len(refs.hashes) == 0}
	branch := branchPrefix + r.options.Branch
	if _, ok := refs.hashes[branch]; ok {
		listing.Branch = &remote.Ref{
			Name: r.options.Branch, ID: refs.commit(branch).String(), Branch: true,
			Workspace: remote.Workspace(r.options.Branch), Number: remote.NotNumbered,
		}
	} else if len(refs.hashes) > 0 && !r.options.CreateBranch && !r.options.HadBranch {
		return nil, remote.Errorf(remote.NotFound, "the repository has no branch %q: set spec.git.createBranch, or push the branch", r.options.Branch)
	}
	for name := range refs.hashes {
		if tag, ok := r.parseTag(name); ok {
			listing.Tags = append(listing.Tags, tag)
		}
	}
	slices.SortFunc(listing.Tags, func(a, b remote.Ref) int { return strings.Compare(a.Name, b.Name) })
	return listing, nil
}

// parseTag reads the full name of a tag <directory>/<package>/<revision>.
func (r *Repository) parseTag(full string) (remote.Ref, bool) {
	name, ok := strings.CutPrefix(full, tagPrefix)
	if !ok {
		return remote.Ref{}, false
	}
	dir, revision, pkg := "", name, r.options.RootPackage
	if last := strings.LastIndex(name, "/"); last >= 0 {
		dir, revision = name[:last], name[last+1:]
	}
	switch {
	case pkg != "":
		if dir != r.directory {
			return remote.Ref{}, false
		}
		dir = pkg
	case dir == "":
		return remote.Ref{}, false // a tag of the whole repository
	case r.directory != "":
		if dir, ok = strings.CutPrefix(dir, r.directory+"/"); !ok {
			return remote.Ref{}, false
		}
	}
	tag := remote.TagOf(name, dir, revision)
	tag.ID = r.refs.commit(full).String()
	return tag, true
}

// Descends reports whether the commit of the branch is a descendant of another commit, or the same.
func (r *Repository) Descends(ctx context.Context, from string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	return r.source.contains(ctx, plumbing.NewHash(from), r.refs.commit(branchPrefix+r.options.Branch))
}

// CreateBranch creates the branch at a commit that the repository still has, although it may have
// no tag or branch with it.
func (r *Repository) CreateBranch(ctx context.Context, commit string) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	return r.create(ctx, branchPrefix+r.options.Branch, commit)
}

// create creates references at commits that the repository still has.
func (r *Repository) create(ctx context.Context, namesAndCommits ...string) error {
	var commands []*packp.Command
	for pair := range slices.Chunk(namesAndCommits, 2) {
		commands = append(commands, &packp.Command{Name: plumbing.ReferenceName(pair[0]), New: plumbing.NewHash(pair[1])})
	}
	if err := r.source.push(ctx, memory.NewStorage(), commands); err != nil {
		return err
	}
	for _, command := range commands {
		r.refs.hashes[command.Name.String()] = command.New
	}
	return nil
}

// Remove deletes the tags that still have the given IDs. Other tags are skipped without an error.
func (r *Repository) Remove(ctx context.Context, tags []remote.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	for _, tag := range tags {
		full := tagPrefix + tag.Name
		if r.refs.commit(full).String() != tag.ID {
			continue
		}
		deletion := &packp.Command{Name: plumbing.ReferenceName(full), Old: r.refs.hashes[full]}
		if err := r.source.push(ctx, memory.NewStorage(), []*packp.Command{deletion}); err != nil {
			return fmt.Errorf("delete tag %q: %w", tag.Name, err)
		}
		delete(r.refs.hashes, full)
	}
	return nil
}

// path returns the directory of a package in the repository.
func (r *Repository) path(pkg string) string {
	if pkg == "" || pkg == r.options.RootPackage {
		return r.directory
	}
	return joinPath(r.directory, pkg)
}
