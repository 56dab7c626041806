package bundle

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// reader reads objects of one API server.
type reader struct {
	discovery discovery.DiscoveryInterface
	objects   dynamic.Interface
	metadata  metadata.Interface
	served    map[schema.GroupResource]schema.GroupVersionResource
}

// newReader returns a reader. It returns an error if the API server does not respond.
func newReader(config *rest.Config) (r *reader, version string, err error) {
	r = &reader{served: map[schema.GroupResource]schema.GroupVersionResource{}}
	if r.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, "", err
	}
	if r.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, "", err
	}
	if r.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, "", err
	}
	info, err := r.discovery.ServerVersion()
	if err != nil {
		return nil, "", fmt.Errorf("connect: %w", err)
	}
	return r, info.GitVersion, nil
}

// discover finds the versions of all resources. It returns an error for the groups that cannot be
// read; the others are known.
func (r *reader) discover() error {
	lists, err := r.discovery.ServerPreferredResources()
	for _, list := range lists {
		version, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			return parseErr
		}
		for i := range list.APIResources {
			resource := version.WithResource(list.APIResources[i].Name)
			r.served[resource.GroupResource()] = resource
		}
	}
	if err != nil {
		return fmt.Errorf("discover: %w", err)
	}
	return nil
}

// list adds all objects of a kind to a list. It returns false if there are more than the list can
// hold. An empty namespace is all of them.
func (r *reader) list(ctx context.Context, k kind, namespace string, into *list) (complete bool, err error) {
	const page = 500
	options := metav1.ListOptions{Limit: page}
	for {
		items, next, err := r.page(ctx, k, namespace, options)
		if err != nil {
			return false, err
		}
		for _, item := range items {
			if k.reduce != nil {
				item = k.reduce(item)
			}
			if fits, err := into.append(item); err != nil || !fits {
				return false, err
			}
		}
		if next == "" {
			return true, nil
		}
		options.Continue = next
	}
}

func (r *reader) page(ctx context.Context, k kind, namespace string, options metav1.ListOptions) (items []map[string]any, next string, err error) {
	resource := r.served[k.GroupResource]
	if !k.metadata {
		list, err := r.objects.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		for i := range list.Items {
			items = append(items, list.Items[i].Object)
		}
		return items, list.GetContinue(), nil
	}
	list, err := r.metadata.Resource(resource).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
		if err != nil {
			return nil, "", err
		}
		items = append(items, obj)
	}
	return items, list.Continue, nil
}

// collectObjects adds a file for each kind, and returns the number of objects that were read.
func (c *collector) collectObjects(ctx context.Context, r *reader, dir, namespace string, kinds []kind) int {
	if err := r.discover(); err != nil {
		c.problem(dir, err)
	}
	total := 0
	for _, k := range kinds {
		if _, ok := r.served[k.GroupResource]; !ok {
			continue
		}
		name := k.String()
		into := c.archive.newList(dir + "/" + name + ".yaml")
		complete, err := r.list(ctx, k, namespace, into)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			c.problem(dir, fmt.Errorf("list %s: %w", name, err))
		case !complete:
			c.problem(dir, fmt.Errorf("list %s: only the first %d are included", name, into.objects))
		}
		if err := into.close(); err != nil {
			c.problem(dir, fmt.Errorf("include %s: %w", name, err))
			continue
		}
		c.index(dir, name, into.objects)
		total += into.objects
	}
	return total
}

// collectReadiness adds the readiness of an API server.
func (c *collector) collectReadiness(ctx context.Context, r *reader, dir string) {
	text, err := r.discovery.RESTClient().Get().AbsPath("/readyz").Param("verbose", "true").DoRaw(ctx)
	if len(text) > 0 { // also of one that is not ready
		err = errors.Join(c.archive.log(dir+"/readyz.txt", text), err)
	}
	if err != nil {
		c.problem(dir, fmt.Errorf("read /readyz: %w", err))
	}
}
