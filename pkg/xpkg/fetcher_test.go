package xpkg_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/xpkg"
	"github.com/starlinghq/starling/test/testxpkg"
)

func serve(t testing.TB) *testxpkg.Registry {
	t.Helper()
	r, err := testxpkg.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func newFetcher(t testing.TB, change ...func(*xpkg.Options)) *xpkg.Fetcher {
	t.Helper()
	o := xpkg.Options{Cache: t.TempDir(), CacheBytes: 1 << 30, Limits: xpkg.DefaultLimits(), Clock: clock.RealClock{}}
	for _, change := range change {
		change(&o)
	}
	f, err := xpkg.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// provider is a small package.
func provider(name string) *core.Package {
	return testxpkg.Requires(testxpkg.Provider(name, testxpkg.CRD(name+".example.org", "Bucket", "region")), pkgv1.KindFunction, "registry.example/org/function", ">=v1.0.0")
}

func push(t testing.TB, r *testxpkg.Registry, path, tag string, pkg *core.Package) string {
	t.Helper()
	digest, err := r.PushPackage(t.Context(), path, tag, pkg)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestFetch(t *testing.T) {
	r := serve(t)
	want := provider("s3")
	digest := push(t, r, "org/s3", "v1.0.0", want)
	push(t, r, "org/s3", "v1.1.0", provider("s3-next"))
	f := newFetcher(t)
	source := r.Source("org/s3")

	tags, err := f.Tags(t.Context(), source, xpkg.Access{})
	if diff := cmp.Diff([]string{"v1.0.0", "v1.1.0"}, tags); diff != "" || err != nil {
		t.Errorf("%v, tags (-want +got):\n%s", err, diff)
	}
	got, err := f.Resolve(t.Context(), core.Reference{Source: source, Tag: "v1.0.0"}, xpkg.Access{})
	if err != nil || got != digest {
		t.Fatalf("digest %q, %v, want %q", got, err, digest)
	}
	pkg, err := f.Get(t.Context(), source, digest, xpkg.Access{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, pkg); diff != "" {
		t.Errorf("package (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"ping": 1, "tags": 1, "head": 1, "manifest": 1, "blob": 1}, r.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	t.Run("FromTheCache", func(t *testing.T) {
		for _, policy := range []pkgv1.PullPolicy{pkgv1.PullIfNotPresent, pkgv1.PullAlways, pkgv1.PullNever} {
			again, err := f.Get(t.Context(), source, digest, xpkg.Access{Policy: policy})
			if diff := cmp.Diff(want, again); diff != "" || err != nil {
				t.Errorf("%s: %v, package (-want +got):\n%s", policy, err, diff)
			}
		}
		meta, err := f.Meta(t.Context(), source, digest, xpkg.Access{})
		if err != nil || meta.Name != "s3" {
			t.Errorf("%+v, %v", meta, err)
		}
		if n := r.Requests(); len(n) > 0 {
			t.Errorf("requests %v", n)
		}
	})
	t.Run("DigestIsNotResolved", func(t *testing.T) {
		got, err := f.Resolve(t.Context(), core.Reference{Source: "registry.example/none", Tag: "v1", Digest: digest}, xpkg.Access{})
		if err != nil || got != digest {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("WithoutACache", func(t *testing.T) {
		f := newFetcher(t, func(o *xpkg.Options) { o.Cache = "" })
		for range 2 {
			if _, err := f.Get(t.Context(), source, digest, xpkg.Access{}); err != nil {
				t.Error(err)
			}
		}
		if n := r.Requests(); n["manifest"] != 2 {
			t.Errorf("requests %v", n)
		}
	})
}

func TestKindsOfErrors(t *testing.T) {
	r := serve(t)
	digest := push(t, r, "org/s3", "v1.0.0", provider("s3"))
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	none := "sha256:" + strings.Repeat("0", 64)
	for name, tc := range map[string]struct {
		source, tag, digest string
		status              int
		path                string
		delay               time.Duration
		hosts               remote.Hosts
		policy              pkgv1.PullPolicy
		password            bool
		secret              []byte
		want                remote.Kind
	}{
		"NoRepository":     {source: r.Source("org/none"), want: remote.NotFound},
		"NoTag":            {source: r.Source("org/s3"), tag: "v9", want: remote.NotFound},
		"NoDigest":         {source: r.Source("org/s3"), digest: none, want: remote.NotFound},
		"Broken":           {source: r.Source("org/s3"), status: http.StatusBadGateway, want: remote.Unreachable},
		"BrokenTag":        {source: r.Source("org/s3"), tag: "v1.0.0", status: http.StatusServiceUnavailable, path: "manifests", want: remote.Unreachable},
		"TooMany":          {source: r.Source("org/s3"), tag: "v1.0.0", status: http.StatusTooManyRequests, path: "manifests", want: remote.Unreachable},
		"Slow":             {source: r.Source("org/s3"), delay: time.Minute, want: remote.Unreachable},
		"Closed":           {source: strings.TrimPrefix(closed.URL, "http://") + "/org/s3", want: remote.Unreachable},
		"NoRegistry":       {source: strings.TrimPrefix(other.URL, "http://") + "/org/s3", want: remote.Unreachable},
		"NoLayer":          {source: r.Source("org/s3"), digest: digest, status: http.StatusNotFound, path: "/blobs/", want: remote.Other},
		"Forbidden":        {source: r.Source("org/s3"), status: http.StatusForbidden, path: "/tags/", want: remote.Unauthorized},
		"NoPassword":       {source: r.Source("org/s3"), password: true, want: remote.Unauthorized},
		"WrongPassword":    {source: r.Source("org/s3"), password: true, secret: r.PullSecret("me", "hunter3"), want: remote.Unauthorized},
		"SecretOfAnother":  {source: r.Source("org/s3"), password: true, secret: []byte(`{"auths":{"ghcr.io":{"username":"me","password":"hunter2"}}}`), want: remote.Unauthorized},
		"InvalidSecret":    {source: r.Source("org/s3"), secret: []byte("hunter2"), want: remote.SecretNotFound},
		"NotAllowed":       {source: r.Source("org/s3"), hosts: remote.Hosts{"registry.example"}, want: remote.InvalidSpec},
		"NeverTags":        {source: r.Source("org/s3"), policy: pkgv1.PullNever, want: remote.NotFound},
		"NeverTag":         {source: r.Source("org/s3"), tag: "v1.0.0", policy: pkgv1.PullNever, want: remote.NotFound},
		"Never":            {source: r.Source("org/s3"), digest: digest, policy: pkgv1.PullNever, want: remote.NotFound},
		"NotADigest":       {source: r.Source("org/s3"), digest: "v1", want: remote.InvalidSpec},
		"RightPassword":    {source: r.Source("org/s3"), password: true, secret: r.PullSecret("me", "hunter2")},
		"RightPasswordTag": {source: r.Source("org/s3"), tag: "v1.0.0", password: true, secret: r.PullSecret("me", "hunter2")},
		"Password":         {source: r.Source("org/s3"), digest: digest, password: true, secret: r.PullSecret("me", "hunter2")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFetcher(t, func(o *xpkg.Options) {
				o.Hosts = tc.hosts
				if tc.want == remote.Unreachable {
					o.Limits.Timeout = 300 * time.Millisecond
				}
			})
			r.Fail(tc.status, tc.path)
			r.Delay(tc.delay)
			if tc.password {
				r.RequirePassword("me", "hunter2")
			}
			defer func() {
				r.Fail(0, "")
				r.Delay(0)
				r.RequirePassword("", "")
			}()
			access := xpkg.Access{Policy: tc.policy}
			if tc.secret != nil {
				access.PullSecrets = [][]byte{tc.secret}
			}
			var err error
			switch {
			case tc.tag != "":
				_, err = f.Resolve(t.Context(), core.Reference{Source: tc.source, Tag: tc.tag}, access)
			case tc.digest != "":
				_, err = f.Get(t.Context(), tc.source, tc.digest, access)
			default:
				_, err = f.Tags(t.Context(), tc.source, access)
			}
			if (err == nil) != (tc.want == "") || err != nil && (remote.KindOf(err) != tc.want || core.IsInvalid(err) || strings.Contains(err.Error(), "hunter")) {
				t.Errorf("got %v (%s), want %s", err, remote.KindOf(err), tc.want)
			}
		})
	}
}

// TestRecovery: a Fetcher does not remember that a registry was not available.
func TestRecovery(t *testing.T) {
	r := serve(t)
	digest := push(t, r, "org/s3", "v1.0.0", provider("s3"))
	f := newFetcher(t)
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden, http.StatusNotFound} {
		r.Fail(status, "")
		if _, err := f.Get(t.Context(), r.Source("org/s3"), digest, xpkg.Access{}); err == nil {
			t.Fatalf("%d: no error", status)
		}
	}
	r.Fail(0, "")
	if _, err := f.Get(t.Context(), r.Source("org/s3"), digest, xpkg.Access{}); err != nil {
		t.Error(err)
	}
}

// TestFreshness: tags and their digests are read again when they are older than the caller accepts.
func TestFreshness(t *testing.T) {
	r := serve(t)
	first := push(t, r, "org/s3", "v1", provider("one"))
	now := testingclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := newFetcher(t, func(o *xpkg.Options) { o.Clock = now })
	reference := core.Reference{Source: r.Source("org/s3"), Tag: "v1"}
	resolve := func(access xpkg.Access) string {
		t.Helper()
		digest, err := f.Resolve(t.Context(), reference, access)
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	if resolve(xpkg.Access{}) != first {
		t.Fatal("wrong digest")
	}
	second := push(t, r, "org/s3", "v1", provider("two"))
	now.SetTime(now.Now().Add(time.Minute))
	for name, tc := range map[string]struct {
		access xpkg.Access
		want   string
	}{
		"Young": {xpkg.Access{MaxAge: 2 * time.Minute}, first},
		"Never": {xpkg.Access{Policy: pkgv1.PullNever}, first},
	} {
		if got := resolve(tc.access); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if resolve(xpkg.Access{MaxAge: time.Minute}) != second {
		t.Error("an old digest")
	}
	third := push(t, r, "org/s3", "v1", provider("three"))
	if resolve(xpkg.Access{MaxAge: time.Hour, Policy: pkgv1.PullAlways}) != third {
		t.Error("Always: an old digest")
	}
}

// TestEqualCallsShareARequest: and a caller that gives up does not end that of the others.
func TestEqualCallsShareARequest(t *testing.T) {
	r := serve(t)
	digest := push(t, r, "org/s3", "v1", provider("s3"))
	f := newFetcher(t)
	release := make(chan struct{})
	entered := make(chan struct{}, 1)
	r.Change(func(q *http.Request, next http.Handler, w http.ResponseWriter) {
		if strings.Contains(q.URL.Path, "/blobs/") {
			entered <- struct{}{}
			<-release
		}
		next.ServeHTTP(w, q)
	})
	impatient, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := f.Get(impatient, r.Source("org/s3"), digest, xpkg.Access{})
		gaveUp <- err
	}()
	<-entered
	var others sync.WaitGroup
	for range 20 {
		others.Go(func() {
			if _, err := f.Get(t.Context(), r.Source("org/s3"), digest, xpkg.Access{}); err != nil {
				t.Error(err)
			}
		})
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	others.Wait()
	if n := r.Requests(); n["blob"] != 1 || n["manifest"] != 1 {
		t.Errorf("requests %v", n)
	}
}

func TestDirectory(t *testing.T) {
	r := serve(t)
	root := t.TempDir()
	source := r.Source("org/s3")
	write := func(name string, image v1.Image) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(xpkg.Write(file, image), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	image, err := testxpkg.Image(provider("s3"))
	if err != nil {
		t.Fatal(err)
	}
	write(source+"/v1.0.0.xpkg", image)
	push(t, r, "org/s3", "v9.0.0", provider("s3"))
	inRegistry := push(t, r, "org/s3", "v8.0.0", provider("registry"))
	push(t, r, "org/other", "v1.0.0", provider("other"))
	f := newFetcher(t, func(o *xpkg.Options) { o.Directory = root })
	for _, policy := range []pkgv1.PullPolicy{pkgv1.PullIfNotPresent, pkgv1.PullAlways, pkgv1.PullNever} {
		access := xpkg.Access{Policy: policy}
		tags, err := f.Tags(t.Context(), source, access)
		if diff := cmp.Diff([]string{"v1.0.0"}, tags); diff != "" || err != nil {
			t.Errorf("%s: %v, tags (-want +got):\n%s", policy, err, diff)
		}
		digest, err := f.Resolve(t.Context(), core.Reference{Source: source, Tag: "v1.0.0"}, access)
		if err != nil {
			t.Fatal(err)
		}
		pkg, err := f.Get(t.Context(), source, digest, access)
		if err != nil || pkg.Name != "s3" {
			t.Errorf("%s: %+v, %v", policy, pkg, err)
		}
		if _, err := f.Resolve(t.Context(), core.Reference{Source: source, Tag: "v9.0.0"}, access); remote.KindOf(err) != remote.NotFound {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if n := r.Requests(); len(n) > 0 {
		t.Errorf("requests %v", n)
	}
	if _, err := f.Get(t.Context(), source, inRegistry, xpkg.Access{Policy: pkgv1.PullNever}); remote.KindOf(err) != remote.NotFound {
		t.Errorf("got %v", err)
	}
	if _, err := f.Get(t.Context(), source, inRegistry, xpkg.Access{}); err != nil {
		t.Error(err)
	}
	if tags, err := f.Tags(t.Context(), r.Source("org/other"), xpkg.Access{}); len(tags) != 1 || err != nil {
		t.Errorf("%q, %v", tags, err)
	}
}

// BenchmarkColdFetch reads 200 packages, 16 at a time.
func BenchmarkColdFetch(b *testing.B) {
	r := serve(b)
	const packages = 200
	for i := range packages {
		push(b, r, fmt.Sprint("org/p", i), "v1.0.0", provider(fmt.Sprint("p", i)))
	}
	for b.Loop() {
		f := newFetcher(b)
		var group sync.WaitGroup
		next := make(chan int)
		for range 16 {
			group.Go(func() {
				for i := range next {
					source := r.Source(fmt.Sprint("org/p", i))
					if _, err := f.Tags(b.Context(), source, xpkg.Access{}); err != nil {
						b.Error(err)
					}
					digest, err := f.Resolve(b.Context(), core.Reference{Source: source, Tag: "v1.0.0"}, xpkg.Access{})
					if err != nil {
						b.Error(err)
					}
					if _, err := f.Meta(b.Context(), source, digest, xpkg.Access{}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := range packages {
			next <- i
		}
		close(next)
		group.Wait()
	}
}
