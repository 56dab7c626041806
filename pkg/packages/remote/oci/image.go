package oci

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/registry"
)

// Annotations of manifests.
const (
	annotationWorkspace = "starling.io/workspace"
	annotationTask      = "starling.io/task"
	annotationTitle     = "org.opencontainers.image.title"
	annotationVersion   = "org.opencontainers.image.version"
	annotationCreated   = "org.opencontainers.image.created"
	annotationAuthors   = "org.opencontainers.image.authors"
)

// maxName bounds the name of the publisher, in bytes.
const maxName = 253

// Load reads tags that List returned, and calls found for each. It reads the digest that was
// listed, even if the tag has moved.
func (r *Repository) Load(ctx context.Context, refs []remote.Ref, found func(remote.Revision) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	for _, ref := range refs {
		revision, err := r.load(ctx, ref)
		if err != nil {
			err = classify(fmt.Errorf("read %q: %w", ref.Name, err))
			if !ofOneItem(err) || ctx.Err() != nil {
				return err
			}
			revision.Files, revision.Problem, revision.Passing = nil, err.Error(), true
		}
		if err := found(revision); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) load(ctx context.Context, ref remote.Ref) (remote.Revision, error) {
	revision := remote.Revision{Ref: ref, Directory: ref.Package}
	descriptor, err := r.puller.Get(ctx, r.host.Repo(r.prefix+ref.Package).Digest(ref.ID))
	if err != nil {
		return revision, err
	}
	if !descriptor.MediaType.IsImage() {
		revision.Problem = fmt.Sprintf("it is not an image, but has the media type %s", descriptor.MediaType)
		return revision, nil
	}
	image, err := descriptor.Image()
	if err != nil {
		return revision, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return revision, err
	}
	if len(manifest.Layers) != 1 {
		revision.Problem = fmt.Sprintf("the image has %d layers, but the image of a package must have one", len(manifest.Layers))
		return revision, nil
	}
	if size := manifest.Layers[0].Size; size > kpt.MaxBytes {
		revision.Problem = fmt.Sprintf("its layer has %d bytes, but a package may have at most %d", size, kpt.MaxBytes)
		return revision, nil
	}
	revision.By = text.Clip(strings.ToValidUTF8(manifest.Annotations[annotationAuthors], ""), maxName)
	if at, err := time.Parse(time.RFC3339, manifest.Annotations[annotationCreated]); err == nil {
		revision.At = at
	}
	if workspace := manifest.Annotations[annotationWorkspace]; len(validation.IsDNS1123Label(workspace)) == 0 {
		revision.Workspace = workspace
	}
	files, problem, err := readLayer(image)
	if err != nil {
		return revision, err
	}
	if revision.Problem = cmp.Or(problem, remote.CheckFiles(files)); revision.Problem == "" {
		revision.Files = files
	}
	return revision, nil
}

// readLayer unpacks the only layer of an image.
func readLayer(image v1.Image) (files kpt.Files, problem string, err error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, "", err
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		return nil, "", err
	}
	defer content.Close()
	// Headers and padding take at most 2 KiB for each file.
	archive := tar.NewReader(io.LimitReader(content, kpt.MaxBytes+kpt.MaxFiles<<11))
	files = kpt.Files{}
	size := 0
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, "", nil
		}
		if err != nil {
			if _, own := errors.AsType[*remote.Error](err); own {
				return nil, "", err
			}
			return nil, "its layer is not a valid tar archive: " + err.Error(), nil
		}
		file := strings.TrimPrefix(header.Name, "./")
		switch header.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir:
			continue
		default:
			return nil, file + ": must be a regular file or a directory", nil
		}
		if size += len(file) + int(min(header.Size, kpt.MaxBytes)); header.Size > kpt.MaxBytes || size > kpt.MaxBytes || len(files) > kpt.MaxFiles {
			return nil, fmt.Sprintf("the package has more than %d bytes or %d files", kpt.MaxBytes, kpt.MaxFiles), nil
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, "its layer is not a valid tar archive: " + err.Error(), nil
		}
		if _, twice := files[file]; twice {
			return nil, file + ": occurs twice in the layer", nil
		}
		files[file] = string(content)
	}
}

// newImage builds the image of a revision.
func newImage(e *remote.Export) (v1.Image, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zip)
	for _, file := range e.Files.Paths() {
		// No times and owners, so that equal files are equal bytes.
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file, Size: int64(len(e.Files[file])), Mode: 0o644, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(archive, e.Files[file]); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{
		annotationTitle: e.Package, annotationVersion: fmt.Sprintf("v%d", e.Number), annotationWorkspace: e.Workspace,
		annotationCreated: e.At.UTC().Format(time.RFC3339),
	}
	if e.By != "" {
		annotations[annotationAuthors] = e.By
	}
	if e.Task != "" {
		annotations[annotationTask] = e.Task
	}
	annotated, ok := mutate.Annotations(image, annotations).(v1.Image)
	if !ok {
		return nil, errors.New("unexpected type of an image with annotations")
	}
	return annotated, nil
}

// Export writes revisions as images, and returns the result of each in their order. A tag that
// exists with the same files is already exported, so Export can be repeated after any error.
// Registries cannot create a tag only if it does not exist, so each is looked at right before it is
// written. Two writers of the same revision write the same bytes.
func (r *Repository) Export(ctx context.Context, exports []remote.Export) ([]remote.ExportResult, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	results := make([]remote.ExportResult, len(exports))
	for i := range exports {
		e := &exports[i]
		tag := fmt.Sprintf("v%d", e.Number)
		ref := remote.TagOf(e.Package+":"+tag, e.Package, tag)
		ref.Workspace, ref.ID = e.Workspace, r.ids[ref.Name]
		results[i].Directory = e.Package
		if unread := r.unread[e.Package]; unread != nil { // it may have the tag
			results[i].Problem = "its tags could not be read: " + unread.Error()
			continue
		}
		if _, err := name.NewRepository(r.host.Name() + "/" + r.prefix + e.Package); err != nil {
			results[i].Problem = "its name is not valid in a registry: " + err.Error()
			continue
		}
		if ref.ID == "" {
			there, err := r.puller.Head(ctx, r.reference(&ref))
			if err == nil {
				ref.ID = there.Digest.String()
			} else if registry.Status(err) != http.StatusNotFound {
				if err = classify(fmt.Errorf("read tag %q: %w", ref.Name, err)); !ofOneItem(err) {
					return nil, err
				}
				results[i].Problem = err.Error()
				continue
			}
		}
		if ref.ID != "" {
			there, err := r.load(ctx, ref)
			if err != nil {
				if err = classify(fmt.Errorf("read %q: %w", ref.Name, err)); !ofOneItem(err) {
					return nil, err
				}
				results[i].Problem = err.Error()
				continue
			}
			if there.Files == nil || there.Files.Digest() != e.Files.Digest() {
				results[i].Conflict = true
				results[i].Problem = fmt.Sprintf("the registry already has the tag %s with different content, at %.19s", ref.Name, ref.ID)
				continue
			}
			results[i].Ref = ref
			continue
		}
		image, err := newImage(e)
		if err != nil {
			return nil, fmt.Errorf("build the image of %q: %w", ref.Name, err)
		}
		if err := r.pusher.Push(ctx, r.reference(&ref), image); err != nil {
			if err = classify(fmt.Errorf("write tag %q: %w", ref.Name, err)); !ofOneItem(err) {
				return nil, err
			}
			results[i].Problem = err.Error()
			continue
		}
		digest, err := image.Digest()
		if err != nil {
			return nil, err
		}
		ref.ID = digest.String()
		r.ids[ref.Name], results[i].Ref = ref.ID, ref
	}
	return results, nil
}

// Remove deletes the tags that still have the given IDs. Other tags are skipped without an error.
func (r *Repository) Remove(ctx context.Context, tags []remote.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	for i := range tags {
		tag := r.reference(&tags[i])
		there, err := r.puller.Head(ctx, tag)
		if registry.Status(err) == http.StatusNotFound || (err == nil && there.Digest.String() != tags[i].ID) {
			continue
		}
		if err != nil {
			return classify(fmt.Errorf("read tag %q: %w", tags[i].Name, err))
		}
		err = r.pusher.Delete(ctx, tag)
		if code := registry.Status(err); code == http.StatusMethodNotAllowed || code == http.StatusBadRequest {
			err = r.removeImage(ctx, tag, tags[i].ID)
		}
		if err != nil && registry.Status(err) != http.StatusNotFound {
			return classify(fmt.Errorf("delete tag %q: %w", tags[i].Name, err))
		}
		delete(r.ids, tags[i].Name)
	}
	return nil
}

// removeImage deletes the image of a tag in a registry that deletes no tags. That deletes every tag
// of the image, so it fails if there is another one.
func (r *Repository) removeImage(ctx context.Context, tag name.Tag, id string) error {
	tags, err := r.puller.List(ctx, tag.Context())
	if err != nil {
		return fmt.Errorf("list the other tags of the image: %w", err)
	}
	for _, other := range tags {
		if other == tag.TagStr() {
			continue
		}
		there, err := r.puller.Head(ctx, tag.Context().Tag(other))
		if registry.Status(err) == http.StatusNotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("read tag %q: %w", other, err)
		}
		if there.Digest.String() == id {
			return fmt.Errorf("the registry deletes images only with all their tags, and tag %q has the same image: delete that tag first, or the tag %q, in the registry", other, tag.TagStr())
		}
	}
	return r.pusher.Delete(ctx, tag.Context().Digest(id))
}
