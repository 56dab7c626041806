package agent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// reported is what the cache holds of an object of the WEC: its identity and, if OCM applied it,
// its status.
type reported struct {
	metav1.ObjectMeta
	gvk schema.GroupVersionKind
	// applied reports whether an AppliedManifestWork owns the object.
	applied bool
	// status is the object's .status as JSON with sorted keys, nil for none; truncated if it is
	// very large. Set only if applied.
	status []byte
	// observed is status.observedGeneration; 0 if there is none.
	observed int64
	// source identifies the object in the WDS that the object is a copy of, and its content.
	source corestatus.Source
	// size is the size of the status in the cluster in bytes. truncated is how it was truncated, ""
	// if not.
	size      int
	truncated string
}

// reduceObject is the transform of the informers of objects.
func reduceObject(obj any) (any, error) {
	whole, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil // reduced before
	}
	for _, owner := range whole.GetOwnerReferences() {
		if owner.Kind == "AppliedManifestWork" && schema.FromAPIVersionAndKind(owner.APIVersion, "").Group == workv1.GroupName {
			return keep(whole)
		}
	}
	return &reported{ObjectMeta: identity(whole)}, nil
}

// keep reduces an object to what is reported of it.
func keep(whole *unstructured.Unstructured) (*reported, error) {
	r := &reported{ObjectMeta: identity(whole), gvk: whole.GroupVersionKind(), applied: true}
	// A WorkStatus cannot hold a status that is not an object; it counts as none.
	if status, ok := whole.Object["status"].(map[string]any); ok {
		var err error
		r.observed, _ = status["observedGeneration"].(int64)
		if r.status, err = json.Marshal(status); err != nil {
			return nil, fmt.Errorf("encode status of %s %s/%s: %w", r.gvk.Kind, r.Namespace, r.Name, err)
		}
	}
	r.source, _ = corestatus.ParseSource(whole.GetAnnotations()[controlv1alpha1.AnnotationSourceGeneration])
	r.size = len(r.status)
	return r.within(corestatus.MaxStatus)
}

// within returns the object with its status truncated to a limit in bytes: the same object if it is
// not longer.
func (r *reported) within(limit int) (*reported, error) {
	if len(r.status) <= limit {
		return r, nil
	}
	var status map[string]any
	if err := utiljson.Unmarshal(r.status, &status); err != nil {
		return nil, fmt.Errorf("decode status of %s %s/%s: %w", r.gvk.Kind, r.Namespace, r.Name, err)
	}
	status, cut := corestatus.Truncate(status, limit)
	cut.Size = r.size
	short := *r
	var err error
	if short.status, err = json.Marshal(status); err != nil {
		return nil, fmt.Errorf("encode status of %s %s/%s: %w", r.gvk.Kind, r.Namespace, r.Name, err)
	}
	short.truncated = cut.String()
	return &short, nil
}

// report is what the cache holds of a WorkStatus.
type report struct {
	metav1.ObjectMeta
	source controlv1alpha1.SourceRef
	// hash is the hash of the status, "" for none.
	hash string
}

// reduceReport is the transform of the informer of WorkStatuses.
func reduceReport(obj any) (any, error) {
	ws, ok := obj.(*controlv1alpha1.WorkStatus)
	if !ok {
		return obj, nil // reduced before
	}
	r := &report{ObjectMeta: identity(ws), source: ws.Spec.SourceRef}
	r.Labels = pick(ws.Labels, copiedLabels)
	r.Annotations = pick(ws.Annotations, ownAnnotations)
	if ws.Status != nil {
		// Sorted again: an API server may respond with another order.
		var status map[string]any
		if err := utiljson.Unmarshal(ws.Status.Raw, &status); err == nil && status != nil {
			sorted, err := json.Marshal(status)
			if err != nil {
				return nil, err
			}
			r.hash = hashOf(sorted)
		}
	}
	return r, nil
}

// ownAnnotations are those that the agent writes on WorkStatuses.
var ownAnnotations = []string{
	controlv1alpha1.AnnotationTruncated, controlv1alpha1.AnnotationWDSUIDs, controlv1alpha1.AnnotationSourceGeneration,
	controlv1alpha1.AnnotationGeneration, controlv1alpha1.AnnotationGone,
}

// pick returns the entries with these keys, nil for none.
func pick(from map[string]string, keys []string) map[string]string {
	var picked map[string]string
	for _, key := range keys {
		if value, ok := from[key]; ok {
			if picked == nil {
				picked = map[string]string{}
			}
			picked[key] = value
		}
	}
	return picked
}

// reduceWork is the transform of the informer of ManifestWorks.
func reduceWork(obj any) (any, error) {
	if w, ok := obj.(*metav1.PartialObjectMetadata); ok {
		w.ManagedFields, w.OwnerReferences, w.Finalizers = nil, nil, nil
		w.Annotations = pick(w.Annotations, []string{controlv1alpha1.AnnotationClaims})
	}
	return obj, nil
}

// reduceApplied is the transform of the informer of AppliedManifestWorks.
func reduceApplied(obj any) (any, error) {
	if w, ok := obj.(*workv1.AppliedManifestWork); ok {
		w.ManagedFields, w.Annotations, w.Labels, w.Finalizers = nil, nil, nil, nil
	}
	return obj, nil
}

func identity(obj metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       obj.GetNamespace(),
		Name:            obj.GetName(),
		UID:             obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(),
		Generation:      obj.GetGeneration(),
	}
}

// hashOf returns a hash of a status as JSON, "" for none.
func hashOf(status []byte) string {
	if status == nil {
		return ""
	}
	sum := sha256.Sum256(status)
	return string(sum[:])
}
