package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// source is the initial content of a revision, as its task defines it.
type source struct {
	draft
	// content refers to the content that it was made from.
	content storev1alpha1.Content
	// requiredDigests are digests of other revisions' content that this one refers to.
	requiredDigests []string
}

// loadedSource has the files that a task needs.
type loadedSource struct {
	files []kpt.Files
	// build merges them into the source. It takes many times the memory of the files.
	build func() (*source, error)
}

// loadSource reads the files that the first task of a revision needs.
func (s *Store) loadSource(ctx context.Context, pr *porchv1alpha1.PackageRevision) (*loadedSource, error) {
	switch task := pr.Spec.Tasks[0]; {
	case task.Init != nil:
		return &loadedSource{build: func() (*source, error) { return initSource(pr, task.Init) }}, nil
	case task.Clone != nil:
		return s.loadClone(ctx, pr, &task.Clone.Upstream)
	case task.Edit != nil:
		return s.loadEdit(ctx, pr, task.Edit)
	default:
		return s.loadUpgrade(ctx, pr, task.Upgrade)
	}
}

func initSource(pr *porchv1alpha1.PackageRevision, task *porchv1alpha1.PackageInitTaskSpec) (*source, error) {
	name := path.Base(pr.Spec.PackageName)
	kptfile := kpt.NewKptfile(name, "")
	if err := kptfile.SetInfo(kpt.Info{Site: task.Site, Description: task.Description, Keywords: task.Keywords}); err != nil {
		return nil, err
	}
	readme := "# " + name + "\n"
	if task.Description != "" {
		readme += "\n" + task.Description + "\n"
	}
	dir := task.Subpackage
	files := kpt.Files{
		path.Join(dir, kpt.KptfileName): kptfile.String(),
		path.Join(dir, "README.md"):     readme,
	}
	if dir != "" {
		files[kpt.KptfileName] = kpt.NewKptfile(name, "").String()
	}
	return &source{draft: draft{files: files}}, nil
}

// loadClone loads an upstream to clone. The upstream's gates and conditions are about its own
// authoring and are not copied.
func (s *Store) loadClone(ctx context.Context, pr *porchv1alpha1.PackageRevision, from *porchv1alpha1.UpstreamPackage) (*loadedSource, error) {
	name, err := s.resolveUpstream(ctx, pr, from)
	if err != nil {
		return nil, err
	}
	upstream, files, err := s.loadReferenced(ctx, pr, "clone.upstreamRef", name)
	if err != nil {
		return nil, err
	}
	return &loadedSource{[]kpt.Files{files}, func() (*source, error) {
		files, err := upgrade.Follow(files, upstream, path.Base(pr.Spec.PackageName), porchv1alpha1.ResourceMerge)
		if err != nil {
			return nil, invalidText(pr.Name, fmt.Sprintf("read the upstream %q: %v", upstream.Name, err))
		}
		return &source{
			draft:           draft{files: s.mergeComments.add(upstream.Content.Digest, files)},
			content:         storev1alpha1.Content{Base: upstream.Content.Digest, Upstream: upstream.Name, UpstreamDigest: upstream.Content.Digest},
			requiredDigests: []string{upstream.Content.Digest},
		}, nil
	}}, nil
}

// loadEdit loads a published revision of the same package. Its gates are copied. Its conditions are
// not, since they are about other content.
func (s *Store) loadEdit(ctx context.Context, pr *porchv1alpha1.PackageRevision, task *porchv1alpha1.PackageEditTaskSpec) (*loadedSource, error) {
	from, files, err := s.loadReferenced(ctx, pr, "edit.sourceRef", task.Source.Name)
	if err != nil {
		return nil, err
	}
	if err := samePackage(pr, from, "edit.sourceRef"); err != nil {
		return nil, err
	}
	return &loadedSource{[]kpt.Files{files}, func() (*source, error) { return copySource(pr, from, files) }}, nil
}

// copySource builds a source from another revision of the same package.
func copySource(pr *porchv1alpha1.PackageRevision, from *storev1alpha1.PackageRevision, files kpt.Files) (*source, error) {
	d, err := draftOf(files)
	if err != nil {
		return nil, invalidText(pr.Name, fmt.Sprintf("read the files of revision %q: %v", from.Name, err))
	}
	d.conditions = nil
	d.gates = slices.DeleteFunc(d.gates, func(g porchv1alpha1.ReadinessGate) bool { return lifecycle.OfVariants(g.ConditionType) })
	src := &source{draft: d, content: from.Content, requiredDigests: []string{from.Content.Digest}}
	src.content.Base, src.content.Imported = from.Content.Digest, false
	if up := from.Content.UpstreamDigest; up != "" && up != from.Content.Digest {
		src.requiredDigests = append(src.requiredDigests, up)
	}
	return src, nil
}

// loadUpgrade loads a published revision and two revisions of its upstream, to merge them.
func (s *Store) loadUpgrade(ctx context.Context, pr *porchv1alpha1.PackageRevision, task *porchv1alpha1.PackageUpgradeTaskSpec) (*loadedSource, error) {
	oldUpstream, original, err := s.loadReferenced(ctx, pr, "upgrade.oldUpstreamRef", task.OldUpstream.Name)
	if err != nil {
		return nil, err
	}
	newUpstream, updated, err := s.loadReferenced(ctx, pr, "upgrade.newUpstreamRef", task.NewUpstream.Name)
	if err != nil {
		return nil, err
	}
	local, files, err := s.loadReferenced(ctx, pr, "upgrade.localPackageRevisionRef", task.LocalPackageRevisionRef.Name)
	if err != nil {
		return nil, err
	}
	if err := samePackage(pr, local, "upgrade.localPackageRevisionRef"); err != nil {
		return nil, err
	}
	// The tag of an upstream may have been moved, and accepted. What was merged is retained.
	if last := local.Content.UpstreamDigest; local.Content.Upstream == oldUpstream.Name && last != "" && last != oldUpstream.Content.Digest {
		if original, err = s.Files(ctx, local.Name, last); err != nil {
			return nil, err
		}
	}
	return &loadedSource{[]kpt.Files{original, updated, files}, func() (*source, error) {
		merged, err := upgrade.Merge(task.Strategy, original, newUpstream, updated, files, s.schemas.Find)
		var wrong *upgrade.UpstreamError
		var unknown *merge.SchemaError
		switch {
		case errors.As(err, &unknown):
			return nil, apierrors.NewServiceUnavailable(err.Error())
		case errors.As(err, &wrong):
			return nil, invalidText(pr.Name, fmt.Sprintf("read the upstream %q: %v", newUpstream.Name, err))
		case err != nil:
			return nil, invalid(pr.Name, lifecycle.FieldError{Field: "spec.tasks[0].upgrade", Message: err.Error()})
		}
		src, err := copySource(pr, local, merged.Files)
		if err != nil {
			return nil, err
		}
		src.content.Upstream, src.content.UpstreamDigest = newUpstream.Name, newUpstream.Content.Digest
		src.requiredDigests = []string{local.Content.Digest, newUpstream.Content.Digest}
		src.merged = merged
		return src, nil
	}}, nil
}

// loadReferenced returns the published revision that a task refers to, and its files.
func (s *Store) loadReferenced(ctx context.Context, pr *porchv1alpha1.PackageRevision, field, name string) (*storev1alpha1.PackageRevision, kpt.Files, error) {
	field = "spec.tasks[0]." + field + ".name"
	// What is copied from a published revision never changes, so the API server's watch cache is
	// recent enough.
	cr, err := s.Revisions(pr.Namespace).Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || !cr.Spec.Lifecycle.Published() || cr.DeletionTimestamp != nil {
		cr, err = s.Get(ctx, pr.Namespace, name)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, invalid(pr.Name, lifecycle.FieldErrorf(field, "Not found: %q", name))
	case err != nil:
		return nil, nil, err
	case cr.DeletionTimestamp != nil:
		return nil, nil, invalid(pr.Name, lifecycle.FieldErrorf(field, "Invalid value: %q: it is being deleted", name))
	case cr.External.Branch:
		return nil, nil, invalid(pr.Name, lifecycle.FieldErrorf(field, "Invalid value: %q: must be a published revision, not the content of a branch, which changes", name))
	case !cr.Spec.Lifecycle.Published():
		return nil, nil, invalid(pr.Name, lifecycle.FieldErrorf(field, "Invalid value: %q: must be a published revision, but its lifecycle is %s", name, cr.Spec.Lifecycle))
	}
	files, err := s.Files(ctx, cr.Name, cr.Content.Digest)
	return cr, files, err
}

func samePackage(pr *porchv1alpha1.PackageRevision, cr *storev1alpha1.PackageRevision, field string) error {
	if pr.Spec.PackageName == cr.Spec.PackageName && pr.Spec.RepositoryName == cr.Spec.RepositoryName {
		return nil
	}
	return invalid(pr.Name, lifecycle.FieldErrorf("spec.tasks[0]."+field+".name", "Invalid value: %q: must be a revision of the same package, but is one of package %q in repository %q, not of %q in %q",
		cr.Name, cr.Spec.PackageName, cr.Spec.RepositoryName, pr.Spec.PackageName, pr.Spec.RepositoryName))
}

const (
	// contextFile is the file in which packages of a deployment repository find their own name.
	contextFile = "package-context.yaml"
	contextName = "kptfile.kpt.dev"
)

// addPackageContext writes, as kpt does, the name of the package into its context file if the
// repository is a deployment repository, and the name of each subpackage into a context file of its
// own. The path is that of the package, in all of them. Other content of the files stays.
func addPackageContext(files kpt.Files, repository *configv1alpha1.Repository, packageName string) (kpt.Files, error) {
	if repository == nil || !repository.Spec.Deployment {
		return files, nil
	}
	out := maps.Clone(files)
	set := func(dir, name string) error {
		file := path.Join(dir, contextFile)
		text, err := setContext(files[file], map[string]string{"name": name, "package-path": packageName})
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		out[file] = text
		return nil
	}
	for _, dir := range files.Packages() {
		if dir == "" {
			continue
		}
		kptfile, err := kpt.ParseKptfile(files[path.Join(dir, kpt.KptfileName)])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(dir, kpt.KptfileName), err)
		}
		if err := set(dir, cmp.Or(kptfile.Name(), path.Base(dir))); err != nil {
			return nil, err
		}
	}
	return out, set("", path.Base(packageName))
}

// setContext sets data in the ConfigMap of a context file, which is empty if there is none.
func setContext(text string, data map[string]string) (string, error) {
	var documents []*yaml.RNode
	if text != "" {
		var err error
		if documents, err = kpt.Documents(text); err != nil {
			return "", err
		}
	}
	i := slices.IndexFunc(documents, func(d *yaml.RNode) bool { return d.GetKind() == "ConfigMap" && d.GetName() == contextName })
	if i < 0 {
		i = len(documents)
		documents = append(documents, yaml.MustParse("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "+contextName+
			"\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"))
	}
	document := documents[i]
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if document.GetDataMap()[key] == data[key] {
			continue
		}
		if err := document.PipeE(yaml.LookupCreate(yaml.MappingNode, "data"), yaml.SetField(key, yaml.NewStringRNode(data[key]))); err != nil {
			return "", err
		}
	}
	return kpt.Text(documents)
}
