package lifecycle

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// Name returns the name of a revision: <repository>.<package>.<workspace>, with dots for the slashes of the package.
func Name(repository, packageName, workspace string) string {
	return repository + "." + strings.ReplaceAll(packageName, "/", ".") + "." + workspace
}

// CheckNames returns what is wrong with the names that make up the identity of a revision, each with its field.
//
// A part of a package's path has no dots, or two packages could have revisions of one name.
func CheckNames(spec *porchv1alpha1.PackageRevisionSpec) []string {
	var wrong []string
	say := func(field, value string, texts []string) {
		for _, text := range texts {
			wrong = append(wrong, fmt.Sprintf("%s: Invalid value: %q: %s", field, value, text))
		}
	}
	if spec.RepositoryName == "" {
		wrong = append(wrong, "spec.repository: Required value")
	} else {
		say("spec.repository", spec.RepositoryName, validation.IsDNS1123Label(spec.RepositoryName))
	}
	if spec.WorkspaceName == "" {
		wrong = append(wrong, "spec.workspaceName: Required value")
	} else {
		say("spec.workspaceName", spec.WorkspaceName, validation.IsDNS1123Label(spec.WorkspaceName))
	}
	if spec.PackageName == "" {
		wrong = append(wrong, "spec.packageName: Required value")
	} else {
		for part := range strings.SplitSeq(spec.PackageName, "/") {
			if texts := validation.IsDNS1123Label(part); len(texts) > 0 {
				say("spec.packageName", spec.PackageName, []string{"each part between slashes " + strings.TrimPrefix(texts[0], "a lowercase RFC 1123 label ")})
				break
			}
		}
	}
	if len(wrong) == 0 {
		if name := Name(spec.RepositoryName, spec.PackageName, spec.WorkspaceName); len(name) > validation.DNS1123SubdomainMaxLength {
			wrong = append(wrong, fmt.Sprintf("spec.packageName: Too long: the revision's name %q has more than %d characters", name, validation.DNS1123SubdomainMaxLength))
		}
	}
	return wrong
}

// Nested tells whether one of two packages of a repository lies in the other, which no repository can hold.
func Nested(a, b string) bool {
	return a != b && (strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/"))
}
