package apiserver

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts has the errors of requests that do not reach the store, and the columns of tables.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	add := func(heading string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", heading)
			return
		}
		texts = append(texts, golden.Text{Heading: heading, Text: err.Error()})
	}
	_, _, err := checkFieldSelector("spec.tasks", "x")
	add("a field selector that is not supported", err)
	object := func(change func(*porchv1alpha1.PackageRevision)) *porchv1alpha1.PackageRevision {
		pr := &porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "packages", Name: "edge.web.v1", UID: "uid-1", ResourceVersion: "7"}}
		change(pr)
		return pr
	}
	old := object(func(*porchv1alpha1.PackageRevision) {})
	for _, wrong := range []struct {
		heading string
		change  func(*porchv1alpha1.PackageRevision)
	}{
		{"an update without resourceVersion", func(pr *porchv1alpha1.PackageRevision) { pr.ResourceVersion = "" }},
		{"an update of another name", func(pr *porchv1alpha1.PackageRevision) { pr.Namespace, pr.Name = "", "edge.db.v1" }},
		{"an update of another namespace", func(pr *porchv1alpha1.PackageRevision) { pr.Namespace = "other" }},
		{"an update of a revision that was re-created", func(pr *porchv1alpha1.PackageRevision) { pr.UID = "uid-0" }},
		{"an update of a revision that was changed", func(pr *porchv1alpha1.PackageRevision) { pr.ResourceVersion = "6" }},
	} {
		add(wrong.heading, checkIdentity(old.Name, object(wrong.change), old))
	}
	add("a list of large revisions", (&resources{maxBytes: 64 << 20}).errTooLarge())
	_, err = (&porchPackages{kind: packageKind}).Get(t.Context(), "web", nil)
	add("a name that is not one of a package", err)
	add("the server is not ready", errNoClientCA)
	for _, table := range []struct {
		heading string
		columns []metav1.TableColumnDefinition
	}{
		{"columns of packagerevisions", revisionKind.columns},
		{"columns of packagerevisionresources", resourcesKind.columns},
		{"columns of packages", packageKind.columns},
	} {
		var lines []string
		for _, c := range table.columns {
			lines = append(lines, c.Name+": "+c.Description)
		}
		texts = append(texts, golden.Text{Heading: table.heading, Text: strings.Join(lines, "\n")})
	}
	golden.Texts(t, texts...)
}
