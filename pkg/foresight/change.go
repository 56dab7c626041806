package foresight

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Set makes an object of the WDS what it would be after an apply. It returns a note if that has no
// effect on clusters.
func Set(w *forecast.World, resource schema.GroupVersionResource, o *unstructured.Unstructured) (note string, err error) {
	gr := resource.GroupResource()
	switch gr {
	case controlv1alpha1.BindingPolicies.GroupResource():
		policy := &controlv1alpha1.BindingPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, policy); err != nil {
			return "", fmt.Errorf("read BindingPolicy %q: %w", o.GetName(), err)
		}
		w.Policies[policy.Name] = policy
	case controlv1alpha1.Bindings.GroupResource():
		binding := &controlv1alpha1.Binding{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, binding); err != nil {
			return "", fmt.Errorf("read Binding %q: %w", o.GetName(), err)
		}
		w.Bindings[binding.Name] = binding
	case controlv1alpha1.CustomTransforms.GroupResource():
		transform := &controlv1alpha1.CustomTransform{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, transform); err != nil {
			return "", fmt.Errorf("read CustomTransform %q: %w", o.GetName(), err)
		}
		w.Transforms[transform.Name] = transform
	default:
		ref := objref.New(gr, o.GetNamespace(), o.GetName())
		if match.NeverObject(gr, o) {
			return ref.String() + " is no workload: nothing of it is delivered to clusters", nil
		}
		if !w.Settings.Bindings.Selectable(gr) {
			return ref.String() + " is of an API group that the binding-controller does not deliver: see its flag --api-groups", nil
		}
		w.Objects[ref] = &forecast.Object{Resource: match.Resource{GroupVersionResource: resource, Kind: o.GetKind()}, Meta: o, Read: true}
	}
	return "", nil
}

// Remove removes an object from the WDS.
func Remove(w *forecast.World, ref objref.Ref) {
	switch ref.GroupResource() {
	case controlv1alpha1.BindingPolicies.GroupResource():
		delete(w.Policies, ref.Name)
	case controlv1alpha1.Bindings.GroupResource():
		delete(w.Bindings, ref.Name)
	case controlv1alpha1.CustomTransforms.GroupResource():
		delete(w.Transforms, ref.Name)
	default:
		w.Delete(ref)
	}
}

// Label changes labels of a cluster; an empty value removes the label.
func Label(w *forecast.World, cluster string, labels map[string]*string) error {
	c := w.Clusters[cluster]
	switch {
	case c == nil && w.ClustersUnread:
		return fmt.Errorf("no ITS that could be read has a cluster %q", cluster)
	case c == nil:
		return fmt.Errorf("no ITS has a cluster %q", cluster)
	case c.State == inventory.Unknown:
		return fmt.Errorf("cluster %q may be in an ITS that could not be read", cluster)
	}
	changed := *c
	changed.Labels = map[string]string{}
	maps.Copy(changed.Labels, c.Labels)
	for key, value := range labels {
		if value == nil {
			delete(changed.Labels, key)
		} else {
			changed.Labels[key] = *value
		}
	}
	if c.Sources != nil {
		changed.Properties = clusters.Properties(cluster, changed.Labels, c.Sources.Annotations, c.Sources.Data)
	}
	w.Clusters[cluster] = &changed
	return nil
}

// SetProperties makes the data of the ConfigMap with the properties of a cluster what it would be
// after a change; nil if there is none. It returns a note if that has no effect on clusters, or if
// its effect is unknown.
func SetProperties(w *forecast.World, cluster string, data map[string]string) (note string, unknown bool) {
	c := w.Clusters[cluster]
	const of = "configmaps " + controlv1alpha1.PropertiesNamespace + "/%s changes nothing: "
	switch {
	case c == nil && w.ClustersUnread:
		return fmt.Sprintf("what configmaps %s/%s changes is unknown: no ITS that could be read has a cluster of this name", controlv1alpha1.PropertiesNamespace, cluster), true
	case c == nil:
		return fmt.Sprintf(of+"no ITS has a cluster of this name", cluster), false
	case c.State == inventory.Unknown:
		return fmt.Sprintf("what configmaps %s/%s changes is unknown: cluster %s may be in an ITS that could not be read", controlv1alpha1.PropertiesNamespace, cluster, cluster), true
	case c.Refused != "":
		return fmt.Sprintf(of+"cluster %s %s", cluster, cluster, c.Refused), false
	case c.Sources == nil:
		return fmt.Sprintf("what configmaps %s/%s changes is unknown: the properties of cluster %s could not be read", controlv1alpha1.PropertiesNamespace, cluster, cluster), true
	}
	changed := *c
	changed.Sources = &forecast.Sources{Annotations: c.Sources.Annotations, Data: data}
	changed.Properties = clusters.Properties(cluster, c.Labels, c.Sources.Annotations, data)
	w.Clusters[cluster] = &changed
	return "", false
}
