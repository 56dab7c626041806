package customtransform

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/jsonpath"
)

const (
	maxErrors = 32
	maxNames  = 16
)

// kept are the members that no path may select: an object without them is none that a cluster could be given.
var kept = [][]string{{"apiVersion"}, {"kind"}, {"metadata"}, {"metadata", "name"}, {"metadata", "namespace"}}

// GroupResource returns what a CustomTransform is about.
func GroupResource(spec *controlv1alpha1.CustomTransformSpec) schema.GroupResource {
	return schema.GroupResource{Group: spec.APIGroup, Resource: spec.Resource}
}

// read returns the paths of spec.remove by their text, in the form that all ways to write a path have in common, or what is
// wrong with them.
func read(spec *controlv1alpha1.CustomTransformSpec) (removes map[string]jsonpath.Path, errs []string) {
	removes = make(map[string]jsonpath.Path, len(spec.Remove))
	for i, text := range spec.Remove {
		path, err := jsonpath.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Sprintf("Error in spec.remove[%d]: %s", i, err))
			continue
		}
		if path.Root() {
			errs = append(errs, fmt.Sprintf("Invalid spec.remove[%d]: it identifies the whole object", i))
			continue
		}
		if at := slices.IndexFunc(kept, func(names []string) bool { return path.MaySelect(names...) }); at >= 0 {
			errs = append(errs, fmt.Sprintf("Error in spec.remove[%d]: it may select %s, without which no object can be delivered", i,
				strings.Join(kept[at], ".")))
			continue
		}
		removes[path.String()] = path
	}
	return removes, errs
}

// Status returns what is to be said of a CustomTransform. Rivals are the names of all that are about the same GroupResource,
// itself among them, in any order; inForce is what is carried out if this one has errors, nil for nothing.
func Status(ct *controlv1alpha1.CustomTransform, rivals []string, inForce *controlv1alpha1.CustomTransformSpec) controlv1alpha1.CustomTransformStatus {
	status := controlv1alpha1.CustomTransformStatus{ObservedGeneration: ct.Generation}
	_, status.Errors = read(&ct.Spec)
	if more := len(status.Errors) - maxErrors; more > 0 {
		status.Errors = append(status.Errors[:maxErrors], fmt.Sprintf("… and %d more", more))
	}
	if len(status.Errors) > 0 {
		status.InForce = inForce
	}
	if len(rivals) > 1 {
		names := slices.Sorted(slices.Values(rivals))
		listed := strings.Join(names[:min(len(names), maxNames)], ", ")
		if more := len(names) - maxNames; more > 0 {
			listed += fmt.Sprintf(" … and %d more", more)
		}
		status.Warnings = []string{"multiple CustomTransform objects specify the same GroupResource; their names are " + listed}
	}
	return status
}
