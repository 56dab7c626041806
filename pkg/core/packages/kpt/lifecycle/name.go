package lifecycle

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// Name returns the name of a revision: <repository>.<package>.<workspace>, with dots for the
// slashes of the package.
func Name(repository, packageName, workspace string) string {
	return repository + "." + strings.ReplaceAll(packageName, "/", ".") + "." + workspace
}

// CheckNames returns every error in the names that identify a revision, each with its field.
//
// A part of the path of a package must not have dots. Otherwise two packages could have revisions
// of the same name.
func CheckNames(spec *porchv1alpha1.PackageRevisionSpec) FieldErrors {
	var wrong FieldErrors
	add := func(field, value string, texts []string) {
		for _, text := range texts {
			wrong = append(wrong, FieldErrorf(field, "Invalid value: %q: %s", value, text))
		}
	}
	for _, label := range []struct{ field, value string }{{"spec.repository", spec.RepositoryName}, {"spec.workspaceName", spec.WorkspaceName}} {
		if label.value == "" {
			wrong = append(wrong, FieldErrorf(label.field, "Required value"))
		} else {
			add(label.field, label.value, validation.IsDNS1123Label(label.value))
		}
	}
	if spec.PackageName == "" {
		wrong = append(wrong, FieldErrorf("spec.packageName", "Required value"))
	} else {
		for part := range strings.SplitSeq(spec.PackageName, "/") {
			if texts := validation.IsDNS1123Label(part); len(texts) > 0 {
				add("spec.packageName", spec.PackageName, []string{"each part between slashes " + strings.TrimPrefix(texts[0], "a lowercase RFC 1123 label ")})
				break
			}
		}
	}
	if len(wrong) == 0 {
		if name := Name(spec.RepositoryName, spec.PackageName, spec.WorkspaceName); len(name) > validation.DNS1123SubdomainMaxLength {
			wrong = append(wrong, FieldErrorf("spec.packageName", "Too long: the revision's name %q has more than %d characters", name, validation.DNS1123SubdomainMaxLength))
		}
	}
	return wrong
}
