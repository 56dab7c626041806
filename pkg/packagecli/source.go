package packagecli

import (
	"fmt"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// gitFlags say more of a package in git.
type gitFlags struct{ ref, directory, secret string }

// parseSource tells what a user wants to clone: a revision by its name, a package in git, or an image. For git both kpt's form
// REPOSITORY.git/DIRECTORY@REF and flags are known.
func parseSource(source string, flags gitFlags) (porchv1alpha1.UpstreamPackage, error) {
	none := porchv1alpha1.UpstreamPackage{}
	if image, ok := strings.CutPrefix(source, "oci://"); ok {
		if flags != (gitFlags{}) {
			return none, fmt.Errorf("--ref, --directory and --secret-ref are of packages in git; %q is an image", source)
		}
		return porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeOCI, OCI: &porchv1alpha1.OCIPackage{Image: image}}, nil
	}
	if !isGit(source) {
		if flags != (gitFlags{}) {
			return none, fmt.Errorf("--ref, --directory and --secret-ref are of packages in git; %q is the name of a revision", source)
		}
		return porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: source}}, nil
	}
	git := porchv1alpha1.GitPackage{Repo: source}
	if at := strings.Index(source, ".git/"); at >= 0 {
		git.Repo, git.Directory = source[:at+len(".git")], source[at+len(".git/"):]
		git.Directory, git.Ref, _ = strings.Cut(git.Directory, "@")
	} else if repo, ref, found := strings.Cut(source, ".git@"); found {
		git.Repo, git.Ref = repo+".git", ref
	}
	for _, part := range []struct {
		flag, value string
		into        *string
	}{{"--ref", flags.ref, &git.Ref}, {"--directory", flags.directory, &git.Directory}} {
		if part.value != "" && *part.into != "" {
			return none, fmt.Errorf("%s is given, and %q says it as well", part.flag, source)
		}
		if part.value != "" {
			*part.into = part.value
		}
	}
	git.SecretRef.Name = flags.secret
	return porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeGit, Git: &git}, nil
}

// isGit tells an address of a git repository from the name of a revision, which has no colon and no slash.
func isGit(source string) bool { return strings.ContainsAny(source, ":/") }
