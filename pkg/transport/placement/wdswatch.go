package placement

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

var crds = dynamicinformer.Resource{GroupVersionResource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")}

// wdsWatch watches the metadata of objects in the WDS, and of the CustomResourceDefinitions.
type wdsWatch struct {
	*dynamicinformer.Set

	definitions cache.SharedIndexInformer
}

// TracksContent reports whether the generation of the objects changes whenever their content does:
// that is so for custom resources and for some built-in ones. A resource whose definition has not
// been read yet is not known to be a custom resource. Then its objects are read more often.
func (w wdsWatch) TracksContent(gr schema.GroupResource) bool {
	if objref.GenerationTracksContent(gr) {
		return true
	}
	_, defined, err := w.definitions.GetStore().GetByKey(gr.String()) // a definition is named <plural>.<group>
	return err == nil && defined
}
