package apiserver

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// kind implements what the storages of all kinds have in common. T is the type of its objects.
type kind[T runtime.Object] struct {
	object       T
	list         runtime.Object
	singularName string
	// columns and cells are those of the table that kubectl prints.
	columns []metav1.TableColumnDefinition
	cells   func(T) []any
}

// New implements rest.Storage.
func (k kind[T]) New() runtime.Object { return k.object.DeepCopyObject() }

// NewList implements rest.Lister.
func (k kind[T]) NewList() runtime.Object { return k.list.DeepCopyObject() }

// Destroy implements rest.Storage.
func (k kind[T]) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (k kind[T]) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (k kind[T]) GetSingularName() string { return k.singularName }

func column(name, kind, format, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Format: format, Description: description}
}

var (
	nameColumn       = column("Name", "string", "name", "Name of the revision.")
	packageColumn    = column("Package", "string", "", "Path of the package in the repository.")
	workspaceColumn  = column("WorkspaceName", "string", "", "Workspace. It is unique among the revisions of a package.")
	revisionColumn   = column("Revision", "integer", "", "Number of a published revision.")
	repositoryColumn = column("Repository", "string", "", "Repository of the package.")

	revisionKind = kind[*porchv1alpha1.PackageRevision]{
		object: &porchv1alpha1.PackageRevision{}, list: &porchv1alpha1.PackageRevisionList{}, singularName: "packagerevision",
		columns: []metav1.TableColumnDefinition{
			nameColumn, packageColumn, workspaceColumn, revisionColumn,
			column("Latest", "boolean", "", "Whether it is the latest published revision of its package."),
			column("Lifecycle", "string", "", "Lifecycle: Draft, Proposed, Published or DeletionProposed."),
			repositoryColumn,
		},
		cells: func(pr *porchv1alpha1.PackageRevision) []any {
			latest := pr.Labels[porchv1alpha1.LatestRevisionLabel] == "true"
			return []any{
				pr.Name, pr.Spec.PackageName, pr.Spec.WorkspaceName, int64(pr.Spec.Revision), latest, string(pr.Spec.Lifecycle), pr.Spec.RepositoryName,
			}
		},
	}
	resourcesKind = kind[*porchv1alpha1.PackageRevisionResources]{
		object: &porchv1alpha1.PackageRevisionResources{}, list: &porchv1alpha1.PackageRevisionResourcesList{}, singularName: "packagerevisionresources",
		columns: []metav1.TableColumnDefinition{
			nameColumn, packageColumn, workspaceColumn, revisionColumn, repositoryColumn, column("Files", "integer", "", "Number of files."),
		},
		cells: func(prr *porchv1alpha1.PackageRevisionResources) []any {
			return append(fileColumns(prr), int64(len(prr.Spec.Resources)))
		},
	}
	packageKind = kind[*porchv1alpha1.PorchPackage]{
		object: &porchv1alpha1.PorchPackage{}, list: &porchv1alpha1.PorchPackageList{}, singularName: "package",
		columns: []metav1.TableColumnDefinition{
			column("Name", "string", "name", "Name of the package."), packageColumn, repositoryColumn,
			column("Latest Revision", "integer", "", "Number of the latest published revision."),
		},
		cells: func(p *porchv1alpha1.PorchPackage) []any {
			return []any{p.Name, p.Spec.PackageName, p.Spec.RepositoryName, int64(p.Status.LatestRevision)}
		},
	}
)

// fileColumns returns the cells of a row of PackageRevisionResources, except the number of files.
func fileColumns(prr *porchv1alpha1.PackageRevisionResources) []any {
	return []any{prr.Name, prr.Spec.PackageName, prr.Spec.WorkspaceName, int64(prr.Spec.Revision), prr.Spec.RepositoryName}
}

// maxTableRows is the maximum number of rows in a table that ignores the limit of the request.
// kubectl requests pages of 500, at most five per second: 10,000 revisions would take two seconds,
// however fast the server is. Servers may ignore limits (see metav1.ListOptions): then the response
// is complete and has no continue token.
const maxTableRows = 20000

// tableKey is the context key of requests for a table. The value is true if its rows have no
// objects.
type tableKey struct{}

// markTableRequests marks the context of requests for a table, as kubectl get sends.
func markTableRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		first, _, _ := strings.Cut(q.Header.Get("Accept"), ",")
		if kind, params, err := mime.ParseMediaType(first); err == nil && params["as"] == "Table" {
			// Anything else than kubectl sends may be answered without a table.
			known := kind == runtime.ContentTypeJSON && params["g"] == metav1.GroupName && params["v"] == "v1"
			bare := known && q.URL.Query().Get("includeObject") != string(metav1.IncludeObject)
			q = q.WithContext(context.WithValue(q.Context(), tableKey{}, bare))
		}
		next.ServeHTTP(w, q)
	})
}

// maxRows returns how many revisions a response may hold although the request asks for pages.
func maxRows(ctx context.Context) int {
	if ctx.Value(tableKey{}) != nil {
		return maxTableRows
	}
	return 0
}

// countsOnly reports whether the response is a table whose rows have no objects.
func countsOnly(ctx context.Context) bool {
	bare, _ := ctx.Value(tableKey{}).(bool)
	return bare
}

// ConvertToTable implements rest.TableConvertor.
func (k kind[T]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	o, ok := options.(*metav1.TableOptions)
	if !ok || !o.NoHeaders {
		out.ColumnDefinitions = k.columns
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion, out.Continue, out.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if one, err := meta.CommonAccessor(obj); err == nil {
		out.ResourceVersion = one.GetResourceVersion()
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, _, _ string) ([]any, error) {
		item, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("unexpected type %T for a table row, want %T", obj, k.object)
		}
		return k.cells(item), nil
	})
	if !ok || o.IncludeObject != metav1.IncludeObject {
		for i := range out.Rows {
			out.Rows[i].Object.Object = withoutManagedFields(out.Rows[i].Object.Object)
		}
	}
	return out, err
}

// withoutManagedFields returns the metadata of an object without managedFields, which are most of
// it and are never printed.
func withoutManagedFields(obj runtime.Object) runtime.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		return obj
	}
	partial := meta.AsPartialObjectMetadata(m)
	partial.ManagedFields = nil
	return partial
}
