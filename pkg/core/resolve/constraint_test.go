package resolve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConstraint(t *testing.T) {
	tests := map[string]struct {
		constraint, version string
		want                bool
	}{
		"PreRelease":         {constraint: ">=v1.0.0", version: "v1.1.0-rc.1", want: false},
		"PreReleaseAsked":    {constraint: ">=v1.0.0-0", version: "v1.1.0-rc.1", want: true},
		"AnyPreRelease":      {constraint: "*", version: "v1.0.0-rc.1", want: false},
		"Empty":              {constraint: "", version: "v1.0.0", want: true},
		"Spaces":             {constraint: "  ", version: "v1.0.0", want: true},
		"Major":              {constraint: "v1", version: "v1.4.0", want: true},
		"BuildIsIgnored":     {constraint: "=v1.0.0", version: "1.0.0+up.1", want: true},
		"AnyOfNoVersion":     {constraint: "*", version: "main", want: true},
		"RangeOfNoVersion":   {constraint: ">=v0", version: "main", want: false},
		"RangeOfPartialPin":  {constraint: ">=v1.0.0", version: "v1", want: true},
		"Alternatives":       {constraint: "^1 || ^3", version: "v3.2.1", want: true},
		"NoneOfAlternatives": {constraint: "^1 || ^3", version: "v2.2.1", want: false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := parseConstraint(tt.constraint)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.fits(pinnedVersion(tt.version)); got != tt.want {
				t.Errorf("fits(%q) = %v, want %v", tt.version, got, tt.want)
			}
		})
	}
}

func TestConstraintErrors(t *testing.T) {
	digest := digestOf("a", "v1.0.0")
	tests := map[string]struct {
		text  string
		valid bool
	}{
		"Digest":          {text: digest, valid: true},
		"DigestShort":     {text: digest[:len(digest)-1]},
		"DigestUpperCase": {text: strings.ToUpper(digest)},
		"DigestNoHex":     {text: digest[:len(digest)-1] + "g"},
		"TagAndDigest":    {text: "v1.0.0@" + digest},
		"Word":            {text: "latest"},
		"Long":            {text: strings.Repeat(" ", 2000) + ">=v1", valid: true},
		"TooLong":         {text: strings.Repeat(">=v1 ", 500)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := parseConstraint(tt.text); (err == nil) != tt.valid {
				t.Errorf("parseConstraint() = %v, want valid %v", err, tt.valid)
			}
		})
	}
}

func TestCheckSource(t *testing.T) {
	tests := map[string]bool{
		"reg.example.org/a":          true,
		"reg.example.org:5000/a/b-c": true,
		"127.0.0.1:5000/a":           true,
		"":                           false,
		"a":                          false,
		"reg.example.org/":           false,
		"/a":                         false,
		"reg.example.org/a/":         false,
		"reg.example.org//a":         false,
		"reg.example.org/a:v1":       false,
		"reg.example.org/a@sha256:1": false,
		"reg.example.org/a b":        false,
	}
	for source, want := range tests {
		if err := checkSource(source); (err == nil) != want {
			t.Errorf("checkSource(%q) = %v, want valid %v", source, err, want)
		}
	}
}

func TestVersion(t *testing.T) {
	tests := map[string]Version{
		"v1.0.0":           {Tag: "v1.0.0"},
		"v1.0.0@sha256:ab": {Tag: "v1.0.0", Digest: "sha256:ab"},
		"sha256:ab":        {Digest: "sha256:ab"},
		"":                 {},
	}
	for text, want := range tests {
		got := ParseVersion(text)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseVersion(%q) (-want +got):\n%s", text, diff)
		}
		if got.String() != text {
			t.Errorf("ParseVersion(%q).String() = %q", text, got.String())
		}
	}
}

func TestFullVersion(t *testing.T) {
	tests := map[string]bool{
		"v1.0.0": true, "1.0.0": true, "v1.0.0-rc.1": true, "v1.0.0+up.1": true,
		"v1": false, "v1.0": false, "latest": false, "": false, "vv1.0.0": false, "v01.0.0": false, "v1.0.0.0": false,
	}
	for tag, want := range tests {
		if got := fullVersion(tag) != nil; got != want {
			t.Errorf("fullVersion(%q) is a version: %v, want %v", tag, got, want)
		}
	}
}

// FuzzConstraint checks that a text from a package cannot do harm, and that the tags that a
// constraint accepts do not depend on how it is written.
func FuzzConstraint(f *testing.F) {
	for _, text := range []string{"", "*", "v1", ">=v1.0.0, <v2 || ^3", "~1.2", "1.x", "1 - 2", "=v1.0.0-rc.1", digestOf("a", "b"), "sha256:", "||", "!=1"} {
		f.Add(text, "v1.2.3")
	}
	f.Fuzz(func(t *testing.T, text, tag string) {
		c, err := parseConstraint(text)
		if err != nil {
			return
		}
		if (c.digest == "") == (c.ranges == nil) {
			t.Fatalf("parseConstraint(%q) is neither a range nor a digest, or both", text)
		}
		version := pinnedVersion(tag)
		if c.digest != "" {
			return
		}
		first := c.fits(version)
		again, err := parseConstraint(" " + c.text + " ")
		if err != nil || again.fits(version) != first || c.fits(version) != first {
			t.Fatalf("constraint %q does not give the same answer again: %v", text, err)
		}
		if full := fullVersion(tag); full != nil {
			if version == nil || !full.Equal(version) {
				t.Fatalf("tag %q is %v, and if it is pinned %v", tag, full, version)
			}
			if c.fits(full) != first {
				t.Fatalf("constraint %q gives another answer for the same version %q", text, tag)
			}
		}
	})
}
