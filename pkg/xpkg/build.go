package xpkg

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/xpkg"
)

const (
	// annotationLayer marks the layers of a package: its value is layerBase for the one with
	// package.yaml. A label of the image's configuration with this name, a colon and the digest of
	// a layer says the same: files with an image have no annotations.
	annotationLayer = "io.crossplane.xpkg"
	layerBase       = "base"

	fileName = "package.yaml"

	// Extension is the end of the names of files with a package.
	Extension = ".xpkg"
)

// Format returns the package.yaml of a package: the inverse of Parse.
func Format(p *xpkg.Package) ([]byte, error) {
	spec := map[string]any{}
	if p.Crossplane != "" {
		spec["crossplane"] = map[string]any{"version": p.Crossplane}
	}
	if len(p.Dependencies) > 0 {
		var dependencies []any
		for _, d := range p.Dependencies {
			dependencies = append(dependencies, map[string]any{"apiVersion": d.APIVersion, "kind": d.Kind, "package": d.Source, "version": d.Constraint})
		}
		spec["dependsOn"] = dependencies
	}
	if len(p.Capabilities) > 0 {
		spec["capabilities"] = p.Capabilities
	}
	metadata := map[string]any{"name": p.Name}
	if len(p.Labels) > 0 {
		metadata["labels"] = p.Labels
	}
	if len(p.Annotations) > 0 {
		metadata["annotations"] = p.Annotations
	}
	objects := []any{map[string]any{"apiVersion": p.APIVersion, "kind": p.Kind, "metadata": metadata, "spec": spec}}
	for _, o := range p.Objects {
		objects = append(objects, o.Object)
	}
	var content bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		content.WriteString("---\n")
		content.Write(text)
	}
	return content.Bytes(), nil
}

// Build returns the image of a package.yaml. The same content always has the same digest. The
// content is not checked.
func Build(content []byte) (v1.Image, error) {
	layer, err := Layer(map[string][]byte{fileName: content})
	if err != nil {
		return nil, err
	}
	digest, err := layer.Digest()
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, Annotations: map[string]string{annotationLayer: layerBase}})
	if err != nil {
		return nil, err
	}
	return mutate.Config(image, v1.Config{Labels: map[string]string{annotationLayer + ":" + digest.String(): layerBase}})
}

// Layer returns a layer with files.
func Layer(files map[string][]byte) (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, file := range sortedKeys(files) {
		// No times and owners, so that equal files are equal bytes.
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file, Size: int64(len(files[file])), Mode: 0o644, Format: tar.FormatPAX}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(files[file]); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// Write writes an image as the content of a file, as Crossplane's tools read it.
func Write(w io.Writer, image v1.Image) error {
	tag, err := name.NewTag("package.invalid/package:latest") // a file has a name; nobody reads it
	if err != nil {
		return err
	}
	return tarball.Write(tag, image, w)
}

// annotate returns the image of a file, with the annotations that its labels say. It is what
// Crossplane's tools push.
func annotate(image v1.Image) (v1.Image, error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	additions := make([]mutate.Addendum, 0, len(layers))
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		addition := mutate.Addendum{Layer: layer}
		if value, ok := config.Config.Labels[annotationLayer+":"+digest.String()]; ok {
			addition.Annotations = map[string]string{annotationLayer: value}
		}
		additions = append(additions, addition)
	}
	annotated, err := mutate.Append(empty.Image, additions...)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(annotated, config)
}

// ReadFile returns the image in a file that Write, or Crossplane's tools, wrote. The image reads
// the file when it is used.
func ReadFile(open func() (io.ReadCloser, error)) (v1.Image, error) {
	image, err := tarball.Image(open, nil)
	if err != nil {
		return nil, fmt.Errorf("it is not a file with one image: %w", err)
	}
	annotated, err := annotate(image)
	if err != nil {
		return nil, errors.Join(errors.New("it is not a file with one image"), err)
	}
	return annotated, nil
}
