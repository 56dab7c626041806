package oci

import (
	"archive/tar"
	"bytes"
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

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/repository"
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

// Load reads what tags hold that List returned, and gives each to found. What is read is what the digest says that was listed, wherever the
// tag leads by now.
func (r *Repository) Load(ctx context.Context, refs []repository.Ref, found func(repository.Revision) error) error {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	for _, ref := range refs {
		revision, err := r.load(ctx, ref)
		if err != nil {
			return classify(fmt.Errorf("read %s: %w", ref.Name, err))
		}
		if err := found(revision); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repository) load(ctx context.Context, ref repository.Ref) (repository.Revision, error) {
	revision := repository.Revision{Ref: ref, Directory: ref.Package}
	descriptor, err := r.puller.Get(ctx, r.host.Repo(r.prefix+ref.Package).Digest(ref.ID))
	if err != nil {
		return revision, err
	}
	if !descriptor.MediaType.IsImage() {
		revision.Problem = fmt.Sprintf("is a %s, not an image", descriptor.MediaType)
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
		revision.Problem = fmt.Sprintf("is an image of %d layers; that of a package has one", len(manifest.Layers))
		return revision, nil
	}
	if size := manifest.Layers[0].Size; size > kptpkg.MaxBytes {
		revision.Problem = fmt.Sprintf("has a layer of %d bytes; a package may have %d", size, kptpkg.MaxBytes)
		return revision, nil
	}
	revision.By = clip(manifest.Annotations[annotationAuthors])
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
	if problem == "" {
		problem = repository.CheckFiles(files)
	}
	if problem != "" {
		revision.Problem = problem
		return revision, nil
	}
	revision.Files = files
	return revision, nil
}

func clip(text string) string {
	const limit = 253
	text = strings.ToValidUTF8(text, "")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}

// readLayer unpacks the one layer of an image.
func readLayer(image v1.Image) (files kptpkg.Files, problem string, err error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, "", err
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		return nil, "", err
	}
	defer content.Close()
	// Headers and padding come to at most 2 KiB for each file.
	archive := tar.NewReader(io.LimitReader(content, kptpkg.MaxBytes+kptpkg.MaxFiles<<11))
	files = kptpkg.Files{}
	size := 0
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, "", nil
		}
		if err != nil {
			if _, own := errors.AsType[*repository.Error](err); own {
				return nil, "", err
			}
			return nil, "its layer is no tar that could be a package: " + err.Error(), nil
		}
		file := strings.TrimPrefix(header.Name, "./")
		switch header.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir:
			continue
		default:
			return nil, file + ": is neither a file nor a directory, which packages may not have", nil
		}
		if size += len(file) + int(min(header.Size, kptpkg.MaxBytes)); header.Size > kptpkg.MaxBytes || size > kptpkg.MaxBytes || len(files) > kptpkg.MaxFiles {
			return nil, fmt.Sprintf("the package has more than %d bytes or %d files", kptpkg.MaxBytes, kptpkg.MaxFiles), nil
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return nil, "its layer is no tar that could be a package: " + err.Error(), nil
		}
		if _, twice := files[file]; twice {
			return nil, file + ": is in the layer twice", nil
		}
		files[file] = string(text)
	}
}

// newImage makes the image of a revision.
func newImage(e *repository.Export) (v1.Image, error) {
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
		return nil, errors.New("an image with annotations is no image")
	}
	return annotated, nil
}

// Export writes revisions as images, and says of each what became of it, in their order. A tag that is there with the same files is done
// already: so Export can be repeated after whatever ended it. Registries have no way to write a tag only if it is not there; two that
// write the same revision write the same bytes.
func (r *Repository) Export(ctx context.Context, exports []repository.Export) ([]repository.Exported, error) {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	results := make([]repository.Exported, len(exports))
	for i := range exports {
		e := &exports[i]
		ref := refOf(e.Package, fmt.Sprintf("v%d", e.Number))
		ref.Workspace, ref.ID = e.Workspace, r.ids[ref.Name]
		results[i].Directory = e.Package
		if ref.ID != "" {
			there, err := r.load(ctx, ref)
			if err != nil {
				return nil, classify(fmt.Errorf("read %s: %w", ref.Name, err))
			}
			if there.Files == nil || there.Files.Digest() != e.Files.Digest() {
				results[i].Conflict = true
				results[i].Problem = fmt.Sprintf("the registry has the tag %s with other content, at %.19s", ref.Name, ref.ID)
				continue
			}
			results[i].Ref = ref
			continue
		}
		if _, err := name.NewRepository(r.host.Name() + "/" + r.prefix + e.Package); err != nil {
			results[i].Problem = "its name cannot be had in a registry: " + err.Error()
			continue
		}
		image, err := newImage(e)
		if err != nil {
			return nil, fmt.Errorf("make the image of %s: %w", ref.Name, err)
		}
		if err := r.pusher.Push(ctx, r.reference(&ref), image); err != nil {
			return nil, classify(fmt.Errorf("write %s: %w", ref.Name, err))
		}
		digest, err := image.Digest()
		if err != nil {
			return nil, err
		}
		ref.ID = digest.String()
		if r.ids == nil {
			r.ids = map[string]string{}
		}
		r.ids[ref.Name], results[i].Ref = ref.ID, ref
	}
	return results, nil
}

// Remove deletes tags, if they still lead where they are said to. It returns no error for those that do not.
func (r *Repository) Remove(ctx context.Context, tags []repository.Ref) error {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	for i := range tags {
		tag := r.reference(&tags[i])
		there, err := r.puller.Head(ctx, tag)
		if status(err) == http.StatusNotFound || (err == nil && there.Digest.String() != tags[i].ID) {
			continue
		}
		if err != nil {
			return classify(fmt.Errorf("ask for %s: %w", tags[i].Name, err))
		}
		err = r.pusher.Delete(ctx, tag)
		if code := status(err); code == http.StatusMethodNotAllowed || code == http.StatusBadRequest { // only by digest, which is this tag's alone
			err = r.pusher.Delete(ctx, tag.Context().Digest(tags[i].ID))
		}
		if err != nil && status(err) != http.StatusNotFound {
			return classify(fmt.Errorf("delete %s: %w", tags[i].Name, err))
		}
		delete(r.ids, tags[i].Name)
	}
	return nil
}
