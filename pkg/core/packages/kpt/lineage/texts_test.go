package lineage

import (
	"testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors of the CLI about the revisions that a revision was created from.
func TestTexts(t *testing.T) {
	oci := revision("edge.image.v1", 1, porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{
		Upstream: porchv1alpha1.UpstreamPackage{OCI: &porchv1alpha1.OCIPackage{Image: "registry.example.com/web:v1"}},
	}})
	unknown := revision("edge.unknown.v1", 1, porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{}})
	all := append(revisions(), oci, unknown)
	var texts []golden.Text
	add := func(heading string, _ *porchv1alpha1.PackageRevision, err error) {
		if err == nil {
			t.Fatalf("%s: no error", heading)
		}
		texts = append(texts, golden.Text{Heading: heading, Text: err.Error()})
	}
	base := func(heading, name string) {
		found, err := all.Base(all.Get(name))
		add("base of "+heading, found, err)
	}
	upstream := func(heading, name string) {
		found, err := all.Upstream(all.Get(name))
		add("upstream of "+heading, found, err)
	}
	find := func(heading, repository, name string) {
		found, err := all.Find(repository, "web", name)
		add(heading, found, err)
	}
	base("a clone of a deleted revision", "edge.lost.v1")
	base("a clone from git", "edge.foreign.v1")
	base("a clone of an image", "edge.image.v1")
	base("a clone without a location", "edge.unknown.v1")
	base("an imported revision", "edge.odd.v1")
	upstream("a package that is not a clone", "edge.own.v1")
	upstream("revisions in a cycle", "edge.circle.v1")
	find("a package without published revisions", "nowhere", "v1")
	find("an unknown revision", "up", "v9")
	golden.Texts(t, texts...)
}
