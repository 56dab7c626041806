package cli

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
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lineage"
)

// fieldManager is our name in managedFields.
const fieldManager = "kubectl-starling"

// pageSize is the number of revisions in one request.
const pageSize = 500

// Client reads and writes the revisions of one namespace. It is safe for concurrent use.
type Client struct {
	Namespace string
	// DryRun makes the server check and render what is written without storing it.
	DryRun  bool
	dynamic dynamic.Interface
}

// NewClient returns a client for the API server of config.
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

// typed converts an object into one of our types. Unknown fields of a newer server are dropped.
func typed[T any](obj *unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return nil, fmt.Errorf("read %s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	return into, nil
}

// listAll lists all objects that the options select, page by page.
func listAll[T any](ctx context.Context, from dynamic.ResourceInterface, options metav1.ListOptions) ([]T, error) {
	var all []T
	for options.Limit = pageSize; ; {
		list, err := from.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			item, err := typed[T](&list.Items[i])
			if err != nil {
				return nil, err
			}
			all = append(all, *item)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// Get returns a revision.
func (c *Client) Get(ctx context.Context, name string) (*porchv1alpha1.PackageRevision, error) {
	obj, err := c.revisions().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevision](obj)
}

// List returns the revisions that both selectors select. An empty selector selects all.
func (c *Client) List(ctx context.Context, labels, fields string) (lineage.Revisions, error) {
	return listAll[porchv1alpha1.PackageRevision](ctx, c.revisions(), metav1.ListOptions{LabelSelector: labels, FieldSelector: fields})
}

// ListPackage returns all revisions of a package.
func (c *Client) ListPackage(ctx context.Context, repository, packageName string) (lineage.Revisions, error) {
	return c.List(ctx, "", fields.Set{"spec.repository": repository, "spec.packageName": packageName}.AsSelector().String())
}

// Ancestry returns the revisions that are needed to find where a revision comes from: those of its
// package, and their sources. It lists the whole namespace only if a source is in git or a
// registry.
func (c *Client) Ancestry(ctx context.Context, r *porchv1alpha1.PackageRevision) (lineage.Revisions, error) {
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
			continue // reported where it is needed
		}
		if err != nil {
			return nil, err
		}
		all = append(all, *source)
	}
	return all, nil
}

// Create creates a revision. The server chooses its name.
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
	created, err := c.revisions().Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: fieldManager, DryRun: c.dryRun()})
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevision](created)
}

// SetLifecycle sets the lifecycle that decide returns, through the subresource approval if so
// requested. If the revision has it, nothing is sent. After a conflict the revision is read again
// and decide is called again.
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
		if to == before.Spec.Lifecycle {
			after = before
			return nil
		}
		// The object as it was read, including unknown fields.
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

var errWatchEnded = errors.New("the watch ended")

// WaitFor blocks until done returns true for a revision. It calls done after each change. If the
// server ends the watch, it starts a new one.
func (c *Client) WaitFor(ctx context.Context, name string, done func(*porchv1alpha1.PackageRevision) bool) error {
	for {
		r, err := c.Get(ctx, name)
		if err != nil {
			return err
		}
		if done(r) {
			return nil
		}
		if err := c.watchUntil(ctx, r, done); !errors.Is(err, errWatchEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second): // avoids a busy loop if the server ends watches at once
		}
	}
}

func (c *Client) watchUntil(ctx context.Context, r *porchv1alpha1.PackageRevision, done func(*porchv1alpha1.PackageRevision) bool) error {
	w, err := c.revisions().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", r.Name).String(), ResourceVersion: r.ResourceVersion,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() { // it is closed when ctx ends
		obj, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error:
			return errWatchEnded
		case event.Type == watch.Deleted:
			return apierrors.NewNotFound(porchv1alpha1.ResourcePackageRevisions.GroupResource(), r.Name)
		case !ok:
			continue
		}
		now, err := typed[porchv1alpha1.PackageRevision](obj)
		if err != nil || done(now) {
			return err
		}
	}
	return errWatchEnded
}

// GetResources returns the files of a revision.
func (c *Client) GetResources(ctx context.Context, name string) (*porchv1alpha1.PackageRevisionResources, error) {
	obj, err := c.resources().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevisionResources](obj)
}

// UpdateResources replaces all files of a revision that was read, and returns the result of
// rendering.
func (c *Client) UpdateResources(ctx context.Context, resources *porchv1alpha1.PackageRevisionResources) (*porchv1alpha1.PackageRevisionResources, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(resources)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(object, "status")
	after, err := c.resources().Update(ctx, &unstructured.Unstructured{Object: object}, c.updateOptions())
	if err != nil {
		return nil, err
	}
	return typed[porchv1alpha1.PackageRevisionResources](after)
}
