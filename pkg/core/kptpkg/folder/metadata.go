package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// MetadataName is the file at the top of a folder that says what was pulled into it. The name, the kind and the metadata in it are
// those that kpt and Porch use.
const MetadataName = ".KptRevisionMetadata"

const metadataKind = "KptRevisionMetadata"

// Metadata says what was pulled into a folder.
type Metadata struct {
	// Namespace and Name are those of the revision.
	Namespace, Name string
	UID             string
	// ResourceVersion is that of the files as they were pulled, or pushed last.
	ResourceVersion string
	// Repository, Package and Workspace are those of the revision; "" in a folder that another program pulled.
	Repository, Package, Workspace string
	// Files are the digests of the files as they were then, by path; nil in a folder that another program pulled.
	Files map[string]string
}

// metadataFile is how Metadata is written.
type metadataFile struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name            string `yaml:"name"`
		Namespace       string `yaml:"namespace"`
		ResourceVersion string `yaml:"resourceVersion"`
		UID             string `yaml:"uid,omitempty"`
	} `yaml:"metadata"`
	Spec struct {
		Repository string            `yaml:"repository,omitempty"`
		Package    string            `yaml:"packageName,omitempty"`
		Workspace  string            `yaml:"workspaceName,omitempty"`
		Files      map[string]string `yaml:"files,omitempty"`
	} `yaml:"spec,omitempty"`
}

// NewMetadata returns what is to be noted of resources that were read from, or written to, the server.
func NewMetadata(resources *porchv1alpha1.PackageRevisionResources) Metadata {
	return Metadata{
		Namespace: resources.Namespace, Name: resources.Name, UID: string(resources.UID), ResourceVersion: resources.ResourceVersion,
		Repository: resources.Spec.RepositoryName, Package: resources.Spec.PackageName, Workspace: resources.Spec.WorkspaceName,
		Files: Digests(resources.Spec.Resources),
	}
}

// Digests returns the digest of each file.
func Digests(files kptpkg.Files) map[string]string {
	digests := make(map[string]string, len(files))
	for name, content := range files {
		sum := sha256.Sum256([]byte(content))
		digests[name] = "sha256:" + hex.EncodeToString(sum[:])
	}
	return digests
}

// ParseMetadata reads the file.
func ParseMetadata(content string) (Metadata, error) {
	documents, err := kptpkg.Documents(content)
	if err != nil {
		return Metadata{}, err
	}
	if len(documents) != 1 {
		return Metadata{}, fmt.Errorf("has %d documents, want one", len(documents))
	}
	var f metadataFile
	if err := documents[0].YNode().Decode(&f); err != nil {
		return Metadata{}, err
	}
	switch {
	case f.Kind != metadataKind:
		return Metadata{}, fmt.Errorf("kind is %q, want %s", f.Kind, metadataKind)
	case f.Metadata.Name == "":
		return Metadata{}, errors.New("metadata.name is missing")
	case f.Metadata.ResourceVersion == "":
		return Metadata{}, errors.New("metadata.resourceVersion is missing")
	}
	m := Metadata{
		Namespace: f.Metadata.Namespace, Name: f.Metadata.Name, UID: f.Metadata.UID, ResourceVersion: f.Metadata.ResourceVersion,
		Repository: f.Spec.Repository, Package: f.Spec.Package, Workspace: f.Spec.Workspace, Files: f.Spec.Files,
	}
	return m, nil
}

// String writes the file.
func (m Metadata) String() string {
	f := metadataFile{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: metadataKind}
	f.Metadata.Name, f.Metadata.Namespace, f.Metadata.ResourceVersion, f.Metadata.UID = m.Name, m.Namespace, m.ResourceVersion, m.UID
	f.Spec.Repository, f.Spec.Package, f.Spec.Workspace, f.Spec.Files = m.Repository, m.Package, m.Workspace, m.Files
	text, err := yaml.Marshal(f)
	if err != nil {
		panic("folder: " + err.Error()) // strings can be written
	}
	return string(text)
}

// SamePackage tells whether both are of one package, of whatever revision.
func (m Metadata) SamePackage(other Metadata) bool {
	if m.Package == "" || other.Package == "" {
		return m.Namespace == other.Namespace && m.Name == other.Name
	}
	return m.Namespace == other.Namespace && m.Repository == other.Repository && m.Package == other.Package
}

// Pulled tells whether the files are those that the folder was pulled from; false if that is not known.
func (m Metadata) Pulled(files kptpkg.Files) bool {
	if m.Files == nil || len(m.Files) != len(files) {
		return false
	}
	for name, digest := range Digests(files) {
		if m.Files[name] != digest {
			return false
		}
	}
	return true
}

// Plan is what becomes of a folder when it is pulled into once more.
type Plan struct {
	// Write are files that the server has otherwise and nobody touched in the folder.
	Write []string
	// Remove are files that the server has no more and nobody touched.
	Remove []string
	// Keep are files that were touched in the folder and not at the server.
	Keep []string
	// Conflicts are files that were touched in the folder and, otherwise, at the server.
	Conflicts []string
}

// NewPlan compares what was pulled before, what is in the folder and what the server has. Lists are sorted. Files that are the same on
// both sides are in none.
func NewPlan(m Metadata, local, server kptpkg.Files) Plan {
	var p Plan
	mine, theirs := Digests(local), Digests(server)
	names := append(local.Paths(), server.Paths()...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		base, was := m.Files[name]
		here, isHere := mine[name]
		there, isThere := theirs[name]
		untouchedHere := was == isHere && base == here
		untouchedThere := was == isThere && base == there
		switch {
		case isHere == isThere && here == there:
		case untouchedHere && isThere:
			p.Write = append(p.Write, name)
		case untouchedHere:
			p.Remove = append(p.Remove, name)
		case untouchedThere:
			p.Keep = append(p.Keep, name)
		default:
			p.Conflicts = append(p.Conflicts, name)
		}
	}
	return p
}

// Changes are the files that differ between two versions, with the words for it; sorted.
func Changes(before, after kptpkg.Files) (added, changed, removed []string) {
	for _, name := range after.Paths() {
		if was, there := before[name]; !there {
			added = append(added, name)
		} else if was != after[name] {
			changed = append(changed, name)
		}
	}
	for _, name := range before.Paths() {
		if _, there := after[name]; !there {
			removed = append(removed, name)
		}
	}
	return added, changed, removed
}
