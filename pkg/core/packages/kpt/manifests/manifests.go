// Package manifests decides which files of a package have Kubernetes objects, and which of these
// objects are for clusters. Rendering, merging, gates, plans and the delivery ask it, so that what
// was rendered and approved is what arrives. It is pure, and does not parse: its callers have
// different parsers, because some keep comments and others need speed.
package manifests

import (
	"errors"
	"fmt"
	"path"
	"strings"

	gitignore "github.com/monochromegane/go-gitignore"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

const (
	// IgnoreName is the name of files that list files of a package which are no objects, in the
	// format of .gitignore.
	IgnoreName = ".krmignore"
	// LocalConfigAnnotation is on objects that only tools use.
	LocalConfigAnnotation = "config.kubernetes.io/local-config"
	// Advice is what the author of a package can do about what is not for clusters.
	Advice = "if it is not for clusters, list the file in " + IgnoreName + ", or annotate the object with " + LocalConfigAnnotation + `: "true"`
)

// In returns a function that reports whether a file of a package may have objects: by the end of
// its name, and by the ignore files of the package and its subpackages. Of an ignored file nothing
// is parsed.
//
// As in kpt (LocalPackageReader of kyaml), an ignore file is in the directory of a Kptfile, it
// concerns that package and not its subpackages, and it cannot ignore a subpackage or a Kptfile.
func In(files kpt.Files) func(name string) bool {
	matchers := map[string]gitignore.IgnoreMatcher{}
	for name, content := range files {
		if dir := path.Dir(name); path.Base(name) == IgnoreName && (dir == "." || isPackage(files, dir)) {
			matchers[dir] = gitignore.NewGitIgnoreFromReader(".", strings.NewReader(content))
		}
	}
	return func(name string) bool {
		return kpt.IsKRM(name) && (len(matchers) == 0 || path.Base(name) == kpt.KptfileName || !ignored(files, matchers, name))
	}
}

func isPackage(files kpt.Files, dir string) bool {
	_, is := files[path.Join(dir, kpt.KptfileName)]
	return is
}

// ignored walks from the root of the package to a file.
func ignored(files kpt.Files, matchers map[string]gitignore.IgnoreMatcher, name string) bool {
	in := "." // the nearest package or subpackage
	parts := strings.Split(name, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		file := i == len(parts)-1
		if !file && isPackage(files, at) {
			in = at
			continue
		}
		below := at
		if in != "." {
			below = strings.TrimPrefix(at, in+"/")
		}
		if m := matchers[in]; m != nil && m.Match(below, !file) {
			return true
		}
	}
	return false
}

// Document is what a document of a file says of its kind. It is zero if it says nothing, or is no
// mapping.
type Document struct{ APIVersion, Kind string }

// Objects reports whether a file has objects. A file with none is for tools, such as the values of
// a chart, and is left alone. An error says which document is not an object while others are, or is
// half an object: it is not known whether it should be one.
func Objects(documents []Document) (bool, error) {
	objects := 0
	for i, d := range documents {
		if (d.APIVersion == "") != (d.Kind == "") {
			return false, fmt.Errorf("document %d is not an object: it has only one of apiVersion and kind; if it is not for clusters, list the file in %s", i+1, IgnoreName)
		}
		if d != (Document{}) {
			objects++
		}
	}
	if objects > 0 && objects < len(documents) {
		return false, errors.New("has documents that are objects, and others that are not: move the others to a file of their own")
	}
	return objects > 0, nil
}

// toolGroups are API groups that no cluster serves. Their objects configure tools.
var toolGroups = map[string]bool{"kpt.dev": true, "kustomize.config.k8s.io": true}

// ForTools reports whether an object is never for a cluster: it is of a tool's API group, or has
// the annotation for local configuration with any value except "false". The argument local is the
// value of that annotation, set whether there is one.
func ForTools(d Document, local string, set bool) bool {
	return toolGroups[kpt.GroupOf(d.APIVersion)] || set && local != "false"
}
