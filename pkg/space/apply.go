package space

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// fieldManager names us in what we apply.
const fieldManager = "starling"

// parallelApply bounds the requests that are under way at once.
const parallelApply = 8

// applyAll applies objects to a space in the order that they need: CRDs and namespaces first.
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
					return fmt.Errorf("apply %s %s to %s: %w", obj.GetKind(), obj.GetName(), space, err)
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

// apply applies one object; a CRD is waited for until it is served.
func apply(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured) error {
	// The kinds are those of a few known manifests, for which the rule of names holds.
	gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	_, err := client.Resource(gvr).Namespace(obj.GetNamespace()).
		Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil || gvr != crdResource {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		crd, err := client.Resource(gvr).Get(ctx, obj.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return conditionTrue(crd, "Established"), nil
	})
}

// conditionTrue says whether a condition in .status.conditions is true.
func conditionTrue(obj *unstructured.Unstructured, conditionType string) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if ok && condition["type"] == conditionType {
			return condition["status"] == "True"
		}
	}
	return false
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
