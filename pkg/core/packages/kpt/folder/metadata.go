package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// MetadataName is the file in a folder that identifies the revision that was pulled into it. Its
// name, kind and metadata are those that kpt and Porch use.
const MetadataName = ".KptRevisionMetadata"

const metadataKind = "KptRevisionMetadata"

// Metadata identifies the revision that was pulled into a folder.
type Metadata struct {
	// Namespace and Name of the revision.
	Namespace, Name string
	UID             string
	// ResourceVersion of the files at the last pull or push.
	ResourceVersion string
	// Repository, Package and Workspace of the revision; "" if another program pulled the folder.
	Repository, Package, Workspace string
	// Files are the digests of the files at that time, by path; nil if another program pulled the
	// folder.
	Files map[string]string
}

// metadataFile is the encoding of Metadata.
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

// NewMetadata returns the metadata of resources that were read from, or written to, the server.
func NewMetadata(resources *porchv1alpha1.PackageRevisionResources) Metadata {
	return Metadata{
		Namespace: resources.Namespace, Name: resources.Name, UID: string(resources.UID), ResourceVersion: resources.ResourceVersion,
		Repository: resources.Spec.RepositoryName, Package: resources.Spec.PackageName, Workspace: resources.Spec.WorkspaceName,
		Files: Digests(resources.Spec.Resources),
	}
}

// Digests returns the digest of each file.
func Digests(files kpt.Files) map[string]string {
	digests := make(map[string]string, len(files))
	for name, content := range files {
		sum := sha256.Sum256([]byte(content))
		digests[name] = "sha256:" + hex.EncodeToString(sum[:])
	}
	return digests
}

// ParseMetadata parses the file.
func ParseMetadata(content string) (Metadata, error) {
	documents, err := kpt.Documents(content)
	if err != nil {
		return Metadata{}, err
	}
	if len(documents) != 1 {
		return Metadata{}, fmt.Errorf("must have one document, has %d", len(documents))
	}
	if documents[0].YNode().Kind != yaml.MappingNode {
		return Metadata{}, errors.New("is not an object")
	}
	var f metadataFile
	if err := documents[0].YNode().Decode(&f); err != nil {
		return Metadata{}, kpt.DecodeError(err)
	}
	switch {
	case f.Kind != metadataKind:
		return Metadata{}, fmt.Errorf("kind must be %s, is %q", metadataKind, f.Kind)
	case f.Metadata.Name == "":
		return Metadata{}, errors.New("metadata.name is required")
	case f.Metadata.ResourceVersion == "":
		return Metadata{}, errors.New("metadata.resourceVersion is required")
	}
	return Metadata{
		Namespace: f.Metadata.Namespace, Name: f.Metadata.Name, UID: f.Metadata.UID, ResourceVersion: f.Metadata.ResourceVersion,
		Repository: f.Spec.Repository, Package: f.Spec.Package, Workspace: f.Spec.Workspace, Files: f.Spec.Files,
	}, nil
}

// String encodes the file.
func (m Metadata) String() string {
	f := metadataFile{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: metadataKind}
	f.Metadata.Name, f.Metadata.Namespace, f.Metadata.ResourceVersion, f.Metadata.UID = m.Name, m.Namespace, m.ResourceVersion, m.UID
	f.Spec.Repository, f.Spec.Package, f.Spec.Workspace, f.Spec.Files = m.Repository, m.Package, m.Workspace, m.Files
	text, err := yaml.Marshal(f)
	if err != nil {
		panic("folder: " + err.Error()) // strings can always be encoded
	}
	return string(text)
}

// SamePackage reports whether both are revisions of one package.
func (m Metadata) SamePackage(other Metadata) bool {
	if m.Package == "" || other.Package == "" {
		return m.Namespace == other.Namespace && m.Name == other.Name
	}
	return m.Namespace == other.Namespace && m.Repository == other.Repository && m.Package == other.Package
}

// Pulled reports whether the files are equal to those that were pulled; false if that is unknown.
func (m Metadata) Pulled(files kpt.Files) bool {
	return m.Files != nil && maps.Equal(m.Files, Digests(files))
}

// Plan holds the changes of a folder when it is pulled again.
type Plan struct {
	// Write are files that differ on the server and did not change in the folder.
	Write []string
	// Remove are files that the server no longer has and that did not change in the folder.
	Remove []string
	// Keep are files that changed in the folder and not on the server.
	Keep []string
	// Conflicts are files that changed differently in the folder and on the server.
	Conflicts []string
}

// NewPlan compares the files of the last pull, of the folder, and of the server. Lists are sorted.
// Files that are equal in the folder and on the server are in no list.
func NewPlan(m Metadata, local, server kpt.Files) Plan {
	var p Plan
	locals, servers := Digests(local), Digests(server)
	for _, name := range kpt.PathsOf(local, server) {
		base, inBase := m.Files[name]
		mine, inLocal := locals[name]
		theirs, onServer := servers[name]
		sameLocal := inBase == inLocal && base == mine
		sameServer := inBase == onServer && base == theirs
		switch {
		case inLocal == onServer && mine == theirs:
		case sameLocal && onServer:
			p.Write = append(p.Write, name)
		case sameLocal:
			p.Remove = append(p.Remove, name)
		case sameServer:
			p.Keep = append(p.Keep, name)
		default:
			p.Conflicts = append(p.Conflicts, name)
		}
	}
	return p
}

// Changes returns the files that differ between two versions, sorted.
func Changes(before, after kpt.Files) (added, changed, removed []string) {
	for _, name := range kpt.PathsOf(before, after) {
		was, existed := before[name]
		is, exists := after[name]
		switch {
		case !existed:
			added = append(added, name)
		case !exists:
			removed = append(removed, name)
		case was != is:
			changed = append(changed, name)
		}
	}
	return added, changed, removed
}
