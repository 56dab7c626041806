package kptpkg

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Files are the files of a package by their paths: relative, with slashes, below the package. Content is text. Whoever is given
// Files must not change them.
type Files map[string]string

const (
	// KptfileName is the name of the file that makes a directory a package.
	KptfileName = "Kptfile"

	// MaxBytes bounds a package: what a request to Porch's API may hold.
	MaxBytes = 6 << 20
	// MaxFiles bounds the number of files.
	MaxFiles = 5000
	// MaxKptfile bounds a Kptfile, which is read with each request by servers that others wait for.
	MaxKptfile = 256 << 10
	// MaxPath bounds a path.
	MaxPath = 512
)

// digestPrefix begins every digest.
const digestPrefix = "sha256:"

// IsDigest tells whether a text may be a digest of Files.
func IsDigest(text string) bool {
	sum, ok := strings.CutPrefix(text, digestPrefix)
	raw, err := hex.DecodeString(sum)
	return ok && err == nil && len(raw) == sha256.Size && strings.ToLower(sum) == sum
}

// Digest identifies content: equal files have equal digests, whatever made them.
func (f Files) Digest() string {
	h := sha256.New()
	for _, name := range f.Paths() {
		for _, part := range []string{name, f[name]} {
			var size [8]byte
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:]) // so that no two lists of parts look the same
			h.Write([]byte(part))
		}
	}
	return digestPrefix + hex.EncodeToString(h.Sum(nil))
}

// Paths returns all paths, sorted.
func (f Files) Paths() []string { return slices.Sorted(maps.Keys(f)) }

// Size is the sum of all paths and contents in bytes.
func (f Files) Size() int {
	size := 0
	for name, content := range f {
		size += len(name) + len(content)
	}
	return size
}

// Check returns what is wrong with files that somebody sends, a bounded list; nil if nothing is.
func (f Files) Check() []string {
	const many = 10
	if len(f) > MaxFiles {
		return []string{fmt.Sprintf("the package has %d files; at most %d are allowed", len(f), MaxFiles)}
	}
	if size := f.Size(); size > MaxBytes {
		return []string{fmt.Sprintf("the package has %d bytes; at most %d are allowed", size, MaxBytes)}
	}
	var wrong []string
	for _, name := range f.Paths() {
		if text := checkPath(name); text != "" {
			wrong = append(wrong, fmt.Sprintf("path %q %s", clip(name), text))
		} else if text := f.checkContent(name); text != "" {
			wrong = append(wrong, name+": "+text)
		}
		if len(wrong) > many {
			return append(wrong[:many], "… and more")
		}
	}
	return wrong
}

func checkPath(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxPath:
		return fmt.Sprintf("is longer than %d bytes", MaxPath)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == ':' }):
		return "has a control character, a backslash or a colon"
	case path.IsAbs(name), name != path.Clean(name), name == ".", name == "..", strings.HasPrefix(name, "../"):
		return "must be relative, clean, and below the package"
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return "is in a git directory"
		}
	}
	return ""
}

// checkContent also refuses a file that is below another file, which no file system could hold.
func (f Files) checkContent(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, file := f[dir]; file {
			return fmt.Sprintf("%s is a file, too", dir)
		}
	}
	content := f[name]
	switch {
	case len(content) > MaxKptfile && path.Base(name) == KptfileName:
		return fmt.Sprintf("has %d bytes; a %s may have %d", len(content), KptfileName, MaxKptfile)
	case !utf8.ValidString(content):
		return "is not UTF-8 text; binary files are not supported"
	case strings.ContainsRune(content, 0):
		return "holds a zero byte; binary files are not supported"
	}
	return ""
}

func clip(text string) string {
	const limit = 100
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// IsKRM tells whether a file is one that holds Kubernetes objects, by its name.
func IsKRM(name string) bool {
	if path.Base(name) == KptfileName {
		return true
	}
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// PackageOf returns the directory, "" for the root, of the package or subpackage that a file belongs to: the nearest one upwards with a
// Kptfile.
func (f Files) PackageOf(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := f[path.Join(dir, KptfileName)]; ok {
			return dir
		}
	}
	return ""
}

// Packages returns the directories of all packages, the root as "", children before their parents, siblings sorted. The root is one
// only if it has a Kptfile.
func (f Files) Packages() []string {
	var dirs []string
	for name := range f {
		if path.Base(name) == KptfileName {
			dirs = append(dirs, strings.TrimSuffix(strings.TrimSuffix(name, KptfileName), "/"))
		}
	}
	slices.SortFunc(dirs, func(a, b string) int {
		x, y := segments(a), segments(b)
		for i := range min(len(x), len(y)) {
			if c := strings.Compare(x[i], y[i]); c != 0 {
				return c
			}
		}
		return len(y) - len(x) // the child of the other comes first
	})
	return dirs
}

func segments(dir string) []string {
	if dir == "" {
		return nil
	}
	return strings.Split(dir, "/")
}
