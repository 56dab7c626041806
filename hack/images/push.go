package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// spdxMediaType is also the media type of the artifact's configuration: registries take the type of
// an artifact from it.
const spdxMediaType types.MediaType = "application/spdx+json"

// push pushes the images of all programs as REGISTRY/PROGRAM:TAG, and the modules of each as an
// artifact that refers to its image.
func push(dir, registry, tag string, insecure bool, options ...remote.Option) error {
	var naming []name.Option
	if insecure {
		naming = append(naming, name.Insecure)
	}
	for _, program := range programs {
		to, err := name.NewTag(registry+"/"+program+":"+tag, naming...)
		if err != nil {
			return err
		}
		index, err := layout.ImageIndexFromPath(filepath.Join(dir, program))
		if err != nil {
			return fmt.Errorf("read the image of %s: %w. Run `make images`", program, err)
		}
		if err := remote.WriteIndex(to, index, options...); err != nil {
			return fmt.Errorf("push %s: %w", to, err)
		}
		if err := pushModules(dir, program, to.Context(), index, options...); err != nil {
			return fmt.Errorf("push the modules of %s: %w", to, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", to, digest)
	}
	return nil
}

func pushModules(dir, program string, to name.Repository, images v1.ImageIndex, options ...remote.Option) error {
	manifest, err := images.IndexManifest()
	if err != nil {
		return err
	}
	for _, subject := range manifest.Manifests {
		raw, err := os.ReadFile(filepath.Join(dir, program+"-"+subject.Platform.Architecture+".spdx.json"))
		if err != nil {
			return err
		}
		artifact, err := newArtifact(raw, subject)
		if err != nil {
			return err
		}
		digest, err := artifact.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(to.Digest(digest.String()), artifact, options...); err != nil {
			return err
		}
	}
	return nil
}

// newArtifact returns an artifact with an SPDX document about an image.
func newArtifact(document []byte, about v1.Descriptor) (v1.Image, error) {
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdxMediaType)
	artifact, err := mutate.AppendLayers(artifact, static.NewLayer(document, spdxMediaType))
	if err != nil {
		return nil, err
	}
	about.Platform = nil
	image, ok := mutate.Subject(artifact, about).(v1.Image) // it is one if it is given one
	if !ok {
		return nil, fmt.Errorf("an artifact about %s is no image", about.Digest)
	}
	return image, nil
}
