package kindtest

import (
	"io"
	"os"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

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
