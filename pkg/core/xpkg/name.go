package xpkg

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxLabel        = 63
	maxNameOfPkg    = 50 // of the name of a package in that of a revision
	maxDigestOfName = 12 // hexadecimal digits of the digest in the name of a revision
)

// RevisionName returns the name of the revision of a package that has a digest: the name of the
// package, cut to 50 bytes, and 12 digits of the digest. It is the name that Crossplane gives it.
func RevisionName(pkg, digest string) string {
	digits := strings.TrimPrefix(digest, "sha256:")
	return label(pkg[:min(len(pkg), maxNameOfPkg)] + "-" + digits[:min(len(digits), maxDigestOfName)])
}

// FriendlyName returns the name of the package object for a dependency: the path of its repository
// as a DNS label. taken returns the source of the package that has a name, and "" if there is none.
// If another source has the name, the result ends with a hash of the source.
func FriendlyName(source string, taken func(name string) (source string)) string {
	_, path, _ := strings.Cut(source, "/")
	name := label(path)
	free := func(name string) bool {
		owner := taken(name)
		return name != "" && (owner == "" || owner == source)
	}
	if free(name) {
		return name
	}
	sum := sha256.Sum256([]byte(source))
	hash := hex.EncodeToString(sum[:])
	for digits := 8; ; digits *= 2 {
		if result := label(name[:min(len(name), maxLabel-1-digits)] + "-" + hash[:min(digits, len(hash))]); digits >= maxLabel/2 || free(result) {
			return result
		}
	}
}

// label returns a DNS label of a text, as Crossplane does: separators become dashes, other
// characters are left out.
func label(text string) string {
	text = text[:min(len(text), maxLabel)]
	result := make([]byte, 0, len(text))
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			result = append(result, c)
		case c == '.', c == '/', c == ':', c == '-':
			result = append(result, '-')
		}
	}
	return strings.Trim(string(result), "-")
}
