package customtransform

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/jsonpath"
	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	maxErrors = 32
	maxNames  = 16
)

// required are the fields that no path may select, because every object needs them.
var required = [][]string{{"apiVersion"}, {"kind"}, {"metadata"}, {"metadata", "name"}, {"metadata", "namespace"}}

// GroupResource returns the GroupResource of a CustomTransform.
func GroupResource(spec *controlv1alpha1.CustomTransformSpec) schema.GroupResource {
	return schema.GroupResource{Group: spec.APIGroup, Resource: spec.Resource}
}

// parse returns the paths of spec.remove by their normalized text, or their errors.
func parse(spec *controlv1alpha1.CustomTransformSpec) (removes map[string]jsonpath.Path, errs []string) {
	removes = make(map[string]jsonpath.Path, len(spec.Remove))
	for i, remove := range spec.Remove {
		path, err := jsonpath.Parse(remove)
		if err != nil {
			errs = append(errs, fmt.Sprintf("Error in spec.remove[%d]: %s", i, err))
			continue
		}
		if path.Root() {
			errs = append(errs, fmt.Sprintf("Invalid spec.remove[%d]: it identifies the whole object", i))
			continue
		}
		if at := slices.IndexFunc(required, func(names []string) bool { return path.MaySelect(names...) }); at >= 0 {
			errs = append(errs, fmt.Sprintf("Error in spec.remove[%d]: it may select %s, without which no object can be delivered", i,
				strings.Join(required[at], ".")))
			continue
		}
		removes[path.String()] = path
	}
	return removes, errs
}

// Status returns the status of a CustomTransform. Names are the names of all CustomTransforms with
// the same GroupResource, including this one, in any order. InForce is the spec that is applied if
// this one has errors, nil for none.
func Status(ct *controlv1alpha1.CustomTransform, names []string, inForce *controlv1alpha1.CustomTransformSpec) controlv1alpha1.CustomTransformStatus {
	_, errs := parse(&ct.Spec)
	status := controlv1alpha1.CustomTransformStatus{ObservedGeneration: ct.Generation, Errors: text.Bound(errs, maxErrors)}
	if len(errs) > 0 {
		status.InForce = inForce
	}
	if len(names) > 1 {
		names = slices.Sorted(slices.Values(names))
		status.Warnings = []string{"multiple CustomTransform objects specify the same GroupResource; their names are " + text.List(names, maxNames)}
	}
	return status
}
