package options

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// ForKind returns the options that an object needs because of its kind, if nobody says otherwise.
//
// A cluster binds claims and volumes to each other, and writes so into their specs. An update with what the hub knows would take
// that back, which API servers refuse; a server-side apply leaves alone what it does not name.
func ForKind(ref objref.Ref) plan.Options {
	switch (schema.GroupResource{Group: ref.Group, Resource: ref.Resource}) {
	case schema.GroupResource{Resource: "persistentvolumeclaims"}, schema.GroupResource{Resource: "persistentvolumes"}:
		return plan.Options{ServerSide: true, Force: true}
	}
	return plan.Options{}
}

// replicas is the field that an autoscaler owns.
const replicas = ".spec.replicas"

// Scaled returns the options of an object that an autoscaler scales in the cluster, made from those it would have otherwise: the
// number of replicas is given when it is created.
func Scaled(o plan.Options) plan.Options {
	if o.CreateOnly {
		return o
	}
	return Merge(o, plan.Options{ServerSide: true, Force: !o.ServerSide || o.Force, IgnoredFields: replicas})
}

// Target is what an autoscaler scales.
type Target struct {
	Kind            schema.GroupKind
	Namespace, Name string
}

// IsAutoscaler tells whether objects of the resource scale others.
func IsAutoscaler(ref objref.Ref) bool {
	return ref.Group == "autoscaling" && ref.Resource == "horizontalpodautoscalers"
}

// TargetOf returns what an autoscaler scales; false if it does not say.
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
