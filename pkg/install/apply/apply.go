// Package apply applies objects to an API server with server-side apply.
package apply

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// FieldManager is the field manager of the objects that this package applies.
const FieldManager = "starling"

const (
	// parallel limits the number of parallel requests.
	parallel = 8

	establishedTimeout  = time.Minute
	establishedInterval = 50 * time.Millisecond
)

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Objects applies objects: first CRDs and Namespaces, then the others, which need them. It blocks
// until the CRDs are established. Objects that are as they should be are not changed. It takes
// fields over from other managers.
func Objects(ctx context.Context, config *rest.Config, objs []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, batch := range batches(objs) {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(parallel)
		for _, obj := range batch {
			group.Go(func() error {
				if err := apply(ctx, client, obj); err != nil {
					return fmt.Errorf("apply %s %q: %w", obj.GetKind(), obj.GetName(), err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// batches returns the objects in the order in which they are applied: CRDs and Namespaces, then the
// others.
func batches(objs []*unstructured.Unstructured) [2][]*unstructured.Unstructured {
	var b [2][]*unstructured.Unstructured
	for _, obj := range objs {
		switch obj.GetKind() {
		case "CustomResourceDefinition", "Namespace":
			b[0] = append(b[0], obj)
		default:
			b[1] = append(b[1], obj)
		}
	}
	return b
}

// apply applies one object. If it is a CRD, apply blocks until it is established.
func apply(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured) error {
	// The kinds are those of a few known manifests. The guess is correct for them.
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	_, err := client.Resource(gvr).Namespace(obj.GetNamespace()).
		Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil || gvr != crdResource {
		return err
	}
	return established(ctx, client, obj.GetName())
}

// Delete deletes objects. Those that do not exist are no error.
func Delete(ctx context.Context, config *rest.Config, objs []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
		err := client.Resource(gvr).Namespace(obj.GetNamespace()).Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %q: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

func established(ctx context.Context, client dynamic.Interface, crd string) error {
	return wait.PollUntilContextTimeout(ctx, establishedInterval, establishedTimeout, true, func(ctx context.Context) (bool, error) {
		got, err := client.Resource(crdResource).Get(ctx, crd, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return isEstablished(got)
	})
}

func isEstablished(obj *unstructured.Unstructured) (bool, error) {
	var crd struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &crd)
	return meta.IsStatusConditionTrue(crd.Status.Conditions, "Established"), err
}
