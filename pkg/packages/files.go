package packages

import (
	"context"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
)

// Written is what an update of files came to.
type Written struct {
	Revision *storev1alpha1.PackageRevision
	// Files are as they were kept: rendered, if the pipeline passed.
	Files  kptpkg.Files
	Render porchv1alpha1.RenderStatus
}

// UpdateFiles replaces all files of a draft, and renders them. Before is as in Update.
func (s *Store) UpdateFiles(ctx context.Context, before *storev1alpha1.PackageRevision, files kptpkg.Files, dryRun bool) (*Written, error) {
	if text := lifecycle.CheckFiles(before.Spec.Lifecycle); text != "" {
		return nil, forbidden(before.Name, text)
	}
	if wrong := files.Check(); len(wrong) > 0 {
		return nil, invalid(before.Name, prefixed("spec.resources: ", wrong)...)
	}
	if _, there := files[kptpkg.KptfileName]; !there {
		return nil, invalid(before.Name, "spec.resources[Kptfile]: Required value: it makes the files a package")
	}
	leave, err := s.room.enter(ctx, files)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := mirrored(files)
	if err != nil {
		return nil, invalid(before.Name, "spec.resources: "+err.Error())
	}
	content, err := s.seal(ctx, before.Name, d)
	if err != nil {
		return nil, err
	}
	after := before.DeepCopy()
	if err := s.replaceContent(ctx, after, content, dryRun); err != nil {
		return nil, err
	}
	written, err := s.replace(ctx, before, after, dryRun)
	if err != nil {
		return nil, err
	}
	if !dryRun {
		s.Reached(PointUpdateRevision)
	}
	return &Written{Revision: written, Files: content.files, Render: content.renderStatus()}, nil
}

func prefixed(prefix string, texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = prefix + text
	}
	return out
}
