package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

func TestParseSource(t *testing.T) {
	git := func(repo, directory, ref, secret string) porchv1alpha1.UpstreamPackage {
		return porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitPackage{
			Repo: repo, Directory: directory, Ref: ref, SecretRef: porchv1alpha1.SecretRef{Name: secret},
		}}
	}
	tests := map[string]struct {
		source  string
		flags   gitFlags
		want    porchv1alpha1.UpstreamPackage
		wantErr string
	}{
		"a revision":           {source: "catalog.web.v1", want: porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: "catalog.web.v1"}}},
		"kpt's form":           {source: "https://example.com/packages.git/shop/web@web/v2", want: git("https://example.com/packages.git", "shop/web", "web/v2", "")},
		"without a directory":  {source: "https://example.com/packages.git@v2", want: git("https://example.com/packages.git", "", "v2", "")},
		"ssh":                  {source: "git@example.com:packages.git/web@v1", want: git("git@example.com:packages.git", "web", "v1", "")},
		"flags":                {source: "https://example.com/packages", flags: gitFlags{"v2", "web", "token"}, want: git("https://example.com/packages", "web", "v2", "token")},
		"a file":               {source: "file:///srv/packages", flags: gitFlags{ref: "main"}, want: git("file:///srv/packages", "", "main", "")},
		"a path":               {source: "/srv/packages.git/web", want: git("/srv/packages.git", "web", "", "")},
		"a user in a URL":      {source: "https://me@example.com/packages.git", want: git("https://me@example.com/packages.git", "", "", "")},
		"an image":             {source: "oci://example.com/web:v1", want: porchv1alpha1.UpstreamPackage{Type: porchv1alpha1.RepositoryTypeOCI, OCI: &porchv1alpha1.OCIPackage{Image: "example.com/web:v1"}}},
		"twice a ref":          {source: "https://example.com/packages.git@v2", flags: gitFlags{ref: "v3"}, wantErr: `--ref must not be used with "https://example.com/packages.git@v2", which includes it`},
		"twice a directory":    {source: "https://example.com/packages.git/web", flags: gitFlags{directory: "x"}, wantErr: `--directory must not be used with "https://example.com/packages.git/web", which includes it`},
		"flags for a revision": {source: "catalog.web.v1", flags: gitFlags{ref: "v3"}, wantErr: `--ref, --directory and --secret-ref require a package in git, but "catalog.web.v1" is the name of a revision`},
		"flags for an image":   {source: "oci://example.com/web", flags: gitFlags{ref: "v3"}, wantErr: `--ref, --directory and --secret-ref require a package in git, but "oci://example.com/web" is an image`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseSource(test.source, test.flags)
			if (err == nil) != (test.wantErr == "") || err != nil && err.Error() != test.wantErr {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
