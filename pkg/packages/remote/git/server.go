package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// serverSource is a source on a server, over any transport.
type serverSource struct {
	upload           func() (transport.UploadPackSession, error)
	receive          func() (transport.ReceivePackSession, error)
	closeConnections func()
	limits           remote.Limits
	transfer         *transfer
	temp             string
}

func (w *serverSource) close() { w.closeConnections() }

// references requests the references.
func (w *serverSource) references(ctx context.Context) (*references, error) {
	session, err := w.upload()
	if err != nil {
		return nil, w.classify(err)
	}
	defer session.Close()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return &references{hashes: map[string]plumbing.Hash{}}, nil
	}
	if err != nil {
		return nil, w.classify(err)
	}
	if len(advertised.References) > w.limits.Refs {
		return nil, remote.Errorf(remote.TooLarge, "the repository has %d references, but the limit is %d", len(advertised.References), w.limits.Refs)
	}
	refs := &references{hashes: advertised.References, peeled: advertised.Peeled}
	for _, link := range advertised.Capabilities.Get(capability.SymRef) {
		if name, target, _ := strings.Cut(link, ":"); name == "HEAD" {
			refs.head = target
		}
	}
	return refs, nil
}

// objects fetches without history, and without files that are too large for a package, if the
// server supports that.
func (w *serverSource) objects(ctx context.Context, wants []plumbing.Hash) (storer.EncodedObjectStorer, func(), error) {
	return w.fetch(ctx, func(request *packp.UploadPackRequest, server *capability.List) {
		request.Wants = slices.Clone(wants) // encoding the request sorts it
		if server.Supports(capability.Shallow) {
			_ = request.Capabilities.Set(capability.Shallow)
			request.Depth = packp.DepthCommits(1)
		}
		if server.Supports(capability.Filter) {
			_ = request.Capabilities.Set(capability.Filter)
			request.Filter = packp.FilterBlobLimit(kpt.MaxBytes, packp.BlobLimitPrefixNone)
		}
	})
}

// contains fetches the commits between two commits. That is little if ancestor is an ancestor, and
// all history if it is not.
func (w *serverSource) contains(ctx context.Context, ancestor, of plumbing.Hash) (bool, error) {
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
		return false, fmt.Errorf("fetch commits after %s: %w", ancestor, err)
	}
	defer release()
	return reaches(ctx, objects, of, ancestor)
}

// fetch requests objects and unpacks them in a new temporary directory.
func (w *serverSource) fetch(ctx context.Context, ask func(*packp.UploadPackRequest, *capability.List)) (storer.EncodedObjectStorer, func(), error) {
	session, err := w.upload()
	if err != nil {
		return nil, nil, w.classify(err)
	}
	defer session.Close()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, nil, w.classify(err)
	}
	request := packp.NewUploadPackRequestFromCapabilities(advertised.Capabilities)
	ask(request, advertised.Capabilities)
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return nil, nil, w.classify(err)
	}
	defer response.Close()
	dir, err := os.MkdirTemp(w.temp, "starling-git-")
	if err != nil {
		return nil, nil, err
	}
	objects, err := unpack(withoutSideband(response, request.Capabilities), dir, w.limits)
	if err != nil {
		return nil, nil, errors.Join(w.classify(err), os.RemoveAll(dir))
	}
	return objects, func() {
		objects.Close()
		os.RemoveAll(dir)
	}, nil
}

// withoutSideband returns the data of a response without messages for users, if the server sends
// both.
func withoutSideband(response io.Reader, used *capability.List) io.Reader {
	switch {
	case used.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, response)
	case used.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, response)
	}
	return response
}

// push sends new objects. All references change or none, if the server supports that. Otherwise a
// branch, which is the first one, changes before the tags: they would say that it was written.
func (w *serverSource) push(ctx context.Context, added *memory.Storage, commands []*packp.Command) error {
	session, err := w.receive()
	if err != nil {
		return w.classify(err)
	}
	defer session.Close()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		advertised, err = packp.NewAdvRefs(), nil
	}
	if err != nil {
		return w.classify(err)
	}
	request := packp.NewReferenceUpdateRequestFromCapabilities(advertised.Capabilities)
	for _, c := range []capability.Capability{capability.Atomic, capability.Sideband64k} {
		if advertised.Capabilities.Supports(c) {
			_ = request.Capabilities.Set(c)
		}
	}
	if !advertised.Capabilities.Supports(capability.Atomic) && len(commands) > 1 && commands[0].Name.IsBranch() {
		if err := w.push(ctx, added, commands[:1]); err != nil {
			return err
		}
		return w.push(ctx, added, commands[1:])
	}
	request.Commands = commands
	if slices.ContainsFunc(commands, func(c *packp.Command) bool { return c.Action() != packp.Delete }) { // a server waits for a pack, also for an empty one
		var pack bytes.Buffer
		if _, err := packfile.NewEncoder(&pack, added, false).Encode(slices.Collect(maps.Keys(added.Objects)), 0); err != nil {
			return fmt.Errorf("pack commits: %w", err)
		}
		request.Packfile = io.NopCloser(&pack)
	}
	report, err := session.ReceivePack(ctx, request)
	if err != nil {
		return w.classify(err)
	}
	if report != nil {
		return report.Error()
	}
	return nil
}

// classify returns an error of the transport with its kind.
func (w *serverSource) classify(err error) error {
	if unexpected, ok := errors.AsType[*plumbing.UnexpectedError](err); ok { // it wraps an error without Unwrap
		err = unexpected.Err
	}
	var own *remote.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return remote.Errorf(remote.NotFound, "the server has no such repository, or the credentials of the Secret give no access to it")
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return remote.Errorf(remote.Unauthorized, "the server does not accept the credentials: %s", firstLine(err))
	case errors.Is(err, errRedirectHost):
		return remote.Errorf(remote.InvalidSpec, "%w", errRedirectHost)
	case w.transfer.exceeded.Load():
		return w.transfer.errTooLarge()
	}
	return remote.FromNetwork(err)
}

func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

var errRedirectHost = errors.New("the server redirects to another host: set spec.git.repo to that host")
