package variant

import (
	"crypto/sha1" //nolint:gosec // the names that Porch gives are made with it; nothing is protected by it
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

// Identifier is how a PackageVariant of a set would be called if names could be anything.
func Identifier(set string, p Package) string { return set + "-" + p.Repository + "-" + p.Name }

const (
	longest = validation.DNS1123LabelMaxLength
	// hashed is how many characters of a name are left before a hash of eight.
	hashed = longest - 9
)

// Name returns the name of the PackageVariant that a set keeps for a package: the identifier, or the beginning of it and a hash, the first
// that is a DNS label and free. Identifiers of several packages may be the same; names are not. It returns "" if nothing is free, which
// takes three collisions of hashes.
func Name(set string, p Package, free func(string) bool) string {
	for _, name := range candidates(set, p) {
		if len(validation.IsDNS1123Label(name)) == 0 && free(name) {
			return name
		}
	}
	return ""
}

// candidates are the names that a PackageVariant may have, the best first. The first two are Porch's.
func candidates(set string, p Package) []string {
	identifier := Identifier(set, p)
	var names []string
	if len(identifier) <= longest {
		names = append(names, identifier)
	} else {
		sum := sha1.Sum([]byte(identifier)) //nolint:gosec // see above
		names = append(names, identifier[:hashed]+"-"+hex.EncodeToString(sum[:])[:8])
	}
	sum := sha256.Sum256([]byte(set + "\x00" + p.Repository + "\x00" + p.Name))
	digits, plain := hex.EncodeToString(sum[:]), sanitized(identifier)
	for _, n := range []int{8, 16, 40} {
		names = append(names, plain[:min(len(plain), longest-1-n)]+"-"+digits[:n])
	}
	return names
}

// sanitized makes a DNS label of a text, whatever its length; hashes make up for what is lost.
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

// workspacePrefix begins the workspaces of drafts that PackageVariants make; it is Porch's.
const workspacePrefix = "packagevariant-"

// Workspace returns the name of the workspace of the draft that a PackageVariant makes from a published revision of its package, "" for the
// first. It depends on nothing else, so whoever plans a draft that is there already, and was not seen yet, cannot make a second.
func Workspace(variant string, p Package, base string) string {
	sum := sha256.Sum256([]byte(variant + "\x00" + p.Repository + "\x00" + p.Name + "\x00" + base))
	const digits = 12
	return workspacePrefix + hex.EncodeToString(sum[:])[:digits]
}
