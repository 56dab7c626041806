package resolve

import "strings"

// Problem is the question to the solver: which packages are to be installed, given what users want
// and what is installed. The order of its lists does not matter.
type Problem struct {
	// Roots are the packages that users manage, each pinned by its package object.
	Roots []Root
	// Locked are the packages that are installed.
	Locked []Package
	// Remove are sources of installed packages that this transaction removes. Nothing may require
	// them afterwards.
	Remove []string
	// HubVersion is the version that is compared with what packages require of Crossplane. If it is
	// empty, nothing is compared.
	HubVersion string
	// AllowDowngrade permits lower versions of installed dependencies, if no other version fits.
	AllowDowngrade bool
}

// Root is a package that a user manages.
type Root struct {
	// Name, APIVersion and Kind are those of the package object.
	Name       string
	APIVersion string
	Kind       string
	// Source is its repository, without tag and digest.
	Source string
	// Version is the version that the user wants. The version of an installed root may be unknown:
	// then the installed one is the desired one.
	Version Version
	// Subject marks the root that this transaction installs or updates.
	Subject bool
	// Pending marks a root whose desired version is not installed yet.
	Pending bool
	// SkipDependencyResolution ignores what the package requires.
	SkipDependencyResolution bool
	// IgnoreCrossplaneConstraints ignores what the package requires of Crossplane.
	IgnoreCrossplaneConstraints bool
}

// object returns how users call the package object, as "Provider/x".
func (r *Root) object() string {
	if r.Kind == "" {
		return r.Name
	}
	return r.Kind + "/" + r.Name
}

// Package is a package at a version, as it is listed in a Lock.
type Package struct {
	// Name is the name of its revision. It is empty if the package is not installed yet.
	Name string
	// APIVersion and Kind are those of the package object.
	APIVersion string
	Kind       string
	// Source is the repository, without tag and digest.
	Source string
	// Version is the installed version.
	Version Version
	// Dependencies are the packages that it requires.
	Dependencies []Dependency
}

// Dependency is a package that another one requires.
type Dependency struct {
	// Source is the repository, without tag and digest.
	Source string
	// APIVersion and Kind are those of a package object for it.
	APIVersion string
	Kind       string
	// Constraint is a range of semantic versions, or a digest. Empty means any version.
	Constraint string
}

// Version is a tag, a digest, or both.
type Version struct {
	Tag    string
	Digest string
}

// ParseVersion reads the forms "tag", "tag@sha256:…" and "sha256:…".
func ParseVersion(s string) Version {
	s = strings.TrimSpace(s)
	if tag, digest, found := strings.Cut(s, "@"); found {
		return Version{Tag: tag, Digest: digest}
	}
	if isDigest(s) {
		return Version{Digest: s}
	}
	return Version{Tag: s}
}

// String returns the form that ParseVersion reads.
func (v Version) String() string {
	switch {
	case v.Tag == "":
		return v.Digest
	case v.Digest == "":
		return v.Tag
	default:
		return v.Tag + "@" + v.Digest
	}
}

// reference returns what identifies the version in its repository: the digest, if it is known.
func (v Version) reference() string {
	if v.Digest != "" {
		return v.Digest
	}
	return v.Tag
}

// same reports whether v is the version that locked is. A tag alone fits every digest.
func (v Version) same(locked Version) bool {
	if v.Tag != "" && locked.Tag != "" && v.Tag != locked.Tag {
		return false
	}
	if v.Digest == "" || locked.Digest == "" {
		return v.Tag == locked.Tag
	}
	return v.Digest == locked.Digest
}

// short returns the version as messages show it.
func (v Version) short() string {
	if v.Tag != "" {
		return v.Tag
	}
	return v.Digest[:min(len(v.Digest), len(digestPrefix)+12)]
}

// lastSegment returns the last segment of the path of a repository.
func lastSegment(source string) string { return source[strings.LastIndexByte(source, '/')+1:] }
