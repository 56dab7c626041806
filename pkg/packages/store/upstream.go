package store

import (
	"context"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lineage"
)

// resolveUpstream returns the name of the revision to clone. The server fetches nothing from git or
// a registry during a request: a Repository of the namespace must have imported the revision.
func (s *Store) resolveUpstream(ctx context.Context, pr *porchv1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) (string, error) {
	if from.UpstreamRef != nil {
		return from.UpstreamRef.Name, nil
	}
	field, wanted, says := "git", from.Git, ""
	if wanted != nil {
		says = fmt.Sprintf("directory %q of %s", wanted.Directory, wanted.Repo)
		if wanted.Ref != "" {
			says += " at " + wanted.Ref
		}
	} else {
		field, says = "oci.image", from.OCI.Image
	}
	notFound := func(format string, args ...any) error {
		return invalid(pr.Name, lifecycle.FieldErrorf("spec.tasks[0].clone.upstreamRef."+field, "Not found: %q: %s", says, fmt.Sprintf(format, args...)))
	}
	repositories, err := s.repositories(pr.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var leading []string
	for i := range repositories.Items {
		repo := &repositories.Items[i]
		pkg, leads := packageAt(repo, from)
		if !leads {
			continue
		}
		if from.Git != nil && from.Git.Ref != "" && from.Git.Ref == repo.Spec.Git.Branch {
			return "", invalid(pr.Name, lifecycle.FieldErrorf("spec.tasks[0].clone.upstreamRef.git.ref", "Invalid value: %q: must be a tag or a commit, not a branch, whose content changes", from.Git.Ref))
		}
		stored, err := s.list(ctx, pr.Namespace, packageSelector(repo.Name, pkg))
		if err != nil {
			return "", err
		}
		if revision := findUpstream(stored, from); revision != nil {
			return revision.Name, nil
		}
		leading = append(leading, repo.Name)
	}
	if len(leading) > 0 {
		return "", notFound("Repository %s has not imported this revision: see its conditions and status.errors, and "+
			"list the imported revisions with: kubectl get packagerevisions", strings.Join(leading, " or "))
	}
	return "", notFound("no Repository in namespace %q has this address: create one (config.porch.kpt.dev), and clone a revision that it imports", pr.Namespace)
}

// packageAt returns the package of a Repository at the location to clone from.
func packageAt(repo *configv1alpha1.Repository, from *porchv1alpha1.UpstreamPackage) (string, bool) {
	if from.Git != nil {
		if repo.Spec.Git == nil || !lineage.SameRepository(repo.Spec.Git.Repo, from.Git.Repo) {
			return "", false
		}
		if root := repo.Spec.Git.RootPackage; root != "" {
			return root, strings.Trim(path.Clean("/"+from.Git.Directory), "/") == strings.Trim(repo.Spec.Git.Directory, "/")
		}
		return pathBelow(repo.Spec.Git.Directory, from.Git.Directory)
	}
	if repo.Spec.Oci == nil {
		return "", false
	}
	return pathBelow(repo.Spec.Oci.Registry, lineage.ImageName(from.OCI.Image))
}

// pathBelow returns name relative to dir, if it is below dir.
func pathBelow(dir, name string) (string, bool) {
	dir, name = strings.Trim(dir, "/"), strings.Trim(path.Clean(name), "/")
	if dir == "" {
		return name, name != "." && name != ""
	}
	return strings.CutPrefix(name, dir+"/")
}

func findUpstream(stored []storev1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) *porchv1alpha1.PackageRevision {
	all := make(lineage.Revisions, len(stored))
	for i := range stored {
		all[i] = porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: stored[i].Name}, Spec: stored[i].Spec, Status: stored[i].Status}
	}
	if from.Git != nil {
		return all.FromGit(from.Git)
	}
	return all.FromOCI(from.OCI.Image)
}
