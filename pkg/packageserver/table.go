package packageserver

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// table prints objects as kubectl shows them.
type table struct {
	resource schema.GroupResource
	columns  []metav1.TableColumnDefinition
	row      func(obj runtime.Object) ([]any, bool)
}

func column(name, kind, format, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Format: format, Description: description}
}

var (
	revisionColumns = []metav1.TableColumnDefinition{
		column("Name", "string", "name", "Name of the revision."),
		column("Package", "string", "", "Package, a path in the repository."),
		column("WorkspaceName", "string", "", "Workspace, which tells the revisions of a package apart."),
		column("Revision", "integer", "", "Number of a published revision."),
		column("Latest", "boolean", "", "Whether it is the latest published revision of its package."),
		column("Lifecycle", "string", "", "Where the revision is between draft and deletion."),
		column("Repository", "string", "", "Repository that the package is in."),
	}
	resourcesColumns = []metav1.TableColumnDefinition{
		column("Name", "string", "name", "Name of the revision."),
		column("Package", "string", "", "Package, a path in the repository."),
		column("WorkspaceName", "string", "", "Workspace, which tells the revisions of a package apart."),
		column("Revision", "integer", "", "Number of a published revision."),
		column("Repository", "string", "", "Repository that the package is in."),
		column("Files", "integer", "", "Number of files."),
	}
	packageColumns = []metav1.TableColumnDefinition{
		column("Name", "string", "name", "Name of the package."),
		column("Package", "string", "", "Package, a path in the repository."),
		column("Repository", "string", "", "Repository that the package is in."),
		column("Latest Revision", "integer", "", "Number of the latest published revision."),
	}
)

func revisionRow(obj runtime.Object) ([]any, bool) {
	pr, ok := obj.(*porchv1alpha1.PackageRevision)
	if !ok {
		return nil, false
	}
	latest := pr.Labels[porchv1alpha1.LatestRevisionLabel] == "true"
	return []any{
		pr.Name, pr.Spec.PackageName, pr.Spec.WorkspaceName, int64(pr.Spec.Revision), latest, string(pr.Spec.Lifecycle), pr.Spec.RepositoryName,
	}, true
}

func resourcesRow(obj runtime.Object) ([]any, bool) {
	prr, ok := obj.(*porchv1alpha1.PackageRevisionResources)
	if !ok {
		return nil, false
	}
	return []any{
		prr.Name, prr.Spec.PackageName, prr.Spec.WorkspaceName, int64(prr.Spec.Revision), prr.Spec.RepositoryName, int64(len(prr.Spec.Resources)),
	}, true
}

func packageRow(obj runtime.Object) ([]any, bool) {
	p, ok := obj.(*porchv1alpha1.PorchPackage)
	if !ok {
		return nil, false
	}
	return []any{p.Name, p.Spec.PackageName, p.Spec.RepositoryName, int64(p.Status.LatestRevision)}, true
}

// ConvertToTable implements rest.TableConvertor.
func (t table) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = t.columns
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion, out.Continue, out.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if one, err := meta.CommonAccessor(obj); err == nil {
		out.ResourceVersion = one.GetResourceVersion()
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, _, _ string) ([]any, error) {
		cells, ok := t.row(obj)
		if !ok {
			return nil, fmt.Errorf("%s: no table of %T", t.resource, obj)
		}
		return cells, nil
	})
	return out, err
}
