package kpt

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/starlinghq/starling/pkg/core/text"
)

// Files are the contents of the files of a package, by path. Paths are relative to the package and
// have slashes. Contents are text. A function that receives Files must not change them.
type Files map[string]string

const (
	// KptfileName is the name of the file that every package has.
	KptfileName = "Kptfile"

	// MaxBytes bounds the size of a package, as in the API of Porch.
	MaxBytes = 6 << 20
	// MaxFiles bounds the number of files.
	MaxFiles = 5000
	// MaxKptfile bounds the size of a Kptfile, which is parsed in many requests.
	MaxKptfile = 256 << 10
	// MaxPath bounds a path.
	MaxPath = 512
)

// digestPrefix is the prefix of every digest.
const digestPrefix = "sha256:"

// IsDigest reports whether a text has the format of a digest of Files.
func IsDigest(text string) bool {
	sum, ok := strings.CutPrefix(text, digestPrefix)
	raw, err := hex.DecodeString(sum)
	return ok && err == nil && len(raw) == sha256.Size && strings.ToLower(sum) == sum
}

// Digest returns a hash of the files.
func (f Files) Digest() string {
	h := sha256.New()
	for _, name := range f.Paths() {
		for _, part := range []string{name, f[name]} {
			var size [8]byte
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:]) // makes the encoding unambiguous
			h.Write([]byte(part))
		}
	}
	return digestPrefix + hex.EncodeToString(h.Sum(nil))
}

// ContentDigest returns the digest of the files without the conditions in the Kptfile. Conditions
// are about the content, and are not part of it.
func (f Files) ContentDigest() string {
	kptfile, err := ParseKptfile(f[KptfileName])
	if err != nil {
		return f.Digest()
	}
	if err := kptfile.SetConditions(nil); err != nil {
		return f.Digest()
	}
	content := maps.Clone(f)
	content[KptfileName] = kptfile.String()
	return content.Digest()
}

// Paths returns all paths, sorted.
func (f Files) Paths() []string { return slices.Sorted(maps.Keys(f)) }

// PathsOf returns all paths of some files, sorted.
func PathsOf(all ...Files) []string {
	var paths []string
	for _, files := range all {
		paths = slices.AppendSeq(paths, maps.Keys(files))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Size returns the sum of the lengths of all paths and contents, in bytes.
func (f Files) Size() int {
	size := 0
	for name, content := range f {
		size += len(name) + len(content)
	}
	return size
}

// Check returns the errors in files, a bounded list; nil if there are none.
func (f Files) Check() []string {
	if len(f) > MaxFiles {
		return []string{fmt.Sprintf("the package has %d files; at most %d are allowed", len(f), MaxFiles)}
	}
	if size := f.Size(); size > MaxBytes {
		return []string{fmt.Sprintf("the package has %d bytes; at most %d are allowed", size, MaxBytes)}
	}
	var wrong []string
	for _, name := range f.Paths() {
		if reason := checkPath(name); reason != "" {
			wrong = append(wrong, fmt.Sprintf("path %q %s", text.Clip(name, maxShownPath), reason))
		} else if reason := f.checkContent(name); reason != "" {
			wrong = append(wrong, name+": "+reason)
		}
	}
	const limit = 10
	return text.Bound(wrong, limit)
}

// maxShownPath bounds an invalid path in an error.
const maxShownPath = 100

func checkPath(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxPath:
		return fmt.Sprintf("is longer than %d bytes", MaxPath)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return "has a control character or a backslash"
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

// checkContent also rejects a file whose directory is a file, which no file system can hold.
func (f Files) checkContent(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, file := f[dir]; file {
			return fmt.Sprintf("%s is also a file", dir)
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

// IsKRM reports whether a file may hold Kubernetes objects, by its name.
func IsKRM(name string) bool {
	return path.Base(name) == KptfileName || slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// PackageOf returns the directory, "" for the root, of the package or subpackage of a file: the
// nearest directory above it that has a Kptfile.
func (f Files) PackageOf(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := f[path.Join(dir, KptfileName)]; ok {
			return dir
		}
	}
	return ""
}

// Packages returns the directories of all packages, children before their parents, siblings sorted.
// The root is "", and is included only if it has a Kptfile.
func (f Files) Packages() []string {
	var dirs []string
	for name := range f {
		if path.Base(name) == KptfileName {
			dirs = append(dirs, strings.TrimSuffix(strings.TrimSuffix(name, KptfileName), "/"))
		}
	}
	// The last segment follows all others, so that a child precedes its parent.
	slices.SortFunc(dirs, func(a, b string) int {
		return slices.Compare(append(segments(a), string(utf8.MaxRune)), append(segments(b), string(utf8.MaxRune)))
	})
	return dirs
}

// PackagesByLevel returns the same directories as Packages, level by level: the root, its
// subpackages, theirs, and so on. Those of one level are sorted.
func (f Files) PackagesByLevel() []string {
	dirs := f.Packages()
	level := make(map[string]int, len(dirs))
	for _, dir := range slices.Backward(dirs) { // parents before their children
		level[dir] = 0
		for parent := dir; parent != ""; {
			parent = path.Dir("/" + parent)[1:]
			if above, is := level[parent]; is {
				level[dir] = above + 1
				break
			}
		}
	}
	slices.SortFunc(dirs, func(a, b string) int {
		return cmp.Or(cmp.Compare(level[a], level[b]), slices.Compare(segments(a), segments(b)))
	})
	return dirs
}

// segments returns the names in a path.
func segments(dir string) []string {
	return strings.FieldsFunc(dir, func(r rune) bool { return r == '/' })
}
