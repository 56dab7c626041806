package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/starlinghq/starling/hack/spdx"
)

var testAbout = about{
	version: "v1.2.3", revision: "abc", source: "https://example.com/starling", created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
}

// programsIn compiles one small program, and puts it under the names of all programs into the
// directories of these architectures.
func programsIn(t *testing.T, dir string, architectures ...string) {
	t.Helper()
	small := filepath.Join(t.TempDir(), "small")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-o", small, "../words")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, arch := range architectures {
		to := filepath.Join(dir, "linux-"+arch)
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if err := os.Link(small, filepath.Join(to, program)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBuild: the same programs give the same images, which are complete and not root's.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	programsIn(t, dir, "amd64", "arm64")
	if err := build(dir, testAbout); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "starling"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	before, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range before.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}

	image, err := index.Image(before.Manifests[1].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" || !config.Created.Equal(testAbout.created) {
		t.Errorf("config %+v", config)
	}
	if diff := cmp.Diff([]string{"/usr/local/bin/starling"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != "v1.2.3" {
		t.Errorf("label of the version is %q", got)
	}
	want := map[string]string{
		"etc": "drwxr-xr-x", "etc/group": "-rw-r--r--", "etc/passwd": "-rw-r--r--", "tmp": "dtrwxrwxrwx", "usr": "drwxr-xr-x",
		"usr/local": "drwxr-xr-x", "usr/local/bin": "drwxr-xr-x", "usr/local/bin/starling": "-rwxr-xr-x",
	}
	if diff := cmp.Diff(want, filesOf(t, image)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	if err := build(dir, testAbout); err != nil {
		t.Fatal(err)
	}
	if index, err = layout.ImageIndexFromPath(filepath.Join(dir, "starling")); err != nil {
		t.Fatal(err)
	}
	after, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("built again (-before +after):\n%s", diff)
	}
}

func filesOf(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	files := map[string]string{}
	content := mutate.Extract(image)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = header.FileInfo().Mode().String()
	}
}

// TestArchive: the archive has all programs, with the names that the charts use by default.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	programsIn(t, dir, runtime.GOARCH)
	if err := build(dir, testAbout); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "starling-"+runtime.GOARCH+".tar")
	for _, program := range programs {
		tag, err := name.NewTag("starling/" + program + ":v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(file, &tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(image); err != nil {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestArchiveOfDirectory: the image has the files of the directory, with their modes.
func TestArchiveOfDirectory(t *testing.T) {
	root, file := t.TempDir(), filepath.Join(t.TempDir(), "image.tar")
	if err := os.Mkdir(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "program"), []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("program", filepath.Join(root, "bin", "other")); err != nil {
		t.Fatal(err)
	}
	cmd := newCommand()
	cmd.SetArgs([]string{"archive", "--name", "example.com/test:v1", "--root", root, "--to", file, "/bin/other", "--flag"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("example.com/test:v1")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"bin": "drwxr-xr-x", "bin/program": "-rwxr-xr-x", "bin/other": "Lrwxrwxrwx"}, filesOf(t, image)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/other", "--flag"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
}

// TestPush pushes to a registry, and reads the images and their modules from it.
func TestPush(t *testing.T) {
	dir := t.TempDir()
	programsIn(t, dir, "amd64")
	if err := build(dir, testAbout); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true)))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	if err := push(dir, host+"/team", "v1.2.3", true); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		ref, err := name.ParseReference(host + "/team/" + program + ":v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		d := documentOf(t, ref.Context().Digest(digest.String()))
		if d.Packages[0].Name != program || d.Packages[0].VersionInfo != "v1.2.3" || len(d.Relationships) != len(d.Packages) {
			t.Errorf("document of %s: %+v", program, d)
		}
	}
}

// documentOf returns the SPDX document that refers to an image.
func documentOf(t *testing.T, image name.Digest) spdx.Document {
	t.Helper()
	referrers, err := remote.Referrers(image)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != string(spdxMediaType) {
		t.Fatalf("referrers of %s: %+v", image, manifest.Manifests)
	}
	artifact, err := remote.Image(image.Context().Digest(manifest.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var d spdx.Document
	if err := json.NewDecoder(content).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestErrors(t *testing.T) {
	empty := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"NothingBuilt": {[]string{"build", "--from", empty}, "no programs in " + empty + "/linux-*: run `make images`"},
		"NoImages":     {[]string{"push", "--from", empty, "--tag", "v1", "registry.example.com"}, "read the image of binding-controller"},
		"NoTag":        {[]string{"push", "--from", empty, "registry.example.com"}, "a tag is required: --tag"},
		"BadRegistry":  {[]string{"push", "--from", empty, "--tag", "v1", "Registry With Spaces"}, "repository can only contain the characters"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand()
			cmd.SetArgs(tc.args)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
