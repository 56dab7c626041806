package gate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

var definitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Content is what a Transaction validates of a package.
type Content struct {
	// CRDs are the CustomResourceDefinitions that are delivered to clusters, Objects all other
	// objects.
	CRDs, Objects []*unstructured.Unstructured
	// Dependencies are the packages of pkg.crossplane.io that the Kptfile declares.
	Dependencies []xpkg.Dependency
}

// Needed reports whether a package needs the gate. It reads all objects of a package that may have
// CustomResourceDefinitions, and no others.
func Needed(files kpt.Files) bool {
	if declared(files) != "" {
		return true
	}
	for name, content := range files {
		// Text with an escape may be anything.
		if kpt.IsKRM(name) && (strings.Contains(content, definitions.Kind) || strings.ContainsRune(content, '\\')) {
			return len(objects(files).CRDs) > 0
		}
	}
	return false
}

// Read returns the content of a package. The error is an *xpkg.InvalidPackageError.
func Read(files kpt.Files) (*Content, error) {
	content := objects(files)
	text := declared(files)
	if text == "" {
		return content, nil
	}
	var err error
	invalid := func(err error) error {
		return xpkg.Invalidf("Kptfile: metadata.annotations[%s]: %v", pkgv1.AnnotationDependsOn, err)
	}
	if content.Dependencies, err = xpkg.ParseDependencies(text); err != nil {
		return nil, invalid(err)
	}
	for i := range content.Dependencies {
		if _, err := resolve.Fits(content.Dependencies[i].Constraint, resolve.Version{}); err != nil {
			return nil, invalid(fmt.Errorf("%s: %w", content.Dependencies[i].Source, err))
		}
	}
	return content, nil
}

// declared returns the annotation of the Kptfile, "" if there is none.
func declared(files kpt.Files) string {
	kptfile, err := kpt.ParseKptfile(files[kpt.KptfileName])
	if err != nil {
		return "" // the package-server refuses it
	}
	return kptfile.Annotations()[pkgv1.AnnotationDependsOn]
}

// objects returns the objects of a package that are delivered. What is wrong with others is not its
// business: they are not delivered, and the Binding reports them.
func objects(files kpt.Files) *Content {
	content := &Content{}
	found, err := workload.Read(files, nil)
	if err != nil {
		return content // it is that of the kinds, of which there are none
	}
	for i := range found.Objects {
		o := &unstructured.Unstructured{Object: found.Objects[i].Content}
		if o.GroupVersionKind().GroupKind() == definitions {
			content.CRDs = append(content.CRDs, o)
		} else {
			content.Objects = append(content.Objects, o)
		}
	}
	return content
}
