package foresight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
)

// ReadDelivery reads what a Delivery needs: the objects in revisions, and what other sources
// deliver to the cluster. contents is nil if nothing is needed, or if some may not be read.
func (r *WorldReader) ReadDelivery(ctx context.Context, w *forecast.World, d *forecast.Delivery) (
	contents map[string]*workload.Workload, others map[objref.Ref]forecast.Other, err error,
) {
	needs := d.Needs()
	if len(needs) == 0 {
		return nil, nil, nil
	}
	objects, err := dynamic.NewForConfig(quick(r.WDS.Config))
	if err != nil {
		return nil, nil, err
	}
	kinds, err := r.kinds()
	if err != nil {
		return nil, nil, err
	}
	contents = map[string]*workload.Workload{}
	for _, name := range needs {
		r.Progress("the files of " + name)
		read, err := readFiles(ctx, objects, d.Namespace(), name, kinds)
		if err != nil {
			r.note(forecast.AboutTheChange, "what changes in cluster %s: %v", d.Cluster(), err)
			return nil, nil, nil
		}
		contents[name] = read
	}
	var own types.UID
	if b := d.Binding(); b != nil {
		own = b.UID
	}
	found, err := r.others(ctx, w, []string{d.Cluster()}, func(binding types.UID) bool { return own != "" && binding == own }, false)
	return contents, found[d.Cluster()], err
}

// readFiles returns the objects in the files of a revision.
func readFiles(ctx context.Context, objects dynamic.Interface, namespace, name string, kinds workload.Kinds) (*workload.Workload, error) {
	found, err := objects.Resource(porchv1alpha1.ResourcePackageRevisionResources).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, errors.New(unread("get", "packagerevisionresources "+name, "", err))
	}
	resources := &porchv1alpha1.PackageRevisionResources{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, resources); err != nil {
		return nil, fmt.Errorf("read the files of PackageRevision %q: %w", name, err)
	}
	return workload.Read(resources.Spec.Resources, kinds)
}

// kinds returns the resources of the kinds that the WDS serves. They are read once.
func (r *WorldReader) kinds() (workload.Kinds, error) {
	r.readKinds.Do(func() { r.servedKinds, r.kindsErr = r.discoverKinds() })
	return r.servedKinds, r.kindsErr
}

func (r *WorldReader) discoverKinds() (workload.Kinds, error) {
	found, err := discovery.NewDiscoveryClientForConfig(r.WDS.Config)
	if err != nil {
		return nil, err
	}
	_, lists, err := found.ServerGroupsAndResources()
	failed := map[string]bool{}
	if partial, is := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); is {
		for gv := range partial.Groups {
			failed[gv.Group] = true
		}
	} else if err != nil {
		return nil, fmt.Errorf("read the API of WDS %q: %w", r.WDS.Name, err)
	}
	known := map[schema.GroupKind]workload.Resource{}
	for _, list := range lists {
		workload.AddServed(known, list)
	}
	return func(kind schema.GroupVersionKind) (workload.Resource, bool, error) {
		resource, is := known[kind.GroupKind()]
		if !is && failed[kind.Group] {
			return resource, false, fmt.Errorf("the API group %s cannot be read; groups that cannot: %s", kind.Group,
				strings.Join(slices.Sorted(maps.Keys(failed)), ", "))
		}
		return resource, is, nil
	}, nil
}
