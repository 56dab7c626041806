package packages

import (
	"context"
	"errors"
	"fmt"
	"path"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/upgrade"
)

// source is what a task makes a revision of.
type source struct {
	draft
	// content says what it was made of.
	content storev1alpha1.Content
	// needs are digests of content that others put.
	needs []string
}

// ingredients are what a task makes a revision of.
type ingredients struct {
	files []kptpkg.Files
	// mix makes it. It takes many times the memory of the files.
	mix func() (*source, error)
}

// take reads what the task that a revision is created with needs.
func (s *Store) take(ctx context.Context, pr *porchv1alpha1.PackageRevision) (*ingredients, error) {
	switch task := pr.Spec.Tasks[0]; {
	case task.Init != nil:
		return &ingredients{mix: func() (*source, error) { return initialised(pr, task.Init) }}, nil
	case task.Clone != nil:
		return s.clone(ctx, pr, &task.Clone.Upstream)
	case task.Edit != nil:
		return s.edit(ctx, pr, task.Edit)
	default:
		return s.upgrade(ctx, pr, task.Upgrade)
	}
}

func initialised(pr *porchv1alpha1.PackageRevision, task *porchv1alpha1.PackageInitTaskSpec) (*source, error) {
	name := path.Base(pr.Spec.PackageName)
	kptfile := kptpkg.NewKptfile(name, "")
	if err := kptfile.SetInfo(kptpkg.Info{Site: task.Site, Description: task.Description, Keywords: task.Keywords}); err != nil {
		return nil, err
	}
	readme := "# " + name + "\n"
	if task.Description != "" {
		readme += "\n" + task.Description + "\n"
	}
	dir := task.Subpackage
	files := kptpkg.Files{
		path.Join(dir, kptpkg.KptfileName): kptfile.String(),
		path.Join(dir, "README.md"):        readme,
	}
	if dir != "" {
		files[kptpkg.KptfileName] = kptpkg.NewKptfile(name, "").String()
	}
	return &source{draft: draft{files: files}}, nil
}

// clone takes over an upstream. Gates and conditions of it are about its own making.
func (s *Store) clone(ctx context.Context, pr *porchv1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) (*ingredients, error) {
	name, err := s.upstreamName(ctx, pr, from)
	if err != nil {
		return nil, err
	}
	upstream, files, err := s.referred(ctx, pr, "clone.upstreamRef", name, false)
	if err != nil {
		return nil, err
	}
	return &ingredients{[]kptpkg.Files{files}, func() (*source, error) {
		files, err := upgrade.Follow(files, upstream, path.Base(pr.Spec.PackageName), porchv1alpha1.ResourceMerge)
		if err != nil {
			return nil, invalid(pr.Name, fmt.Sprintf("the upstream %s: %v", upstream.Name, err))
		}
		return &source{
			draft:   draft{files: s.marks.add(upstream.Content.Digest, files)},
			content: storev1alpha1.Content{Base: upstream.Content.Digest, Upstream: upstream.Name, UpstreamDigest: upstream.Content.Digest},
			needs:   []string{upstream.Content.Digest},
		}, nil
	}}, nil
}

// edit copies a published revision of the same package. Its gates stay; what was said of it was said of other content.
func (s *Store) edit(ctx context.Context, pr *porchv1alpha1.PackageRevision, task *porchv1alpha1.PackageEditTaskSpec) (*ingredients, error) {
	from, files, err := s.referred(ctx, pr, "edit.sourceRef", task.Source.Name, true)
	if err != nil {
		return nil, err
	}
	if err := samePackage(pr, from, "edit.sourceRef"); err != nil {
		return nil, err
	}
	return &ingredients{[]kptpkg.Files{files}, func() (*source, error) { return copied(pr, from, files) }}, nil
}

// copied is a revision that goes on from another of its package.
func copied(pr *porchv1alpha1.PackageRevision, from *storev1alpha1.PackageRevision, files kptpkg.Files) (*source, error) {
	d, err := mirrored(files)
	if err != nil {
		return nil, invalid(pr.Name, fmt.Sprintf("the files of %s: %v", from.Name, err))
	}
	d.conditions = nil
	src := &source{draft: d, content: from.Content, needs: []string{from.Content.Digest}}
	src.content.Base, src.content.Imported = from.Content.Digest, false
	if up := from.Content.UpstreamDigest; up != "" && up != from.Content.Digest {
		src.needs = append(src.needs, up)
	}
	return src, nil
}

// upgrade merges a newer revision of the upstream into a published one.
func (s *Store) upgrade(ctx context.Context, pr *porchv1alpha1.PackageRevision, task *porchv1alpha1.PackageUpgradeTaskSpec) (*ingredients, error) {
	_, original, err := s.referred(ctx, pr, "upgrade.oldUpstreamRef", task.OldUpstream.Name, true)
	if err != nil {
		return nil, err
	}
	newUpstream, updated, err := s.referred(ctx, pr, "upgrade.newUpstreamRef", task.NewUpstream.Name, true)
	if err != nil {
		return nil, err
	}
	local, files, err := s.referred(ctx, pr, "upgrade.localPackageRevisionRef", task.LocalPackageRevisionRef.Name, true)
	if err != nil {
		return nil, err
	}
	if err := samePackage(pr, local, "upgrade.localPackageRevisionRef"); err != nil {
		return nil, err
	}
	return &ingredients{[]kptpkg.Files{original, updated, files}, func() (*source, error) {
		merged, conflicts, err := upgrade.Merge(task.Strategy, original, newUpstream, updated, files)
		var wrong *upgrade.UpstreamError
		switch {
		case errors.As(err, &wrong):
			return nil, invalid(pr.Name, fmt.Sprintf("the upstream %s: %v", newUpstream.Name, err))
		case err != nil:
			return nil, invalid(pr.Name, "spec.tasks[0].upgrade: "+err.Error())
		}
		src, err := copied(pr, local, merged)
		if err != nil {
			return nil, err
		}
		src.content.Upstream, src.content.UpstreamDigest = newUpstream.Name, newUpstream.Content.Digest
		src.needs = []string{local.Content.Digest, newUpstream.Content.Digest}
		if conflicts != nil {
			src.conditions = append(src.conditions, *conflicts)
		}
		return src, nil
	}}, nil
}

// referred returns a revision that a task names, and its files.
func (s *Store) referred(ctx context.Context, pr *porchv1alpha1.PackageRevision, field, name string, published bool) (*storev1alpha1.PackageRevision, kptpkg.Files, error) {
	field = "spec.tasks[0]." + field + ".name"
	// Of what is published, nothing changes that a copy is made of: what the API server remembers is enough.
	cr, err := s.Revisions(pr.Namespace).Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || !cr.Spec.Lifecycle.Published() || cr.DeletionTimestamp != nil {
		cr, err = s.Get(ctx, pr.Namespace, name)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, invalid(pr.Name, fmt.Sprintf("%s: Not found: %q", field, name))
	case err != nil:
		return nil, nil, err
	case cr.DeletionTimestamp != nil:
		return nil, nil, invalid(pr.Name, fmt.Sprintf("%s: Invalid value: %q: is being deleted", field, name))
	case cr.External.Branch:
		return nil, nil, invalid(pr.Name, fmt.Sprintf("%s: Invalid value: %q: is the content of a branch, which moves; name a published revision", field, name))
	case published && !cr.Spec.Lifecycle.Published():
		return nil, nil, invalid(pr.Name, fmt.Sprintf("%s: Invalid value: %q: must be published, is %s", field, name, cr.Spec.Lifecycle))
	}
	files, err := s.Files(ctx, cr)
	return cr, files, err
}

func samePackage(pr *porchv1alpha1.PackageRevision, cr *storev1alpha1.PackageRevision, field string) error {
	if pr.Spec.PackageName == cr.Spec.PackageName && pr.Spec.RepositoryName == cr.Spec.RepositoryName {
		return nil
	}
	return invalid(pr.Name, fmt.Sprintf("spec.tasks[0].%s.name: Invalid value: %q: is a revision of package %s in repository %s, not of %s in %s",
		field, cr.Name, cr.Spec.PackageName, cr.Spec.RepositoryName, pr.Spec.PackageName, pr.Spec.RepositoryName))
}

// contextFile is where packages of a deployment repository find their own name.
const contextFile = "package-context.yaml"

// addContext tells a package of a deployment repository its name. What else the file says stays.
func addContext(files kptpkg.Files, repository *configv1alpha1.Repository, packageName string) (kptpkg.Files, error) {
	if repository == nil || !repository.Spec.Deployment {
		return files, nil
	}
	documents := []*yaml.RNode{}
	if text, there := files[contextFile]; there {
		var err error
		if documents, err = kptpkg.Documents(text); err != nil {
			return nil, fmt.Errorf("%s: %w", contextFile, err)
		}
	}
	for _, document := range documents {
		if document.GetKind() == "ConfigMap" && document.GetName() == contextName {
			return setContext(files, documents, document, packageName)
		}
	}
	fresh := yaml.MustParse("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + contextName +
		"\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n")
	return setContext(files, append(documents, fresh), fresh, packageName)
}

const contextName = "kptfile.kpt.dev"

func setContext(files kptpkg.Files, documents []*yaml.RNode, document *yaml.RNode, packageName string) (kptpkg.Files, error) {
	for _, entry := range []struct{ key, value string }{{"name", path.Base(packageName)}, {"package-path", packageName}} {
		if document.GetDataMap()[entry.key] == entry.value {
			continue
		}
		err := document.PipeE(yaml.LookupCreate(yaml.MappingNode, "data"), yaml.SetField(entry.key, yaml.NewStringRNode(entry.value)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", contextFile, err)
		}
	}
	text, err := kptpkg.Text(documents)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", contextFile, err)
	}
	return with(files, contextFile, text), nil
}
