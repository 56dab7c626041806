package options

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// replicas is the field that an autoscaler owns.
const replicas = ".spec.replicas"

// Scaled returns the options of an object that an autoscaler scales in the cluster: as o, except
// that the cluster sets the number of replicas only when it creates the object.
func Scaled(o plan.Options) plan.Options {
	return Merge(o, plan.Options{IgnoredFields: replicas})
}

// Target identifies the object that an autoscaler scales.
type Target struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// IsAutoscaler reports whether the object is an autoscaler.
func IsAutoscaler(ref objref.Ref) bool {
	return ref.Group == "autoscaling" && ref.Resource == "horizontalpodautoscalers"
}

// TargetOf returns the target of an autoscaler, and whether it has one.
func TargetOf(autoscaler *transform.Object) (Target, bool) {
	var hpa struct {
		Spec struct {
			ScaleTargetRef struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Name       string `json:"name"`
			} `json:"scaleTargetRef"`
		} `json:"spec"`
	}
	if json.Unmarshal(autoscaler.JSON, &hpa) != nil {
		return Target{}, false
	}
	to := &hpa.Spec.ScaleTargetRef
	group, _, grouped := strings.Cut(to.APIVersion, "/")
	if !grouped {
		group = ""
	}
	t := Target{Kind: schema.GroupKind{Group: group, Kind: to.Kind}, Namespace: autoscaler.Ref.Namespace, Name: to.Name}
	return t, to.Kind != "" && to.Name != ""
}
