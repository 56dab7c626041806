package localfleet

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
)

// fieldManager is the field manager of the objects that this package applies.
const fieldManager = "starling"

// parallelApply limits the number of parallel requests.
const parallelApply = 8

// applyAll applies objects to a space: first CRDs and Namespaces, then the others, which need them.
func (f *Fleet) applyAll(ctx context.Context, space string, objs []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(f.adminConfig(space))
	if err != nil {
		return err
	}
	var first, rest []*unstructured.Unstructured
	for _, obj := range objs {
		switch obj.GetKind() {
		case "CustomResourceDefinition", "Namespace":
			first = append(first, obj)
		default:
			rest = append(rest, obj)
		}
	}
	for _, batch := range [][]*unstructured.Unstructured{first, rest} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(parallelApply)
		for _, obj := range batch {
			group.Go(func() error {
				if err := apply(ctx, client, obj); err != nil {
					return fmt.Errorf("apply %s %q in space %q: %w", obj.GetKind(), obj.GetName(), space, err)
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

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// apply applies one object. If it is a CRD, apply blocks until it is established.
func apply(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured) error {
	// The kinds are those of a few known manifests. The guess is correct for them.
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	_, err := client.Resource(gvr).Namespace(obj.GetNamespace()).
		Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil || gvr != crdResource {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		got, err := client.Resource(gvr).Get(ctx, obj.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		var crd struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &crd)
		return meta.IsStatusConditionTrue(crd.Status.Conditions, "Established"), err
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
