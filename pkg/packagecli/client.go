package packagecli

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lineage"
)

// fieldManager is who we are in managedFields.
const fieldManager = "kubectl-starling"

// pageSize is how many revisions are asked for at once.
const pageSize = 500

// Client reads and writes the revisions of one namespace. It is safe for concurrent use.
type Client struct {
	Namespace string
	// DryRun has the server check and render what is written, and keep nothing.
	DryRun  bool
	dynamic dynamic.Interface
}

// NewClient returns a client of the API that config leads to.
func NewClient(config *rest.Config, namespace string) (*Client, error) {
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Client{Namespace: namespace, dynamic: d}, nil
}

func (c *Client) revisions() dynamic.ResourceInterface {
	return c.dynamic.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(c.Namespace)
}

func (c *Client) createOptions() metav1.CreateOptions {
	return metav1.CreateOptions{FieldManager: fieldManager, DryRun: c.dryRun()}
}

func (c *Client) updateOptions() metav1.UpdateOptions {
	return metav1.UpdateOptions{FieldManager: fieldManager, DryRun: c.dryRun()}
}

func (c *Client) dryRun() []string {
	if c.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (c *Client) resources() dynamic.ResourceInterface {
	return c.dynamic.Resource(porchv1alpha1.ResourcePackageRevisionResources).Namespace(c.Namespace)
}

// typed reads an object into one of our types; what a newer server has beside it is left out.
func typed[T any](obj *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return into, nil
}

// Get returns a revision.
func (c *Client) Get(ctx context.Context, name string) (*porchv1alpha1.PackageRevision, error) {
	obj, err := c.revisions().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevision](obj)
}

// List returns the revisions that both selectors select; empty ones select all.
func (c *Client) List(ctx context.Context, labels, fields string) (lineage.Revisions, error) {
	var all lineage.Revisions
	options := metav1.ListOptions{LabelSelector: labels, FieldSelector: fields, Limit: pageSize}
	for {
		list, err := c.revisions().List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			r, err := typed[porchv1alpha1.PackageRevision](&list.Items[i])
			if err != nil {
				return nil, err
			}
			all = append(all, *r)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// ListPackage returns all revisions of a package.
func (c *Client) ListPackage(ctx context.Context, repository, packageName string) (lineage.Revisions, error) {
	return c.List(ctx, "", fields.Set{"spec.repository": repository, "spec.packageName": packageName}.AsSelector().String())
}

// Family returns what there is to know to tell where a revision comes from: the revisions of its package, and those that these were
// made from. All of the namespace are read only for what was cloned from elsewhere.
func (c *Client) Family(ctx context.Context, r *porchv1alpha1.PackageRevision) (lineage.Revisions, error) {
	all, err := c.ListPackage(ctx, r.Spec.RepositoryName, r.Spec.PackageName)
	if err != nil {
		return nil, err
	}
	names, elsewhere := lineage.Sources(append(all, *r))
	if elsewhere {
		return c.List(ctx, "", "")
	}
	for _, name := range names {
		if all.Get(name) != nil {
			continue
		}
		source, err := c.Get(ctx, name)
		if apierrors.IsNotFound(err) {
			continue // whoever needs it says so
		}
		if err != nil {
			return nil, err
		}
		all = append(all, *source)
	}
	return all, nil
}

// Create creates a revision; the server gives it its name.
func (c *Client) Create(ctx context.Context, spec porchv1alpha1.PackageRevisionSpec) (*porchv1alpha1.PackageRevision, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&porchv1alpha1.PackageRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevision"},
		Spec:     spec,
	})
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(object, "status")
	unstructured.RemoveNestedField(object, "metadata", "creationTimestamp")
	created, err := c.revisions().Create(ctx, &unstructured.Unstructured{Object: object}, c.createOptions())
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevision](created)
}

// SetLifecycle moves a revision along, by its subresource approval if so, to where decide says. A revision that somebody else writes at
// the same time is read again, and decide asked again.
func (c *Client) SetLifecycle(
	ctx context.Context, name string, approval bool, decide func(*porchv1alpha1.PackageRevision) (porchv1alpha1.PackageRevisionLifecycle, error),
) (*porchv1alpha1.PackageRevision, error) {
	var subresources []string
	if approval {
		subresources = []string{"approval"}
	}
	var after *porchv1alpha1.PackageRevision
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		obj, err := c.revisions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before, err := typed[porchv1alpha1.PackageRevision](obj)
		if err != nil {
			return err
		}
		to, err := decide(before)
		if err != nil {
			return err
		}
		// As it was read, with what we do not know of it.
		if err := unstructured.SetNestedField(obj.Object, string(to), "spec", "lifecycle"); err != nil {
			return err
		}
		if obj, err = c.revisions().Update(ctx, obj, c.updateOptions(), subresources...); err != nil {
			return err
		}
		after, err = typed[porchv1alpha1.PackageRevision](obj)
		return err
	})
	return after, err
}

// errWatchEnded is returned when the server ends a watch; it is begun again.
var errWatchEnded = errors.New("the watch ended")

// Await waits until done says so of a revision, which it is shown whenever it changes.
func (c *Client) Await(ctx context.Context, name string, done func(*porchv1alpha1.PackageRevision) bool) error {
	for {
		r, err := c.Get(ctx, name)
		if err != nil {
			return err
		}
		if done(r) {
			return nil
		}
		if err := c.follow(ctx, r, done); !errors.Is(err, errWatchEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second): // a server that ends watches at once is not asked in a loop
		}
	}
}

func (c *Client) follow(ctx context.Context, r *porchv1alpha1.PackageRevision, done func(*porchv1alpha1.PackageRevision) bool) error {
	w, err := c.revisions().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", r.Name).String(), ResourceVersion: r.ResourceVersion,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return errWatchEnded
			}
			if event.Type == watch.Deleted {
				return apierrors.NewNotFound(porchv1alpha1.ResourcePackageRevisions.GroupResource(), r.Name)
			}
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			now, err := typed[porchv1alpha1.PackageRevision](obj)
			if err != nil {
				return err
			}
			if done(now) {
				return nil
			}
		}
	}
}

// GetResources returns the files of a revision.
func (c *Client) GetResources(ctx context.Context, name string) (*porchv1alpha1.PackageRevisionResources, error) {
	obj, err := c.resources().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevisionResources](obj)
}

// UpdateResources writes all files of a revision, and returns what rendering made of them.
func (c *Client) UpdateResources(ctx context.Context, resources *porchv1alpha1.PackageRevisionResources) (*porchv1alpha1.PackageRevisionResources, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(resources)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(object, "status")
	obj := &unstructured.Unstructured{Object: object}
	obj.SetAPIVersion(porchv1alpha1.GroupVersion.String())
	obj.SetKind("PackageRevisionResources")
	after, err := c.resources().Update(ctx, obj, c.updateOptions())
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevisionResources](after)
}
