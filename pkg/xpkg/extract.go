package xpkg

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"

	"github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// repository has the images of one package: in a registry, or in a directory. Its errors have a
// kind.
type repository interface {
	tags(ctx context.Context) ([]string, error)
	// resolve returns the digest of a tag.
	resolve(ctx context.Context, tag string) (string, error)
	// manifest and blob return the content of a digest, which the caller verifies.
	manifest(ctx context.Context, digest string) ([]byte, error)
	blob(ctx context.Context, digest string) (io.ReadCloser, error)
}

const (
	maxManifest  = 4 << 20
	maxWhiteouts = 10_000
	maxWindow    = 64 << 20 // of zstd
	// maxOthers bounds the files beside package.yaml in the layer that has the annotation.
	maxOthers = 64 << 20
)

// extract returns the package.yaml of an image, compressed with gzip.
func extract(ctx context.Context, from repository, digest string, limits Limits) ([]byte, error) {
	m, err := readManifest(ctx, from, digest)
	if err != nil {
		return nil, err
	}
	if len(m.Manifests) > 0 {
		child, err := choose(m.Manifests)
		if err != nil {
			return nil, err
		}
		if m, err = readManifest(ctx, from, child); err != nil {
			return nil, err
		}
	}
	if len(m.Layers) == 0 {
		return nil, xpkg.Invalidf("it is not an image with layers")
	}
	layers, left := m.Layers, limits.Unpacked
	slices.Reverse(layers) // upper layers hide the files of lower ones
	if marked := slices.DeleteFunc(slices.Clone(layers), func(l v1.Descriptor) bool { return l.Annotations[annotationLayer] != layerBase }); len(marked) > 0 {
		layers, left = marked, min(left, xpkg.MaxBytes+maxOthers)
		if len(marked) > 1 {
			return nil, xpkg.Invalidf("%d layers have the annotation %s: %s, but only one may", len(marked), annotationLayer, layerBase)
		}
	}
	s := &search{from: from, limit: limits.Layer, left: left}
	for i := range layers {
		packed, err := s.layer(ctx, &layers[i])
		if packed != nil || err != nil {
			return packed, err
		}
	}
	return nil, xpkg.Invalidf("no %s is in its layers", fileName)
}

// manifest is an image or an index of images.
type manifest struct {
	Manifests []v1.Descriptor `json:"manifests"`
	Layers    []v1.Descriptor `json:"layers"`
}

func readManifest(ctx context.Context, from repository, digest string) (*manifest, error) {
	raw, err := from.manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxManifest {
		return nil, xpkg.Invalidf("its manifest has more than %d MiB", maxManifest>>20)
	}
	if sum := sha256.Sum256(raw); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		return nil, errDigest
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, xpkg.Invalidf("its manifest is not valid: %v", err)
	}
	if len(m.Manifests) > 0 && len(m.Layers) > 0 {
		return nil, xpkg.Invalidf("its manifest is both an image and an index")
	}
	return &m, nil
}

// choose returns the digest of the image for linux/amd64, or the first that is for no platform. All
// images of a package have the same package.yaml.
func choose(images []v1.Descriptor) (string, error) {
	for _, fits := range []func(*v1.Platform) bool{
		func(p *v1.Platform) bool { return p != nil && p.OS == "linux" && p.Architecture == "amd64" },
		func(p *v1.Platform) bool { return p == nil || p.OS == "" && p.Architecture == "" },
	} {
		for i := range images {
			if fits(images[i].Platform) && xpkg.IsDigest(images[i].Digest.String()) {
				return images[i].Digest.String(), nil
			}
		}
	}
	return "", xpkg.Invalidf("its index has no image for linux/amd64")
}

// search looks for package.yaml, in upper layers first.
type search struct {
	from   repository
	limit  int64    // of the size of a layer
	left   int64    // bytes that may still be unpacked
	hidden []string // paths that upper layers hide
}

// layer returns package.yaml, compressed with gzip; nil if the layer does not have it.
func (s *search) layer(ctx context.Context, l *v1.Descriptor) ([]byte, error) {
	switch {
	case !l.MediaType.IsLayer() || !l.MediaType.IsDistributable():
		return nil, xpkg.Invalidf("its layer has the media type %q, which is not that of a layer", l.MediaType)
	case !xpkg.IsDigest(l.Digest.String()):
		return nil, xpkg.Invalidf("the digest of its layer is not of the form sha256: and 64 hexadecimal digits")
	case l.Size > s.limit:
		return nil, xpkg.Invalidf("its layer has %d MiB, but the limit is %d", l.Size>>20, s.limit>>20)
	}
	content, err := s.from.blob(ctx, l.Digest.String())
	if err != nil {
		return nil, err
	}
	defer content.Close()
	source := &verified{reader: content, sum: sha256.New(), left: l.Size, want: l.Digest.Hex}
	packed, err := s.find(source)
	if err == nil || source.err == nil {
		// What is found counts only if all of the layer is what its digest says.
		if _, failed := io.Copy(io.Discard, source); failed != nil {
			err = failed
		}
	}
	if source.err != nil && !errors.Is(source.err, io.EOF) {
		return nil, source.err // and not what the damaged content looks like
	}
	if err != nil && !xpkg.IsInvalid(err) {
		err = xpkg.Invalidf("its layer is not a valid archive: %v", err)
	}
	return packed, err
}

// find reads a layer up to package.yaml.
func (s *search) find(source io.Reader) ([]byte, error) {
	unpacked, closer, err := decompress(source)
	if err != nil {
		return nil, err
	}
	defer closer()
	archive := tar.NewReader(&budget{unpacked, &s.left})
	var hides []string
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			s.hidden = append(s.hidden, hides...)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		file := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		directory, base := path.Split(file)
		switch {
		case base == ".wh..wh..opq":
			hides = append(hides, strings.TrimSuffix(directory, "/"))
		case strings.HasPrefix(base, ".wh."):
			hides = append(hides, directory+strings.TrimPrefix(base, ".wh."))
		case base == fileName && header.Typeflag == tar.TypeReg && !s.hides(file):
			if header.Size > xpkg.MaxBytes {
				return nil, xpkg.Invalidf("%s has %d MiB, but the limit is %d", fileName, header.Size>>20, xpkg.MaxBytes>>20)
			}
			return pack(archive)
		}
		if len(s.hidden)+len(hides) > maxWhiteouts {
			return nil, xpkg.Invalidf("its layers hide more than %d files", maxWhiteouts)
		}
	}
}

// hides reports whether an upper layer hides a file.
func (s *search) hides(file string) bool {
	return slices.ContainsFunc(s.hidden, func(path string) bool {
		return path == "" || file == path || strings.HasPrefix(file, path+"/")
	})
}

// pack returns the content of a package.yaml, compressed, and with its documents as JSON: it is
// parsed several times.
func pack(content io.Reader) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := xpkg.Compact(zip, content); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// decompress returns the content of a layer, which may be compressed with gzip or zstd.
func decompress(source io.Reader) (unpacked io.Reader, closer func(), err error) {
	buffered := bufio.NewReaderSize(source, 64<<10)
	magic, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		reader, err := gzip.NewReader(buffered)
		return reader, func() {}, err
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		reader, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return reader, reader.Close, nil
	}
	return buffered, func() {}, nil
}

// budget bounds what is unpacked.
type budget struct {
	io.Reader
	left *int64
}

func (b *budget) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		return 0, xpkg.Invalidf("its layers are too large when they are unpacked")
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	return n, err
}

// errDigest is returned if a registry or a directory has other content than a digest says.
var errDigest = remote.Errorf(remote.Other, "the content is not what its digest says: it is damaged, or the registry is faulty")

// verified reads content, and fails at its end if it does not have a size and a digest.
type verified struct {
	reader io.Reader
	sum    hash.Hash
	left   int64
	want   string
	err    error // that ended it
}

func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.reader.Read(p)
	v.sum.Write(p[:n])
	v.left -= int64(n)
	switch {
	case v.left < 0, errors.Is(err, io.EOF) && (v.left > 0 || hex.EncodeToString(v.sum.Sum(nil)) != v.want):
		n, v.err = 0, errDigest
	case errors.Is(err, io.EOF):
		v.err = io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		v.err = remote.Errorf(remote.Unreachable, "the connection ended inside a layer")
	case err != nil:
		v.err = fmt.Errorf("read a layer: %w", err)
	}
	return n, v.err
}
