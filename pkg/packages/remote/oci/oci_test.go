package oci_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	packageremote "github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/oci"
	"github.com/starlinghq/starling/test/testgit"
)

// server is a registry on loopback.
type server struct {
	*httptest.Server
	authorization atomic.Value
	noCatalogue   atomic.Bool
	// digestsOnly makes it refuse the deletion of tags, as the registry of the CNCF's Distribution
	// does. An image is deleted with all its tags.
	digestsOnly atomic.Bool
	// denied is what the paths of denied requests contain; "" denies none.
	denied   atomic.Value
	requests atomic.Int64
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.authorization.Store("")
	s.denied.Store("")
	next := registry.New()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.requests.Add(1)
		switch want := s.authorization.Load(); {
		case want != "" && q.Header.Get("Authorization") != want:
			kind, _, _ := strings.Cut(fmt.Sprint(want), " ")
			w.Header().Set("WWW-Authenticate", kind+` realm="https://token.example"`)
			w.WriteHeader(http.StatusUnauthorized)
		case s.denied.Load() != "" && strings.Contains(q.URL.Path, fmt.Sprint(s.denied.Load())):
			w.WriteHeader(http.StatusForbidden)
		case s.noCatalogue.Load() && q.URL.Path == "/v2/_catalog":
			w.WriteHeader(http.StatusNotFound)
		case s.digestsOnly.Load() && q.Method == http.MethodDelete:
			repository, what, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v2/"), "/manifests/")
			if !strings.HasPrefix(what, "sha256:") {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			for _, tag := range s.tags(t, repository) {
				if s.digest(t, repository+":"+tag) == what {
					request, _ := http.NewRequestWithContext(q.Context(), http.MethodDelete, "/v2/"+repository+"/manifests/"+tag, http.NoBody)
					next.ServeHTTP(httptest.NewRecorder(), request)
				}
			}
			next.ServeHTTP(w, q)
		default:
			next.ServeHTTP(w, q)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// tags returns the tags of a repository, sorted.
func (s *server) tags(t *testing.T, repository string) []string {
	t.Helper()
	tags, err := remote.List(reference(t, s.host()+"/"+repository).Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(tags)
	return tags
}

// digest returns the digest of an image, "" if there is none.
func (s *server) digest(t *testing.T, image string) string {
	t.Helper()
	there, err := remote.Head(reference(t, s.host()+"/"+image))
	if err != nil {
		return ""
	}
	return there.Digest.String()
}

// write writes an image of somebody else.
func (s *server) write(t *testing.T, image string) {
	t.Helper()
	content, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference(t, s.host()+"/"+image), content); err != nil {
		t.Fatal(err)
	}
}

func reference(t *testing.T, image string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(image)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "http://") }

func open(t *testing.T, o oci.Options) (*oci.Repository, *packageremote.Listing) {
	t.Helper()
	o.Limits = packageremote.DefaultLimits()
	r, err := oci.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	listing, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r, listing
}

func exportOf(pkg string, number int, text string) packageremote.Export {
	return packageremote.Export{
		Package: pkg, Workspace: fmt.Sprint("ws", number), Number: number, By: "jane", At: time.Date(2026, 2, 1, 0, 0, number, 0, time.UTC),
		Files: kpt.Files{
			"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: x\n", "config.yaml": "text: " + text + "\n", "a/b.txt": "ü",
		},
	}
}

func load(t *testing.T, r *oci.Repository, listing *packageremote.Listing) []packageremote.Revision {
	t.Helper()
	var all []packageremote.Revision
	err := r.Load(t.Context(), listing.Tags, func(revision packageremote.Revision) error {
		all = append(all, revision)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	s := serve(t)
	o := oci.Options{Registry: s.host() + "/team/packages"}
	r, listing := open(t, o)
	if len(listing.Tags) > 0 || listing.Branch != nil {
		t.Fatalf("an empty registry has %+v", listing)
	}
	exports := []packageremote.Export{exportOf("web", 1, "one"), exportOf("infra/db", 1, "db"), exportOf("web", 2, "two")}
	first, err := r.Export(t.Context(), exports)
	if err != nil {
		t.Fatal(err)
	}
	r, listing = open(t, o)
	var names []string
	for _, tag := range listing.Tags {
		names = append(names, tag.Name)
	}
	if diff := cmp.Diff([]string{"infra/db:v1", "web:v1", "web:v2"}, names); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	revisions := load(t, r, listing)
	if diff := cmp.Diff(exports[0].Files, revisions[1].Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := revisions[1]; got.Package != "web" || got.Workspace != "ws1" || got.Number != 1 || got.By != "jane" || !got.At.Equal(exports[0].At) || got.ID != first[0].Ref.ID {
		t.Errorf("revision %+v", got)
	}

	t.Run("AgainChangesNothing", func(t *testing.T) {
		r, _ := open(t, o)
		again, err := r.Export(t.Context(), exports)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("results (-first +second):\n%s", diff)
		}
	})
	t.Run("TheSameBytesAnywhere", func(t *testing.T) {
		other, _ := open(t, oci.Options{Registry: serve(t).host()})
		results, err := other.Export(t.Context(), exports)
		if err != nil || results[0].Ref.ID != first[0].Ref.ID {
			t.Errorf("%v: %+v, want digest %s", err, results, first[0].Ref.ID)
		}
	})
	t.Run("OtherContentIsAConflict", func(t *testing.T) {
		r, _ := open(t, o)
		results, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 2, "other"), exportOf("web", 3, "three")})
		if err != nil || !results[0].Conflict || results[1].Problem != "" {
			t.Errorf("%v: %+v", err, results)
		}
	})
	t.Run("Remove", func(t *testing.T) {
		r, listing := open(t, o)
		tags := slices.Clone(listing.Tags)
		tags[0].ID = "sha256:" + strings.Repeat("0", 64) // it moved after the List
		if err := r.Remove(t.Context(), tags); err != nil {
			t.Fatal(err)
		}
		if _, listing = open(t, o); len(listing.Tags) != 1 || listing.Tags[0].Name != "infra/db:v1" {
			t.Errorf("left are %+v", listing.Tags)
		}
	})
}

func TestNamedPackages(t *testing.T) {
	s := serve(t)
	r, _ := open(t, oci.Options{Registry: s.host()})
	if _, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 1, "x"), exportOf("db", 1, "x")}); err != nil {
		t.Fatal(err)
	}
	s.noCatalogue.Store(true)
	if _, listing := open(t, oci.Options{Registry: s.host(), Packages: []string{"web", "none"}}); len(listing.Tags) != 1 {
		t.Errorf("tags %+v", listing.Tags)
	}
	r, err := oci.Open(oci.Options{Registry: s.host(), Limits: packageremote.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.List(t.Context()); packageremote.KindOf(err) != packageremote.InvalidSpec || !strings.Contains(err.Error(), "spec.oci.packages") {
		t.Errorf("got %v", err)
	}
}

func TestInvalidImages(t *testing.T) {
	s := serve(t)
	put := func(tag string, image v1.Image, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.NewTag(s.host() + "/" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
	}
	image, err := random.Image(1<<10, 3)
	put("layers:v1", image, err)
	image, err = random.Image(1<<10, 1)
	put("noise:v1", image, err)
	image, err = random.Image(8<<20, 1)
	put("large:v1", image, err)
	r, _ := open(t, oci.Options{Registry: s.host()})
	if _, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 1, "x")}); err != nil {
		t.Fatal(err)
	}
	r, listing := open(t, oci.Options{Registry: s.host()})
	var got []string
	for _, revision := range load(t, r, listing) {
		got = append(got, fmt.Sprintf("%s %t %.40s", revision.Name, revision.Files != nil, revision.Problem))
	}
	want := []string{
		"large:v1 false its layer has 8390144 bytes, but a packag", "layers:v1 false the image has 3 layers, but the image of",
		"noise:v1 false the package has no Kptfile", "web:v1 true ",
	}
	for i := range got { // names in random images are random
		if strings.HasPrefix(got[i], "large:v1 false its layer has") {
			got[i] = want[0]
		}
		if strings.HasPrefix(got[i], "noise:v1 false") {
			got[i] = want[2]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func TestAuthorization(t *testing.T) {
	s := serve(t)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:hunter2"))
	docker := func(host string) map[string][]byte {
		return map[string][]byte{".dockerconfigjson": fmt.Appendf(nil, `{"auths":{"https://%s":{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:hunter2")))}
	}
	for _, key := range []string{"token", "bearerToken"} {
		s.authorization.Store("Bearer hunter2")
		r, err := oci.Open(oci.Options{Registry: s.host(), Secret: map[string][]byte{key: []byte("hunter2")}, Limits: packageremote.DefaultLimits()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.List(t.Context()); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		r.Close()
	}
	for name, tc := range map[string]struct {
		secret map[string][]byte
		kind   packageremote.Kind
	}{
		"None":            {nil, packageremote.Unauthorized},
		"Basic":           {map[string][]byte{"username": []byte("me"), "password": []byte("hunter2")}, ""},
		"Wrong":           {map[string][]byte{"username": []byte("me"), "password": []byte("hunter3")}, packageremote.Unauthorized},
		"Docker":          {docker(s.host()), ""},
		"DockerElsewhere": {docker("other.example"), packageremote.SecretNotFound},
		"DockerBroken":    {map[string][]byte{".dockerconfigjson": []byte("hunter2")}, packageremote.SecretNotFound},
		"CABroken":        {map[string][]byte{"ca.crt": []byte("hunter2")}, packageremote.SecretNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s.authorization.Store(basic)
			r, err := oci.Open(oci.Options{Registry: s.host(), Secret: tc.secret, Limits: packageremote.DefaultLimits()})
			if err == nil {
				defer r.Close()
				_, err = r.List(t.Context())
			}
			if (tc.kind == "") != (err == nil) || (err != nil && (packageremote.KindOf(err) != tc.kind || strings.Contains(err.Error(), "hunter"))) {
				t.Errorf("got %v, want %q", err, tc.kind)
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	s := httptest.NewTLSServer(registry.New())
	defer s.Close()
	for name, tc := range map[string]struct {
		secret map[string][]byte
		want   string // part of the error
	}{
		"None":   {nil, "to the Secret as ca.crt"},
		"Other":  {map[string][]byte{"ca.crt": []byte(testgit.OtherCA(t))}, "the certificate of the server is not trusted"},
		"Right":  {map[string][]byte{"ca.crt": []byte(testgit.CA(s))}, ""},
		"Bundle": {map[string][]byte{"ca.crt": []byte(testgit.OtherCA(t) + testgit.CA(s))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := oci.Open(oci.Options{Registry: strings.TrimPrefix(s.URL, "https://"), Secret: tc.secret, Limits: packageremote.DefaultLimits()})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			_, err = r.List(t.Context())
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				done, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 1, "x")})
				if err != nil || done[0].Problem != "" {
					t.Errorf("%+v, %v", done, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || packageremote.KindOf(err) != packageremote.Unauthorized {
				t.Errorf("got %v (%s), want %q", err, packageremote.KindOf(err), tc.want)
			}
		})
	}
}

func TestUnreadableRegistries(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer broken.Close()
	for name, tc := range map[string]struct {
		registry string
		want     packageremote.Kind
	}{
		"Gone":   {strings.TrimPrefix(gone.URL, "http://"), packageremote.Unreachable},
		"Broken": {strings.TrimPrefix(broken.URL, "http://"), packageremote.Unreachable},
		"NoName": {"", packageremote.InvalidSpec},
	} {
		t.Run(name, func(t *testing.T) {
			limits := packageremote.DefaultLimits()
			limits.Timeout = 300 * time.Millisecond
			r, err := oci.Open(oci.Options{Registry: tc.registry, Limits: limits})
			if err == nil {
				defer r.Close()
				_, err = r.List(t.Context())
			}
			if err == nil || packageremote.KindOf(err) != tc.want {
				t.Errorf("got %v (%s), want %s", err, packageremote.KindOf(err), tc.want)
			}
		})
	}
}

// TestEachPackageFailsAlone: a package that the credentials may not read, and an image that cannot
// be read, do not prevent the import and export of others. Tags that may exist are not written.
func TestEachPackageFailsAlone(t *testing.T) {
	s := serve(t)
	o := oci.Options{Registry: s.host()}
	r, _ := open(t, o)
	if _, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 1, "one"), exportOf("web", 2, "two"), exportOf("secret", 1, "x")}); err != nil {
		t.Fatal(err)
	}
	s.denied.Store("/v2/secret/")
	r, listing := open(t, o)
	if len(listing.Tags) != 2 || len(listing.Unread) != 1 || listing.Unread["secret"] == nil {
		t.Fatalf("tags %+v, unread %v", listing.Tags, listing.Unread)
	}
	done, err := r.Export(t.Context(), []packageremote.Export{exportOf("secret", 1, "other"), exportOf("web", 3, "three")})
	if err != nil || !strings.Contains(done[0].Problem, "tags could not be read") || done[1].Ref.Name != "web:v3" {
		t.Errorf("%+v, %v", done, err)
	}
	s.denied.Store("/v2/web/manifests/" + listing.Tags[0].ID)
	var problems, good []string
	for _, revision := range load(t, r, listing) {
		if revision.Problem != "" && revision.Passing && revision.Files == nil {
			problems = append(problems, revision.Name)
		} else {
			good = append(good, revision.Name)
		}
	}
	if !slices.Equal(problems, []string{"web:v1"}) || !slices.Equal(good, []string{"web:v2"}) {
		t.Errorf("problems %q, good %q", problems, good)
	}
}

// TestTagsOfOthersStay: whatever the catalogue and spec.oci.packages list, no tag of
// somebody else is overwritten, and what was exported is found again.
func TestTagsOfOthersStay(t *testing.T) {
	for name, o := range map[string]oci.Options{
		"Catalogue":   {},
		"Named":       {Packages: []string{"other"}, Exported: []string{"web"}},
		"NamedBefore": {Packages: []string{"other"}}, // web is not exported yet when the tags are listed
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.noCatalogue.Store(len(o.Packages) > 0)
			o.Registry = s.host() + "/team"
			r, listing := open(t, o)
			if !listing.Empty {
				t.Errorf("%+v", listing)
			}
			s.write(t, "team/web:v1") // after the tags were listed
			theirs := s.digest(t, "team/web:v1")
			results, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 1, "one"), exportOf("web", 2, "two")})
			if err != nil || !results[0].Conflict || results[0].Ref.ID != "" || results[1].Problem != "" {
				t.Errorf("%+v, %v", results, err)
			}
			if got := s.digest(t, "team/web:v1"); got != theirs {
				t.Error("the tag was overwritten")
			}
			o.Exported = []string{"web"}
			_, listing = open(t, o)
			if len(listing.Tags) != 2 || listing.Tags[1].ID != results[1].Ref.ID || listing.Empty {
				t.Errorf("%+v", listing)
			}
		})
	}
}

// TestRemoveLeavesOtherTags: a registry may delete images only, each with all its tags.
func TestRemoveLeavesOtherTags(t *testing.T) {
	s := serve(t)
	s.digestsOnly.Store(true)
	o := oci.Options{Registry: s.host() + "/team"}
	r, _ := open(t, o)
	results, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 1, "one"), exportOf("web", 2, "two")})
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(reference(t, s.host()+"/team/web:v1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference(t, s.host()+"/team/web:stable"), image); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), []packageremote.Ref{results[1].Ref}); err != nil {
		t.Error(err)
	}
	if err := r.Remove(t.Context(), []packageremote.Ref{results[0].Ref}); err == nil || !strings.Contains(err.Error(), `tag "stable" has the same image`) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"stable", "v1"}, s.tags(t, "team/web")); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// TestSignaturesAreNoRevisions: tags of cosign, and of referrers, are not listed.
func TestSignaturesAreNoRevisions(t *testing.T) {
	s := serve(t)
	o := oci.Options{Registry: s.host() + "/team"}
	r, _ := open(t, o)
	if _, err := r.Export(t.Context(), []packageremote.Export{exportOf("web", 1, "one")}); err != nil {
		t.Fatal(err)
	}
	digest := strings.Replace(s.digest(t, "team/web:v1"), ":", "-", 1)
	for _, end := range []string{".sig", ".att", ".sbom", ""} {
		s.write(t, "team/web:"+digest+end)
	}
	s.write(t, "team/web:sha256-compatible")
	_, listing := open(t, o)
	var names []string
	for _, tag := range listing.Tags {
		names = append(names, tag.Name)
	}
	if diff := cmp.Diff([]string{"web:sha256-compatible", "web:v1"}, names); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}
