package store

import (
	"context"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

// UpdatedFiles is the result of UpdateFiles.
type UpdatedFiles struct {
	Revision *storev1alpha1.PackageRevision
	// Files are the files as stored: rendered, if the pipeline passed.
	Files  kpt.Files
	Render porchv1alpha1.RenderStatus
}

// UpdateFiles replaces all files of a draft, and renders them. Of wanted, only the files and the
// managedFields count. The argument before is as in Update.
func (s *Store) UpdateFiles(ctx context.Context, before *storev1alpha1.PackageRevision, wanted *porchv1alpha1.PackageRevisionResources, user string, dryRun bool) (*UpdatedFiles, error) {
	files := kpt.Files(wanted.Spec.Resources)
	if text := lifecycle.CheckFiles(before.Spec.Lifecycle); text != "" {
		return nil, forbidden(before.Name, text)
	}
	if wrong := files.Check(); len(wrong) > 0 {
		return nil, invalid(before.Name, fieldErrors("spec.resources", wrong...)...)
	}
	if _, there := files[kpt.KptfileName]; !there {
		return nil, invalid(before.Name, lifecycle.FieldErrorf("spec.resources[Kptfile]", "Required value: a package must contain a Kptfile"))
	}
	leave, err := s.renders.acquire(ctx, files)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, err := draftOf(files)
	if err != nil {
		return nil, invalid(before.Name, fieldErrors("spec.resources", err.Error())...)
	}
	if d.deployment, err = s.deploys(ctx, before); err != nil {
		return nil, err
	}
	content, err := s.renderDraft(ctx, before.Name, d)
	if err != nil {
		return nil, err
	}
	after := before.DeepCopy()
	after.Status.Deployment = d.deployment
	if err := s.replaceContent(ctx, after, content, dryRun); err != nil {
		return nil, err
	}
	if err := setFilesManagedFields(after, wanted.ManagedFields); err != nil {
		return nil, err
	}
	recordAuthor(before, after, user)
	written, err := s.replace(ctx, before, after, dryRun)
	if err != nil {
		return nil, err
	}
	return &UpdatedFiles{Revision: written, Files: content.files, Render: content.renderStatus()}, nil
}
