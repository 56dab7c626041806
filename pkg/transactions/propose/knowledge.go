package propose

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/resolve"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/transactions/fetch"
)

const (
	// parallel is how many packages are fetched at the same time.
	parallel = 16
	// maxRounds bounds how often the solver asks for metadata. It asks at most as often as
	// dependencies are deep, and a few times more if it has to turn back.
	maxRounds = 1000
)

// solve fetches metadata until the solver has a solution. The error is a *resolve.Conflict if there
// is none.
func (p *Proposer) solve(ctx context.Context, problem *resolve.Problem, options func(source string) fetch.Options) (*resolve.Solution, error) {
	known := &resolve.Knowledge{}
	for range maxRounds {
		result, err := resolve.Resolve(problem, known)
		if err != nil {
			return nil, err
		}
		if result.Solution != nil {
			return result.Solution, nil
		}
		if err := p.gather(ctx, known, result.Needs, options); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("resolve packages: no solution after %d rounds", maxRounds)
}

// gather fetches all of these. What a registry says it does not have, and what is no package, is
// knowledge; that it does not answer is an error.
func (p *Proposer) gather(ctx context.Context, known *resolve.Knowledge, needs []resolve.Need, options func(source string) fetch.Options) error {
	var mutex sync.Mutex // of known
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, need := range needs {
		group.Go(func() error {
			add, err := p.read(ctx, need, options(need.Source))
			switch {
			case remote.KindOf(err) == remote.NotFound:
				add = func(known *resolve.Knowledge) { known.AddNotFound(need) }
			case corexpkg.IsInvalid(err):
				add = func(known *resolve.Knowledge) { known.AddInvalid(need.Source, need.Version, err.Error()) }
			case err != nil:
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			add(known)
			return nil
		})
	}
	return group.Wait()
}

// read fetches one thing and returns what to do with it.
func (p *Proposer) read(ctx context.Context, need resolve.Need, o fetch.Options) (func(*resolve.Knowledge), error) {
	if need.Version == "" {
		tags, err := p.Packages.Tags(ctx, need.Source, o)
		return func(known *resolve.Knowledge) { known.AddTags(need.Source, tags) }, err
	}
	resolved, err := p.Packages.Resolve(ctx, reference(need), o)
	if err != nil {
		return nil, err
	}
	meta, err := p.Packages.Meta(ctx, need.Source, resolved.Digest, o)
	if err != nil {
		return nil, err
	}
	manifest := resolve.Manifest{
		Digest: resolved.Digest, APIVersion: pkgv1.GroupVersion.String(), Kind: meta.Kind, Crossplane: meta.Crossplane,
	}
	for _, d := range meta.Dependencies {
		manifest.Dependencies = append(manifest.Dependencies, resolve.Dependency(d))
	}
	return func(known *resolve.Knowledge) {
		known.AddManifest(need.Source, need.Version, manifest)
	}, nil
}

func reference(need resolve.Need) corexpkg.Reference {
	if corexpkg.IsDigest(need.Version) {
		return corexpkg.Reference{Source: need.Source, Digest: need.Version}
	}
	return corexpkg.Reference{Source: need.Source, Tag: need.Version}
}
