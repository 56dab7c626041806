package xpkg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

// directory has packages in files. The packages of the repository host/path are in its
// subdirectory host/path: as files <tag>.xpkg, or as an OCI image layout, or both. A nil directory
// has no packages.
type directory struct {
	root *os.Root

	mu sync.Mutex
	// images are the files with images, by path.
	images map[string]fileImage
}

// fileImage is an image in a file, as of a size and a time.
type fileImage struct {
	size   int64
	at     time.Time
	image  v1.Image
	digest string
}

const (
	layoutFile  = "oci-layout"
	layoutIndex = "index.json"
	// annotationName has the tag of an image in the index of a layout.
	annotationName = "org.opencontainers.image.ref.name"
)

func openDirectory(name string) (*directory, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open the package directory: %w", err)
	}
	return &directory{root: root, images: map[string]fileImage{}}, nil
}

// has reports whether a repository is in the directory.
func (d *directory) has(source string) bool {
	if d == nil || !fs.ValidPath(source) {
		return false
	}
	entries, err := fs.ReadDir(d.root.FS(), source)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == layoutFile || strings.HasSuffix(e.Name(), Extension)
	})
}

// directoryRepository is a repository in a directory.
type directoryRepository struct {
	*directory
	source string
}

// wrap returns an error of the file system with its kind.
func wrap(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return remote.Errorf(remote.NotFound, "the package directory does not have it: %w", err)
	}
	return remote.Errorf(remote.Other, "the package directory is not readable: %w", err)
}

func (d *directoryRepository) tags(context.Context) ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), d.source)
	if err != nil {
		return nil, wrap(err)
	}
	tags := []string{}
	for _, entry := range entries {
		if tag, ok := strings.CutSuffix(entry.Name(), Extension); ok {
			tags = append(tags, tag)
		}
	}
	listed, err := d.listed()
	if err != nil {
		return nil, err
	}
	tags = append(tags, sortedKeys(listed)...)
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// listed returns the digests of the tags in the layout, if there is one.
func (d *directoryRepository) listed() (map[string]string, error) {
	content, err := d.root.ReadFile(path.Join(d.source, layoutIndex))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap(err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(content, &index); err != nil {
		return nil, wrap(fmt.Errorf("%s/%s: %w", d.source, layoutIndex, err))
	}
	tags := map[string]string{}
	for i := range index.Manifests {
		name := index.Manifests[i].Annotations[annotationName]
		if tag, ok := strings.CutPrefix(name, d.source+":"); ok {
			name = tag // some tools write the whole reference
		}
		if name != "" {
			tags[name] = index.Manifests[i].Digest.String()
		}
	}
	return tags, nil
}

func (d *directoryRepository) resolve(_ context.Context, tag string) (string, error) {
	image, err := d.file(tag + Extension)
	if err == nil {
		return image.digest, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", wrap(err)
	}
	listed, err := d.listed()
	if err != nil {
		return "", err
	}
	digest, ok := listed[tag]
	if !ok {
		return "", remote.Errorf(remote.NotFound, "the package directory has the repository, but not the tag %q", tag)
	}
	return digest, nil
}

func (d *directoryRepository) manifest(_ context.Context, digest string) ([]byte, error) {
	content, err := d.open(digest)
	if err == nil {
		defer content.Close()
		raw, err := io.ReadAll(io.LimitReader(content, maxManifest+1))
		if err != nil {
			return nil, wrap(err)
		}
		return raw, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, wrap(err)
	}
	image, err := d.find(func(image fileImage) bool { return image.digest == digest })
	if err != nil {
		return nil, err
	}
	raw, err := image.RawManifest()
	if err != nil {
		return nil, wrap(err)
	}
	return raw, nil
}

func (d *directoryRepository) blob(_ context.Context, digest string) (io.ReadCloser, error) {
	content, err := d.open(digest)
	if err == nil {
		return content, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, wrap(err)
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		return nil, wrap(err)
	}
	image, err := d.find(func(image fileImage) bool {
		_, err := image.image.LayerByDigest(hash)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	layer, err := image.LayerByDigest(hash)
	if err != nil {
		return nil, wrap(err)
	}
	blob, err := layer.Compressed()
	if err != nil {
		return nil, wrap(err)
	}
	return blob, nil
}

// open opens the file with a digest in the layout.
func (d *directoryRepository) open(digest string) (*os.File, error) {
	return d.root.Open(path.Join(d.source, "blobs", strings.ReplaceAll(digest, ":", "/")))
}

// find returns an image in a file.
func (d *directoryRepository) find(wanted func(fileImage) bool) (v1.Image, error) {
	entries, err := fs.ReadDir(d.root.FS(), d.source)
	if err != nil {
		return nil, wrap(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), Extension) {
			continue
		}
		image, err := d.file(entry.Name())
		if err != nil {
			return nil, wrap(err)
		}
		if wanted(image) {
			return image.image, nil
		}
	}
	return nil, remote.Errorf(remote.NotFound, "the package directory has the repository, but not this digest")
}

// file returns the image in a file. It reads the file if it has changed.
func (d *directoryRepository) file(name string) (fileImage, error) {
	name = path.Join(d.source, name)
	info, err := d.root.Stat(name)
	if err != nil {
		return fileImage{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.images[name]; ok && known.size == info.Size() && known.at.Equal(info.ModTime()) {
		return known, nil
	}
	image, err := ReadFile(func() (io.ReadCloser, error) { return d.root.Open(name) })
	if err != nil {
		return fileImage{}, fmt.Errorf("%s: %w", name, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return fileImage{}, fmt.Errorf("%s: %w", name, err)
	}
	read := fileImage{info.Size(), info.ModTime(), image, digest.String()}
	d.images[name] = read
	return read, nil
}
