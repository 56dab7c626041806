package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	packageremote "github.com/starlinghq/starling/pkg/packages/remote"
	guarded "github.com/starlinghq/starling/pkg/packages/remote/registry"
	"github.com/starlinghq/starling/test/golden"
)

// layerOf returns a layer with these files. A file whose name begins with "link" is a link.
func layerOf(t *testing.T, files ...string) v1.Layer {
	t.Helper()
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file, Mode: 0o644}
		if strings.HasPrefix(file, "link") {
			header.Typeflag, header.Linkname = tar.TypeSymlink, "x"
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return static.NewLayer(packed.Bytes(), types.OCIUncompressedLayer)
}

// TestTexts has errors in the specs of Repositories, of registries, and of images.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	add := func(heading string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", heading)
			return
		}
		texts = append(texts, golden.Text{Heading: fmt.Sprintf("%s: %s", packageremote.KindOf(err), heading), Text: err.Error()})
	}
	problem := func(heading, text string) {
		t.Helper()
		if text == "" {
			t.Errorf("%s: no problem", heading)
		}
		texts = append(texts, golden.Text{Heading: heading, Text: text})
	}

	_, err := Open(Options{Registry: "registry.example:x/team"})
	add("spec.oci.registry", err)
	_, err = authenticator(map[string][]byte{guarded.KeyDockerConfig: []byte("x")}, "registry.example")
	add("Secret whose "+guarded.KeyDockerConfig+" is not JSON", err)
	_, err = authenticator(map[string][]byte{guarded.KeyDockerConfig: []byte(`{"auths": {"other.example": {}}}`)}, "registry.example")
	add("Secret whose "+guarded.KeyDockerConfig+" has no such host", err)
	_, err = Open(Options{Registry: "registry.example", Secret: map[string][]byte{packageremote.KeyCA: []byte("x")}})
	add("Secret with an invalid "+packageremote.KeyCA, err)
	add("plain HTTP", classify(guarded.ErrPlainHTTP))
	for _, code := range []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusTooManyRequests} {
		add(fmt.Sprint("status ", code), classify(fmt.Errorf("list tags of package %q: %w", "web", &transport.Error{StatusCode: code})))
	}
	large, err := (&guarded.Guard{Next: zeros{}, Host: "registry.example", Documents: 1 << 20}).RoundTrip(httptest.NewRequest(http.MethodGet, "https://registry.example/v2/", http.NoBody))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Body.Close()
	_, err = io.ReadAll(large.Body)
	add("a large response", err)

	catalogue := true
	next := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !catalogue && q.URL.Path == "/v2/_catalog" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	list := func(change func(*Options)) (*Repository, *packageremote.Listing, error) {
		o := Options{Registry: host, Limits: packageremote.DefaultLimits()}
		change(&o)
		r, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		listing, err := r.List(t.Context())
		return r, listing, err
	}
	tar := layerOf(t, "Kptfile")
	for i, bad := range []struct {
		heading string
		layers  []v1.Layer
	}{
		{"an image with two layers", []v1.Layer{tar, layerOf(t, "a.yaml")}},
		{"an image without a Kptfile", []v1.Layer{layerOf(t, "a.yaml")}},
		{"a large layer", []v1.Layer{static.NewLayer(make([]byte, kpt.MaxBytes+1), types.OCIUncompressedLayer)}},
		{"a layer that is no archive", []v1.Layer{static.NewLayer([]byte(strings.Repeat("x", 1024)), types.OCIUncompressedLayer)}},
		{"a link", []v1.Layer{layerOf(t, "link.yaml")}},
		{"a file twice", []v1.Layer{layerOf(t, "a.yaml", "a.yaml")}},
	} {
		image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), bad.layers...)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag(fmt.Sprintf("%s/bad%d:v1", host, i))
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, image); err != nil {
			t.Fatal(err)
		}
		r, listing, err := list(func(o *Options) { o.Packages = []string{fmt.Sprint("bad", i)} })
		if err != nil {
			t.Fatal(err)
		}
		revision, err := r.load(t.Context(), listing.Tags[0])
		if err != nil {
			t.Fatal(err)
		}
		problem(bad.heading, revision.Problem)
	}
	tag, err := name.NewTag(host + "/index:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, empty.Index); err != nil {
		t.Fatal(err)
	}
	r, listing, err := list(func(o *Options) { o.Packages = []string{"index"} })
	if err != nil {
		t.Fatal(err)
	}
	revision, err := r.load(t.Context(), listing.Tags[0])
	if err != nil {
		t.Fatal(err)
	}
	problem("an index of images", revision.Problem)

	_, _, err = list(func(o *Options) { o.Packages = []string{"Web"} })
	add("spec.oci.packages", err)
	_, _, err = list(func(o *Options) { o.Limits.Packages = 1 })
	add("too many packages", err)
	_, _, err = list(func(o *Options) { o.Packages, o.Limits.Refs = []string{"index"}, 0 })
	add("too many tags", err)
	catalogue = false
	_, _, err = list(func(*Options) {})
	add("no catalogue", err)

	r, _, err = list(func(o *Options) { o.Packages = []string{"bad0"} })
	if err != nil {
		t.Fatal(err)
	}
	files := kpt.Files{"Kptfile": "x"}
	results, err := r.Export(t.Context(), []packageremote.Export{
		{Package: "Web", Number: 1, At: time.Unix(0, 0), Files: files}, {Package: "bad0", Number: 1, At: time.Unix(0, 0), Files: files},
	})
	if err != nil {
		t.Fatal(err)
	}
	problem("a name that registries do not accept", results[0].Problem)
	problem("a tag that exists", results[1].Problem)
	golden.Texts(t, texts...)
}

// zeros is a server that sends more than 1 MiB.
type zeros struct{}

func (zeros) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: io.NopCloser(bytes.NewReader(make([]byte, 1<<20+1)))}, nil
}
