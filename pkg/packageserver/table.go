package packageserver

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

// wholeTable is up to how many rows a table comes at once. kubectl asks for pages of 500, and not more than five times a second: of 10,000
// revisions it would wait for two seconds, whatever they take here. A server need not know of limits (godoc of metav1.ListOptions): then
// all comes, and nothing says that there is more.
const wholeTable = 20000

// tableKey is the key of a context whose request is answered with a table.
type tableKey struct{}

// noteTables notes in the context of a request that it asks for a table, as kubectl get does.
func noteTables(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		first, _, _ := strings.Cut(q.Header.Get("Accept"), ",")
		if _, params, err := mime.ParseMediaType(first); err == nil && params["as"] == "Table" {
			q = q.WithContext(context.WithValue(q.Context(), tableKey{}, true))
		}
		next.ServeHTTP(w, q)
	})
}

// rowsAtOnce is how many revisions may come at once in the answer to a request, if it asks for pages.
func rowsAtOnce(ctx context.Context) int {
	if ctx.Value(tableKey{}) != nil {
		return wholeTable
	}
	return 0
}

// ConvertToTable implements rest.TableConvertor.
func (t table) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	o, ok := options.(*metav1.TableOptions)
	if !ok || !o.NoHeaders {
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
	if !ok || o.IncludeObject != metav1.IncludeObject {
		for i := range out.Rows {
			out.Rows[i].Object.Object = withoutManagers(out.Rows[i].Object.Object)
		}
	}
	return out, err
}

// withoutManagers is the metadata of an object without its managedFields: nothing prints them, and they are most of it.
func withoutManagers(obj runtime.Object) runtime.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		return obj
	}
	partial := meta.AsPartialObjectMetadata(m)
	partial.ManagedFields = nil
	return partial
}
