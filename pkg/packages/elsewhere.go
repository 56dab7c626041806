package packages

import (
	"context"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lineage"
)

// upstreamName is the name of the revision that a clone is made of. What lies in git or in a registry is not fetched in a request: it is
// a revision that a Repository of the namespace has imported from there.
func (s *Store) upstreamName(ctx context.Context, pr *porchv1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) (string, error) {
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
		return invalid(pr.Name, fmt.Sprintf("spec.tasks[0].clone.upstreamRef.%s: Not found: %q: nothing is fetched in a request, and ", field, says)+fmt.Sprintf(format, args...))
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
			return "", invalid(pr.Name, fmt.Sprintf("spec.tasks[0].clone.upstreamRef.git.ref: Invalid value: %q: is a branch, which moves; name a tag or a commit", from.Git.Ref))
		}
		kept, err := s.list(ctx, pr.Namespace, ofPackage(repo.Name, pkg))
		if err != nil {
			return "", err
		}
		if revision := upstreamAmong(kept, from); revision != nil {
			return revision.Name, nil
		}
		leading = append(leading, repo.Name)
	}
	if len(leading) > 0 {
		return "", notFound("Repository %s, which leads there, has imported no such revision; its conditions and errors say why, and "+
			"kubectl get packagerevisions what there is", strings.Join(leading, " or "))
	}
	return "", notFound("no Repository of namespace %s leads there: make a Repository (config.porch.kpt.dev) that does, and clone what it imports", pr.Namespace)
}

// packageAt returns the package of a Repository that lies where a clone is to be made from.
func packageAt(repo *configv1alpha1.Repository, from *porchv1alpha1.UpstreamPackage) (string, bool) {
	if from.Git != nil {
		if repo.Spec.Git == nil || !lineage.SameRepository(repo.Spec.Git.Repo, from.Git.Repo) {
			return "", false
		}
		return below(repo.Spec.Git.Directory, from.Git.Directory)
	}
	if repo.Spec.Oci == nil {
		return "", false
	}
	return below(repo.Spec.Oci.Registry, lineage.ImageName(from.OCI.Image))
}

// below returns the rest of a path below a directory.
func below(dir, name string) (string, bool) {
	dir, name = strings.Trim(dir, "/"), strings.Trim(path.Clean(name), "/")
	if dir == "" {
		return name, name != "." && name != ""
	}
	return strings.CutPrefix(name, dir+"/")
}

func upstreamAmong(kept []storev1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) *porchv1alpha1.PackageRevision {
	all := make(lineage.Revisions, len(kept))
	for i := range kept {
		all[i] = porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: kept[i].Name}, Spec: kept[i].Spec, Status: kept[i].Status}
	}
	if from.Git != nil {
		return all.FromGit(from.Git)
	}
	return all.FromOCI(from.OCI.Image)
}
