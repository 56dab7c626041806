package cli

import (
	"fmt"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// gitFlags are the flags for a package in git.
type gitFlags struct{ ref, directory, secret string }

// parseSource parses SOURCE: the name of a revision, a package in git, or an image. For git it
// accepts kpt's form REPOSITORY.git/DIRECTORY@REF and flags.
func parseSource(source string, flags gitFlags) (porchv1alpha1.UpstreamPackage, error) {
	none := porchv1alpha1.UpstreamPackage{}
	image, isImage := strings.CutPrefix(source, "oci://")
	switch noFlags := flags == (gitFlags{}); {
	case isImage && !noFlags:
		return none, fmt.Errorf("--ref, --directory and --secret-ref require a package in git, but %q is an image", source)
	case isImage:
		return porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeOCI, OCI: &porchv1alpha1.OCIPackage{Image: image}}, nil
	case !isGit(source) && !noFlags:
		return none, fmt.Errorf("--ref, --directory and --secret-ref require a package in git, but %q is the name of a revision", source)
	case !isGit(source):
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
			return none, fmt.Errorf("%s must not be used with %q, which includes it", part.flag, source)
		}
		if part.value != "" {
			*part.into = part.value
		}
	}
	git.SecretRef.Name = flags.secret
	return porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeGit, Git: &git}, nil
}

// isGit reports whether a source is the address of a git repository. Names of revisions have no
// colons and slashes.
func isGit(source string) bool { return strings.ContainsAny(source, ":/") }
