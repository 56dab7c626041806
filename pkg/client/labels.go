package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// ListMetadata lists the metadata of objects, as the method List of a metadata.ResourceInterface
// does.
type ListMetadata func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)

const (
	// fewNames is the number of objects up to which each is read by itself. More are found in a
	// list of all.
	fewNames = 5
	pageSize = 500
)

// CountReads returns how many requests ReadLabels needs at least.
func CountReads(names []string) int { return min(len(names), fewNames) }

// CountPages returns how many requests ReadEach needs for so many objects.
func CountPages(objects int) int { return max(1, (objects+pageSize-1)/pageSize) }

// ReadLabels reads from the API server the labels of the objects with these names. Those that do
// not exist are missing.
func ReadLabels(ctx context.Context, list ListMetadata, names []string) (map[string]map[string]string, error) {
	labels := map[string]map[string]string{}
	if len(names) <= fewNames {
		for _, name := range names {
			selected := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
			if err := ReadEach(ctx, list, selected, func(m *metav1.PartialObjectMetadata) { labels[m.Name] = m.Labels }); err != nil {
				return nil, err
			}
		}
		return labels, nil
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	err := ReadEach(ctx, list, metav1.ListOptions{}, func(m *metav1.PartialObjectMetadata) {
		if wanted[m.Name] {
			labels[m.Name] = m.Labels
		}
	})
	return labels, err
}

// ReadEach reads metadata from the API server, in pages, and calls do with that of each object.
func ReadEach(ctx context.Context, list ListMetadata, options metav1.ListOptions, do func(*metav1.PartialObjectMetadata)) error {
	return EachItem(ctx, list, options, func(m *metav1.PartialObjectMetadata) error {
		do(m)
		return nil
	})
}

// EachItem reads a list from the API server, in pages of options.Limit or 500 objects, and calls do
// with each object. An error of do ends that.
func EachItem[T, L runtime.Object](
	ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), options metav1.ListOptions, do func(T) error,
) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	pages.PageSize, pages.PageBufferSize = pageSize, 1 // objects may be large
	return pages.EachListItem(ctx, options, func(obj runtime.Object) error {
		if item, ok := obj.(T); ok {
			return do(item)
		}
		return nil
	})
}
