package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

const (
	digestPrefix  = "sha256:"
	digestLength  = len(digestPrefix) + 64
	maxConstraint = 1024
)

// isDigest reports whether s is a digest, or is meant to be one.
func isDigest(s string) bool { return strings.HasPrefix(s, digestPrefix) }

// constraint is what a package requires of the version of another one. Constraints are never
// joined: "a || b" and "c" in one text would mean another thing.
type constraint struct {
	text string
	// digest is set if only this digest fits.
	digest string
	// any is set if every version fits that is not a pre-release, and every version that is no
	// semantic version.
	any    bool
	ranges *semver.Constraints
	// checked remembers what was compared: a search does so again and again.
	checked map[*semver.Version]bool
}

// parseConstraint reads a range or a digest. An empty text is "*".
func parseConstraint(text string) (*constraint, error) {
	c := &constraint{text: cmp.Or(strings.TrimSpace(text), "*")}
	if len(c.text) > maxConstraint {
		return nil, fmt.Errorf("parse constraint: longer than %d bytes", maxConstraint)
	}
	if isDigest(c.text) {
		if len(c.text) != digestLength || strings.Trim(c.text[len(digestPrefix):], "0123456789abcdef") != "" {
			return nil, fmt.Errorf("parse constraint %q: a digest has 64 lower-case hexadecimal digits", c.text)
		}
		c.digest = c.text
		return c, nil
	}
	ranges, err := semver.NewConstraint(c.text)
	if err != nil {
		return nil, fmt.Errorf("parse constraint %q: neither a range of versions nor a digest", c.text)
	}
	c.any = c.text == "*"
	c.ranges = ranges
	c.checked = map[*semver.Version]bool{}
	return c, nil
}

// Fits reports whether a version is one that a dependency with this constraint requires: a range of
// versions, or a digest. The error says that the constraint is neither.
func Fits(text string, version Version) (bool, error) {
	c, err := parseConstraint(text)
	if err != nil {
		return false, err
	}
	if c.digest != "" {
		return c.digest == version.Digest, nil
	}
	return c.fits(pinnedVersion(version.Tag)), nil
}

// fits reports whether the tag of a version is in the range. It is for constraints without digest.
func (c *constraint) fits(version *semver.Version) bool {
	if version == nil {
		return c.any
	}
	result, known := c.checked[version]
	if !known {
		result = c.ranges.Check(version)
		c.checked[version] = result
	}
	return result
}

// checkSource reports what is wrong with the repository that a dependency names.
func checkSource(source string) error {
	switch path := source[strings.IndexByte(source, '/')+1:]; {
	case source == "":
		return errors.New("its package is empty")
	case strings.ContainsAny(source, " \t\r\n@"), strings.ContainsRune(path, ':'):
		return errors.New("its package must be a repository without tag and digest")
	case path == source, path == "", strings.HasSuffix(path, "/"), strings.Contains("/"+source, "//"):
		return errors.New("its package must have a registry and a path")
	}
	return nil
}

// fullVersion parses a tag that may be chosen: a full semantic version, with or without "v".
// Partial ones like "v1" move, so they are no candidates. It returns nil for others.
func fullVersion(tag string) *semver.Version {
	version, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
	if err != nil {
		return nil
	}
	return version
}

// pinnedVersion parses a tag that a user or a Lock names: also "v1" is a version then. It returns
// nil if the tag is no version.
func pinnedVersion(tag string) *semver.Version {
	version, err := semver.NewVersion(tag)
	if err != nil {
		return nil
	}
	return version
}

// compareTags orders versions. Equal ones, which differ in build metadata or in "v", are ordered by
// their tags, so that the order is total.
func compareTags(a, b *semver.Version, tagA, tagB string) int {
	return cmp.Or(a.Compare(b), strings.Compare(tagA, tagB))
}
