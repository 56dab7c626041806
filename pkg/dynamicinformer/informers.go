package dynamicinformer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/starlinghq/starling/pkg/client"
)

// MetadataInformer builds informers that hold only metadata (*metav1.PartialObjectMetadata),
// without managedFields: enough for labels, names, owners and versions, with a fraction of the
// memory of objects.
func MetadataInformer(metadataClient metadata.Interface) func(Resource) cache.SharedIndexInformer {
	return func(resource Resource) cache.SharedIndexInformer {
		informer := metadatainformer.NewFilteredMetadataInformer(metadataClient, resource.GroupVersionResource, metav1.NamespaceAll, 0,
			cache.Indexers{}, nil).Informer()
		return transformed(informer, client.StripManagedFields)
	}
}

// DynamicInformer builds informers that hold what the transform keeps of each object
// (*unstructured.Unstructured). The transform must keep name, namespace, UID and resourceVersion.
func DynamicInformer(dynamicClient dynamic.Interface, transform cache.TransformFunc) func(Resource) cache.SharedIndexInformer {
	return func(resource Resource) cache.SharedIndexInformer {
		informer := dynamicinformer.NewFilteredDynamicInformer(dynamicClient, resource.GroupVersionResource, metav1.NamespaceAll, 0,
			cache.Indexers{}, nil).Informer()
		return transformed(informer, transform)
	}
}

func transformed(informer cache.SharedIndexInformer, transform cache.TransformFunc) cache.SharedIndexInformer {
	// Only an informer that runs refuses it; this one is new.
	if err := informer.SetTransform(transform); err != nil {
		panic(err)
	}
	return informer
}
