package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/repository"
)

// source is where a repository lies: at a server, or in a directory of this machine.
type source interface {
	// references returns what there is.
	references(ctx context.Context) (*references, error)
	// objects returns the objects of these commits, or tags, and as little else as can be had. They are released after use.
	objects(ctx context.Context, wants []plumbing.Hash) (storer.EncodedObjectStorer, func(), error)
	// contains tells whether a commit is an ancestor of another, or the same.
	contains(ctx context.Context, ancestor, of plumbing.Hash) (bool, error)
	// push writes objects, and changes references if they are what the commands say.
	push(ctx context.Context, objects storer.EncodedObjectStorer, added []plumbing.Hash, commands []*packp.Command) error
	close()
}

// references are those of a repository by their full names.
type references struct {
	// hashes are what they lead to: commits, and annotated tags.
	hashes map[string]plumbing.Hash
	// peeled are the commits of annotated tags. Not every server tells them.
	peeled map[string]plumbing.Hash
	// head is the branch that HEAD names, empty if that is not known.
	head string
}

// commit returns what a reference leads to, as far as is known.
func (r *references) commit(name string) plumbing.Hash {
	if hash, ok := r.peeled[name]; ok {
		return hash
	}
	return r.hashes[name]
}

// wire is a source at a server, over any transport.
type wire struct {
	upload  func() (transport.UploadPackSession, error)
	receive func() (transport.ReceivePackSession, error)
	finish  func()
	limits  repository.Limits
	temp    string
}

func (w *wire) close() { w.finish() }

// references asks the server.
func (w *wire) references(ctx context.Context) (*references, error) {
	session, err := w.upload()
	if err != nil {
		return nil, classify(err)
	}
	defer session.Close()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return &references{}, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	if len(advertised.References) > w.limits.Refs {
		return nil, repository.Errorf(repository.TooLarge, "the repository has %d references; at most %d are read", len(advertised.References), w.limits.Refs)
	}
	refs := &references{hashes: advertised.References, peeled: advertised.Peeled}
	for _, link := range advertised.Capabilities.Get(capability.SymRef) {
		if name, target, _ := strings.Cut(link, ":"); name == "HEAD" {
			refs.head = target
		}
	}
	return refs, nil
}

// objects fetches without history, and without files that no package may have, if the server can.
func (w *wire) objects(ctx context.Context, wants []plumbing.Hash) (storer.EncodedObjectStorer, func(), error) {
	return w.fetch(ctx, func(request *packp.UploadPackRequest, server *capability.List) {
		request.Wants = slices.Clone(wants) // which is sorted as it is sent
		if server.Supports(capability.Shallow) {
			_ = request.Capabilities.Set(capability.Shallow)
			request.Depth = packp.DepthCommits(1)
		}
		if server.Supports(capability.Filter) {
			_ = request.Capabilities.Set(capability.Filter)
			request.Filter = packp.FilterBlobLimit(kptpkg.MaxBytes, packp.BlobLimitPrefixNone)
		}
	})
}

// contains fetches what lies between the two commits. Where the ancestor is one that is little; where it is not, all history comes.
func (w *wire) contains(ctx context.Context, ancestor, of plumbing.Hash) (bool, error) {
	if ancestor == of {
		return true, nil
	}
	objects, release, err := w.fetch(ctx, func(request *packp.UploadPackRequest, server *capability.List) {
		request.Wants, request.Haves = []plumbing.Hash{of}, []plumbing.Hash{ancestor}
		if server.Supports(capability.Shallow) {
			_ = request.Capabilities.Set(capability.Shallow)
			request.Shallows = []plumbing.Hash{ancestor}
		}
		if server.Supports(capability.Filter) {
			_ = request.Capabilities.Set(capability.Filter)
			request.Filter = packp.FilterTreeDepth(0)
		}
	})
	if err != nil {
		return false, fmt.Errorf("read what came after %s: %w", ancestor, err)
	}
	defer release()
	return reaches(ctx, objects, of, ancestor)
}

// reaches walks from a commit back, as far as there are commits, looking for another.
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
			continue // older than what was fetched
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

// fetch asks for objects and unpacks them in a directory of their own.
func (w *wire) fetch(ctx context.Context, ask func(*packp.UploadPackRequest, *capability.List)) (storer.EncodedObjectStorer, func(), error) {
	session, err := w.upload()
	if err != nil {
		return nil, nil, classify(err)
	}
	defer session.Close()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, nil, classify(err)
	}
	request := packp.NewUploadPackRequestFromCapabilities(advertised.Capabilities)
	ask(request, advertised.Capabilities)
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return nil, nil, classify(err)
	}
	defer response.Close()
	var pack io.Reader = response
	switch {
	case request.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, response)
	case request.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, response)
	}
	dir, err := os.MkdirTemp(w.temp, "starling-git-")
	if err != nil {
		return nil, nil, err
	}
	objects, err := unpack(pack, dir, w.limits)
	if err != nil {
		return nil, nil, errors.Join(classify(err), os.RemoveAll(dir))
	}
	return objects, func() {
		objects.Close()
		os.RemoveAll(dir)
	}, nil
}

// push sends what is new. All references change, or none, where the server can do that.
func (w *wire) push(ctx context.Context, objects storer.EncodedObjectStorer, added []plumbing.Hash, commands []*packp.Command) error {
	session, err := w.receive()
	if err != nil {
		return classify(err)
	}
	defer session.Close()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		advertised, err = packp.NewAdvRefs(), nil
	}
	if err != nil {
		return classify(err)
	}
	request := packp.NewReferenceUpdateRequestFromCapabilities(advertised.Capabilities)
	for _, c := range []capability.Capability{capability.Atomic, capability.Sideband64k} {
		if advertised.Capabilities.Supports(c) {
			_ = request.Capabilities.Set(c)
		}
	}
	request.Commands = commands
	if len(added) > 0 {
		var pack bytes.Buffer
		if _, err := packfile.NewEncoder(&pack, objects, false).Encode(added, 0); err != nil {
			return fmt.Errorf("pack commits: %w", err)
		}
		request.Packfile = io.NopCloser(&pack)
	}
	report, err := session.ReceivePack(ctx, request)
	if err != nil {
		return classify(err)
	}
	if report != nil {
		return report.Error()
	}
	return nil
}

// classify says what an error of the transport means to the owner of the Repository.
func classify(err error) error {
	if unexpected, ok := errors.AsType[*plumbing.UnexpectedError](err); ok { // it wraps, and does not say so
		err = unexpected.Err
	}
	var own *repository.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return repository.Errorf(repository.NotFound, "the server has no such repository, or does not show it to whom the Secret is of")
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return repository.Errorf(repository.Unauthorized, "the server does not accept the credentials: %s", firstLine(err))
	case errors.Is(err, errOtherHost):
		return repository.Errorf(repository.InvalidSpec, "%w", errOtherHost)
	case strings.Contains(err.Error(), tooLargeText): // from where the library keeps only the text
		return repository.Errorf(repository.TooLarge, "%w", err)
	}
	return repository.FromNetwork(err)
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
