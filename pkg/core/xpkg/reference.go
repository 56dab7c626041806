package xpkg

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Reference is the name of the image of a package.
type Reference struct {
	// Source is the repository: the host of a registry, perhaps with a port, and a path.
	Source string
	// Tag of the image; may be empty if there is a Digest.
	Tag string
	// Digest of the image: sha256 and 64 hexadecimal digits; may be empty if there is a Tag.
	Digest string
}

// String returns source:tag, source:tag@digest or source@digest.
func (r Reference) String() string { return r.Source + Version{r.Tag, r.Digest}.suffix() }

// Version returns the tag and the digest.
func (r Reference) Version() Version { return Version{r.Tag, r.Digest} }

// Host returns the host of the registry, without the port.
func (r Reference) Host() string {
	host, _, _ := strings.Cut(r.Source, "/")
	host, _, _ = strings.Cut(host, ":")
	return host
}

// Pinned returns the reference with only a digest.
func (r Reference) Pinned(digest string) Reference {
	return Reference{Source: r.Source, Digest: digest}
}

// Version is the version of a package in the Lock.
type Version struct {
	Tag    string
	Digest string
}

// String returns tag, tag@digest or digest.
func (v Version) String() string {
	if v.Tag != "" && v.Digest != "" {
		return v.Tag + "@" + v.Digest
	}
	return cmp.Or(v.Tag, v.Digest)
}

func (v Version) suffix() string {
	text := ""
	if v.Tag != "" {
		text = ":" + v.Tag
	}
	if v.Digest != "" {
		text += "@" + v.Digest
	}
	return text
}

// The parts of a reference. Hosts have a dot, so that no registry is ever assumed.
var (
	hostFormat    = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+(:[0-9]+)?$`)
	segmentFormat = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*$`)
	tagFormat     = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
	digestFormat  = regexp.MustCompile(`^sha256:[a-f0-9]{64}$`)
)

// maxReference bounds the length of a reference, as in spec.package.
const maxReference = 1024

// ParseReference parses a fully qualified reference with a tag, a digest or both. The host of the
// result has lower case.
func ParseReference(text string) (Reference, error) {
	r, err := parseReference(text)
	if err == nil && r.Tag == "" && r.Digest == "" {
		err = errors.New("has no tag and no digest: append one, such as :v1.0.0")
	}
	if err != nil {
		return Reference{}, fmt.Errorf("parse package %.1024q: %w", text, err)
	}
	return r, nil
}

// ParseSource parses a repository, which is a reference without tag and digest. The host of the
// result has lower case.
func ParseSource(text string) (string, error) {
	r, err := parseReference(text)
	if err == nil && (r.Tag != "" || r.Digest != "") {
		err = errors.New("must be a repository without tag and digest")
	}
	if err != nil {
		return "", fmt.Errorf("parse repository %.1024q: %w", text, err)
	}
	return r.Source, nil
}

// ParseVersion parses a version of the Lock: a tag, a digest, or both as tag@digest.
func ParseVersion(text string) (Version, error) {
	tag, digest, both := strings.Cut(text, "@")
	if !both && strings.HasPrefix(text, "sha256:") {
		tag, digest = "", text
	}
	v := Version{tag, digest}
	err := v.check()
	if err == nil && (v.String() == "" || both && (tag == "" || digest == "")) {
		err = errors.New("must be a tag, a digest or tag@digest")
	}
	if err != nil {
		return Version{}, fmt.Errorf("parse version %.1024q: %w", text, err)
	}
	return v, nil
}

func (v Version) check() error {
	if v.Tag != "" && !tagFormat.MatchString(v.Tag) {
		return fmt.Errorf("%q is not a valid tag: it must have letters, digits, _, . and - only", v.Tag)
	}
	if v.Digest != "" && !IsDigest(v.Digest) {
		return fmt.Errorf("%q is not a valid digest: it must be sha256: and 64 hexadecimal digits in lower case", v.Digest)
	}
	return nil
}

// IsDigest reports whether a text is a digest.
func IsDigest(text string) bool { return digestFormat.MatchString(text) }

// parseReference parses a reference whose tag and digest may both be absent.
func parseReference(text string) (Reference, error) {
	var r Reference
	if text == "" {
		return r, errors.New("is empty")
	}
	if len(text) > maxReference {
		return r, fmt.Errorf("is longer than %d bytes", maxReference)
	}
	if scheme, _, ok := strings.Cut(text, "://"); ok {
		return r, fmt.Errorf("must not begin with %s://", scheme)
	}
	source, digest, hasDigest := strings.Cut(text, "@")
	hasTag := false
	if colon := strings.LastIndex(source, ":"); colon > strings.LastIndex(source, "/") && strings.Contains(source, "/") {
		source, r.Tag, hasTag = source[:colon], source[colon+1:], true
	}
	r.Digest = digest
	if hasTag && r.Tag == "" || hasDigest && digest == "" {
		return r, errors.New("has an empty tag or digest")
	}
	host, path, _ := strings.Cut(source, "/")
	switch hostname, _, _ := strings.Cut(host, ":"); {
	case hostname == "localhost":
		return r, errors.New("the host of the registry must have a dot: use 127.0.0.1 for localhost")
	case !strings.Contains(hostname, "."):
		return r, errors.New("has no registry: it must begin with the host of one, such as registry.example.com, and the host must have a dot")
	case !hostFormat.MatchString(host):
		return r, fmt.Errorf("%q is not a valid host", host)
	case path == "":
		return r, errors.New("has no path after the host of the registry")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if !segmentFormat.MatchString(segment) {
			return r, fmt.Errorf("%q is not a valid part of a path: it must have lower-case letters and digits, and single separators between them", segment)
		}
	}
	r.Source = lowerHost(source)
	return r, r.Version().check()
}
