package propose

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/transaction"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
)

// Revisions read PackageRevisions, from the API server and not from a cache.
type Revisions interface {
	// Revision returns a stored revision. Its errors are those of the API server.
	Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error)
	// Files returns the files of a stored revision. They are shared: do not change them.
	Files(ctx context.Context, r *storev1alpha1.PackageRevision) (kpt.Files, error)
}

// Revision is a PackageRevision whose publication is validated.
type Revision struct {
	// Name is the name of the revision.
	Name string
	gate.Snapshot
	// Before is the content that the cluster has now, empty if it has none.
	Before, After gate.Content
}

// Package returns the package as users write it: namespace/repository/package.
func (r *Revision) Package() string {
	return r.Namespace + "/" + r.Repository + "/" + r.PackageName
}

// revision proposes that a PackageRevision is published. It installs nothing: what the package
// requires must be installed.
func (p *Proposer) revision(ctx context.Context, tx *pkgv1alpha1.Transaction, w *world, snapshot *pkgv1alpha1.PackageSnapshot) (*Proposal, error) {
	if !transaction.ValidateOnly(tx) {
		return nil, corexpkg.Invalidf("a %s is published by its approval: a transaction can only validate it", gate.Kind)
	}
	s, err := gate.ParseSnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	r := &Revision{Name: snapshot.Metadata.Name, Snapshot: *s}
	stored, err := p.Revisions.Revision(ctx, s.Namespace, r.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, corexpkg.Invalidf("%s %s/%s does not exist", gate.Kind, s.Namespace, r.Name)
	case err != nil:
		return nil, fmt.Errorf("get %s %s/%s: %w", gate.Kind, s.Namespace, r.Name, err)
	}
	r.Repository, r.PackageName, r.WorkspaceName = stored.Spec.RepositoryName, stored.Spec.PackageName, stored.Spec.WorkspaceName
	if err := p.readRevision(ctx, stored, s.ContentDigest, &r.After); err != nil {
		return nil, err
	}
	if s.Replaces != "" {
		published, err := p.Revisions.Revision(ctx, s.Namespace, s.Replaces)
		if err != nil {
			return nil, fmt.Errorf("get %s %s/%s, which is published now: %w", gate.Kind, s.Namespace, s.Replaces, err)
		}
		if err := p.readRevision(ctx, published, s.ReplacesDigest, &r.Before); err != nil {
			return nil, err
		}
	}
	if conflict := gate.Unmet(r.Name, r.After.Dependencies, w.installed); conflict != nil {
		return nil, conflict
	}
	return &Proposal{Packages: w.installed, Revision: r}, nil
}

// readRevision reads the content of a revision that has a digest.
func (p *Proposer) readRevision(ctx context.Context, stored *storev1alpha1.PackageRevision, digest string, into *gate.Content) error {
	if stored.Status.ContentDigest != digest {
		return corexpkg.Invalidf("%s %s/%s has changed since the transaction was created", gate.Kind, stored.Namespace, stored.Name)
	}
	files, err := p.Revisions.Files(ctx, stored)
	if err != nil {
		return fmt.Errorf("read the files of %s %s/%s: %w", gate.Kind, stored.Namespace, stored.Name, err)
	}
	content, err := gate.Read(files)
	if err != nil {
		return err
	}
	*into = *content
	return nil
}
