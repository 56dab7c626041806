package xpkg

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParseReference(t *testing.T) {
	for text, want := range map[string]Reference{
		"xpkg.crossplane.io/org/pkg:v1.0.0":                  {"xpkg.crossplane.io/org/pkg", "v1.0.0", ""},
		"registry.example.com/pkg@" + digest:                 {"registry.example.com/pkg", "", digest},
		"registry.example.com:5000/a/b/c:v1@" + digest:       {"registry.example.com:5000/a/b/c", "v1", digest},
		"127.0.0.1:5000/a/b:v1":                              {"127.0.0.1:5000/a/b", "v1", ""},
		"Registry.Example.com/a/b:V1_x":                      {"registry.example.com/a/b", "V1_x", ""},
		"registry.example.com/a__b/c--d/e.f:latest":          {"registry.example.com/a__b/c--d/e.f", "latest", ""},
		"registry.example.com/a:" + strings.Repeat("x", 128): {"registry.example.com/a", strings.Repeat("x", 128), ""},
	} {
		got, err := ParseReference(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
		if again, err := ParseReference(got.String()); err != nil || again != got {
			t.Errorf("%s: %q is parsed as %v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                                                "is empty",
		"org/pkg:v1":                                      "has no registry",
		"pkg:v1":                                          "has no registry",
		"localhost:5000/pkg:v1":                           "use 127.0.0.1 for localhost",
		"localhost/pkg:v1":                                "use 127.0.0.1 for localhost",
		"registry:5000/pkg:v1":                            "has no registry",
		"https://registry.example/pkg:v1":                 "must not begin with https://",
		"registry.example/pkg":                            "has no tag and no digest",
		"registry.example:5000":                           "has no path",
		"registry.example/":                               "has no path",
		"registry.example:5000/pkg":                       "has no tag and no digest",
		"registry.example/Org/pkg:v1":                     `"Org" is not a valid part of a path`,
		"registry.example/a//b:v1":                        `"" is not a valid part of a path`,
		"registry.example/../b:v1":                        `".." is not a valid part of a path`,
		"registry.example/a-:v1":                          `"a-" is not a valid part of a path`,
		"registry.example/a:":                             "has an empty tag or digest",
		"registry.example/a:v1@":                          "has an empty tag or digest",
		"registry.example/a:.v1":                          `".v1" is not a valid tag`,
		"registry.example/a:v1\t":                         `"v1\t" is not a valid tag`,
		"registry.example/a@sha256:0123":                  "is not a valid digest",
		"registry.example/a@md5:0123":                     "is not a valid digest",
		"registry.example/a@" + digest + "0":              "is not a valid digest",
		"-registry.example/a:v1":                          "is not a valid host",
		"registry.example:x/a:v1":                         "is not a valid host",
		"registry.example/a:" + strings.Repeat("x", 129):  "is not a valid tag",
		"registry.example/a:" + strings.Repeat("x", 2000): "is longer than 1024 bytes",
	} {
		if got, err := ParseReference(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v, want %q", text, got, err, want)
		}
	}
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]string{"Registry.example/a/b": "registry.example/a/b", "registry.example/a:v1": "", "a/b": "", "registry.example/a@" + digest: ""} {
		if got, err := ParseSource(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{"v1.0.0": {"v1.0.0", ""}, digest: {"", digest}, "v1@" + digest: {"v1", digest}, "latest": {"latest", ""}} {
		got, err := ParseVersion(text)
		if got != want || err != nil || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "@", "v1@", "@" + digest, "sha256:1", "v1@sha256:1", "v 1", "a/b", digest + "@" + digest} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// FuzzParseReference checks that what is parsed is written as it was read.
func FuzzParseReference(f *testing.F) {
	for _, text := range []string{"registry.example/a/b:v1@" + digest, "127.0.0.1:5000/a:v1", "a.b/c@" + digest, "A.b/c:D"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReference(text)
		if err != nil {
			return
		}
		if !strings.EqualFold(r.String(), text) {
			t.Errorf("%q became %q", text, r)
		}
		if again, err := ParseReference(r.String()); err != nil || again != r {
			t.Errorf("%q became %v, %v", r, again, err)
		}
		if v, err := ParseVersion(r.Version().String()); err != nil || v != r.Version() {
			t.Errorf("version %q became %v, %v", r.Version(), v, err)
		}
	})
}

func TestRevisionName(t *testing.T) {
	for name, tc := range map[string]struct{ pkg, want string }{
		"Short":  {"provider-aws", "provider-aws-0123456789ab"},
		"Long":   {strings.Repeat("a", 60), strings.Repeat("a", 50) + "-0123456789ab"},
		"Dotted": {"provider.aws", "provider-aws-0123456789ab"},
		"Cut":    {strings.Repeat("a", 49) + "-b", strings.Repeat("a", 49) + "--0123456789ab"},
	} {
		if got := RevisionName(tc.pkg, digest); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestFriendlyName(t *testing.T) {
	long := "registry.example/" + strings.Repeat("a", 70)
	for name, tc := range map[string]struct {
		source string
		taken  map[string]string
		want   string
	}{
		"Free":       {"xpkg.crossplane.io/crossplane-contrib/provider-aws", nil, "crossplane-contrib-provider-aws"},
		"OfItself":   {"a.example/org/pkg", map[string]string{"org-pkg": "a.example/org/pkg"}, "org-pkg"},
		"OfAnother":  {"a.example/org/pkg", map[string]string{"org-pkg": "b.example/org/pkg"}, "org-pkg-81277521"},
		"HashTaken":  {"a.example/org/pkg", map[string]string{"org-pkg": "b.example/org/pkg", "org-pkg-81277521": "c.example/org/pkg"}, "org-pkg-81277521ea81c479"},
		"Underscore": {"a.example/org_x/pkg", nil, "orgx-pkg"},
		"Long":       {long, nil, strings.Repeat("a", 63)},
		"LongTaken":  {long, map[string]string{strings.Repeat("a", 63): "b.example/x"}, strings.Repeat("a", 54) + "-3c43e6dd"},
	} {
		got := FriendlyName(tc.source, func(name string) string { return tc.taken[name] })
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if again := FriendlyName(tc.source, func(name string) string {
			if name == got {
				return tc.source
			}
			return tc.taken[name]
		}); again != got {
			t.Errorf("%s: after it was created, %s", name, again)
		}
	}
	// Every source gets another name, in any order.
	taken := map[string]string{}
	for i := range 200 {
		source := fmt.Sprintf("r%d.example/org/%s", i, strings.Repeat("x", i%70+1))
		name := FriendlyName(source, func(name string) string { return taken[name] })
		if other := taken[name]; other != "" || len(name) > 63 {
			t.Errorf("%s has the name of %s: %s", source, other, name)
		}
		taken[name] = source
	}
}
