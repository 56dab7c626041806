package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/starlinghq/starling/hack/tarfile"
)

// about describes what the programs are built from.
type about struct {
	version, revision, source string
	created                   time.Time
}

const (
	// user is the user and group of the programs. Kubernetes can verify that a number is not root.
	user = 65532
	// binaries is the directory of a program in its image.
	binaries = "/usr/local/bin"
)

// newImage returns an image with one program, which runs as a user who is not root. The file system
// has nothing else but the names of the users, and an empty /tmp.
func newImage(program, arch, file string, a about) (v1.Image, error) {
	if err := checkStatic(file); err != nil {
		return nil, err
	}
	base, err := layerOf(func(w *tar.Writer) error { return writeBase(w, a.created) })
	if err != nil {
		return nil, err
	}
	content, err := layerOf(func(w *tar.Writer) error {
		return tarfile.Copy(w, file, path.Join(binaries, program)[1:], 0o755, a.created)
	})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: a.created}
	history := func(what string) v1.History { return v1.History{Created: created, CreatedBy: what} }
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: base, History: history("users and /tmp"), MediaType: types.OCILayer},
		mutate.Addendum{Layer: content, History: history(program), MediaType: types.OCILayer},
	)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{path.Join(binaries, program)},
		WorkingDir: "/tmp",
		Env:        []string{"PATH=" + binaries, "HOME=/tmp"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    program,
			"org.opencontainers.image.version":  a.version,
			"org.opencontainers.image.revision": a.revision,
			"org.opencontainers.image.source":   a.source,
			"org.opencontainers.image.created":  a.created.Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// platformImage is an image and its architecture.
type platformImage struct {
	arch  string
	image v1.Image
}

// newIndex returns an index of the images of one program.
func newIndex(images []platformImage) v1.ImageIndex {
	all := make([]mutate.IndexAddendum, len(images))
	for i, p := range images {
		all[i] = mutate.IndexAddendum{
			Add:        p.image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.arch}},
		}
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), all...)
}

// archive has images of one architecture, by their programs.
type archive map[string]v1.Image

// write writes an archive that `docker load` and containerd import. The images have the names
// starling/PROGRAM:VERSION.
func (a archive) write(file, version string) error {
	images := map[name.Tag]v1.Image{}
	for program, image := range a {
		tag, err := name.NewTag("starling/" + program + ":" + version)
		if err != nil {
			return err
		}
		images[tag] = image
	}
	return tarball.MultiWriteToFile(file, images)
}

// checkStatic returns an error if the program needs shared libraries, which images do not have.
func checkStatic(file string) error {
	program, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer program.Close()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("it is not static: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// layerOf returns a layer with what write writes. It is called each time that the layer is read.
func layerOf(write func(*tar.Writer) error) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() {
			archive := tar.NewWriter(writer)
			err := write(archive)
			if err == nil {
				err = archive.Close()
			}
			writer.CloseWithError(err)
		}()
		return reader, nil
	}, tarball.WithMediaType(types.OCILayer))
}

func writeBase(w *tar.Writer, created time.Time) error {
	const users = "root:x:0:0:root:/root:/sbin/nologin\nstarling:x:65532:65532:starling:/tmp:/sbin/nologin\n"
	const groups = "root:x:0:\nstarling:x:65532:\n"
	for _, directory := range []struct {
		name string
		mode int64
	}{{"etc/", 0o755}, {"tmp/", 0o1777}, {"usr/", 0o755}, {"usr/local/", 0o755}, {"usr/local/bin/", 0o755}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: directory.name, Mode: directory.mode, ModTime: created}); err != nil {
			return err
		}
	}
	for _, file := range []struct{ name, content string }{{"etc/group", groups}, {"etc/passwd", users}} {
		if err := tarfile.Write(w, file.name, 0o644, int64(len(file.content)), bytes.NewReader([]byte(file.content)), created); err != nil {
			return err
		}
	}
	return nil
}
