package kindtest

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// version returns the tag of the images in an archive.
func version(t *testing.T, archive string) string {
	t.Helper()
	return tags(t, archive)[0].TagStr()
}

// retag writes an archive with the same images under another tag.
func retag(t *testing.T, archive, tag string) string {
	t.Helper()
	images := map[name.Tag]v1.Image{}
	for _, old := range tags(t, archive) {
		image, err := tarball.ImageFromPath(archive, &old)
		if err != nil {
			t.Fatal(err)
		}
		images[old.Context().Tag(tag)] = image
	}
	file := filepath.Join(t.TempDir(), "images.tar")
	if err := tarball.MultiWriteToFile(file, images); err != nil {
		t.Fatal(err)
	}
	return file
}

// tags returns the names of the images in an archive. There is at least one.
func tags(t *testing.T, archive string) []name.Tag {
	t.Helper()
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
	if err != nil {
		t.Fatal(err)
	}
	var all []name.Tag
	for _, image := range manifest {
		for _, text := range image.RepoTags {
			tag, err := name.NewTag(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tag)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no image with a tag", archive)
	}
	return all
}
