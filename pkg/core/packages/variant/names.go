package variant

import (
	"crypto/sha1" //nolint:gosec // Porch uses it in names; it protects nothing
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Package identifies a downstream package in a namespace.
type Package struct {
	Repository, Name string
}

func (p Package) String() string { return p.Repository + "/" + p.Name }

// Identifier returns the name of a PackageVariant of a set before it is made valid and unique.
func Identifier(set string, p Package) string { return set + "-" + p.Repository + "-" + p.Name }

const (
	longest = validation.DNS1123LabelMaxLength
	// hashed is the number of characters before a hyphen and a hash of eight characters.
	hashed = longest - 9
)

// Name returns the name of the PackageVariant of a set for a package: the identifier, or its
// beginning and a hash. It is the first that is a DNS label and free. Several packages may have the
// same identifier, but not the same name. It returns "" if no name is free, which needs three
// collisions of hashes.
func Name(set string, p Package, free func(string) bool) string {
	for _, name := range candidates(set, p) {
		if len(validation.IsDNS1123Label(name)) == 0 && free(name) {
			return name
		}
	}
	return ""
}

// candidates returns the possible names of a PackageVariant, the preferred first. The first two are
// those of Porch.
func candidates(set string, p Package) []string {
	identifier := Identifier(set, p)
	var names []string
	if len(identifier) <= longest {
		names = append(names, identifier)
	} else {
		sum := sha1.Sum([]byte(identifier)) //nolint:gosec // see above
		names = append(names, identifier[:hashed]+"-"+hex.EncodeToString(sum[:])[:8])
	}
	plain := sanitized(identifier)
	for _, n := range []int{8, 16, 40} {
		names = append(names, plain[:min(len(plain), longest-1-n)]+"-"+shortHash(set+"\x00"+p.Repository+"\x00"+p.Name, n))
	}
	return names
}

// sanitized replaces the characters that a DNS label cannot have. A hash after it makes the name
// unique.
func sanitized(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text)
	if text = strings.TrimLeft(text, "-"); text == "" {
		return "x"
	}
	return text
}

// workspacePrefix is the prefix of the workspace names of drafts that PackageVariants create, as in
// Porch.
const workspacePrefix = "packagevariant-"

// Workspace returns the workspace name of the draft that a PackageVariant creates from base, a
// published revision of its package, or "" for the first draft. It is deterministic, so that a
// controller that has not observed its own draft yet cannot create it twice.
func Workspace(variant string, p Package, base string) string {
	return workspacePrefix + shortHash(variant+"\x00"+p.Repository+"\x00"+p.Name+"\x00"+base, 12)
}

// shortHash returns the first hexadecimal digits of the SHA-256 hash of a text.
func shortHash(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}
