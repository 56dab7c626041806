// Package writer writes API objects for Starling's controllers. Nothing else in them writes.
//
// One place to write gives one place to count: tests and production check invariants 2 and 3 of the
// architecture (writes follow change, a restart writes nothing) with the counter of this package.
// Objects are encoded once, as JSON, and of responses only the metadata is decoded, so a large work
// costs one encoding.
package writer

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"

	starlingmetrics "github.com/starlinghq/starling/pkg/metrics"
)

var writes = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "starling",
	Name:           "writes_total",
	Help:           "Writes to API servers, by space, resource, verb, reason and whether they were accepted.",
	StabilityLevel: metrics.ALPHA,
}, []string{"space", "resource", "verb", "reason", "accepted"})

// Target identifies the object to write.
type Target struct {
	// Resource is the object's resource, in the version that is written.
	Resource schema.GroupVersionResource
	// Namespace is "" for a cluster-scoped object.
	Namespace string
	// Name is the object's name.
	Name string
	// Subresource is "" for the object itself, or "status" and the like.
	Subresource string
}

// String returns the target as users write it: "deployments.apps web/nginx (status)".
func (t Target) String() string {
	s := t.Resource.GroupResource().String() + " "
	if t.Namespace != "" {
		s += t.Namespace + "/"
	}
	s += t.Name
	if t.Subresource != "" {
		s += " (" + t.Subresource + ")"
	}
	return s
}

// Writer writes objects to one space. It is safe for concurrent use. Each call blocks until the API
// server has responded or the context ends. Errors wrap those of the API server, so
// apierrors.IsConflict and similar functions work on them.
type Writer struct {
	client  rest.Interface
	space   string
	manager string
}

// New returns a Writer for the space that config connects to. The name of the space is used only in
// metrics and errors. The manager is the field manager of all writes.
func New(config *rest.Config, space, manager string) (*Writer, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // requests carry absolute paths
	// A returned status may have fields that the schema of the WDS lacks. The API server would warn
	// about that at each write.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build client for space %q: %w", space, err)
	}
	starlingmetrics.Register(writes)
	return &Writer{client: client, space: space, manager: manager}, nil
}

// Create creates the object. The reason is a short word for the metric: why the object is written.
func (w *Writer) Create(ctx context.Context, t Target, obj any, reason string) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t, err)
	}
	request := w.client.Post().AbsPath(path(t, false)...).Param("fieldManager", w.manager).
		SetHeader("Content-Type", "application/json").Body(body)
	return w.do(ctx, t, "create", reason, request)
}

// Update replaces the object, or its subresource. The object has the resourceVersion on which the
// caller based its decision. A conflict is returned as an API error.
func (w *Writer) Update(ctx context.Context, t Target, obj any, reason string) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t, err)
	}
	request := w.client.Put().AbsPath(path(t, true)...).Param("fieldManager", w.manager).
		SetHeader("Content-Type", "application/json").Body(body)
	return w.do(ctx, t, "update", reason, request)
}

// UpdateInto is like Update, and decodes the whole response, which is JSON, into response.
func (w *Writer) UpdateInto(ctx context.Context, t Target, obj, response any, reason string) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t, err)
	}
	request := w.client.Put().AbsPath(path(t, true)...).Param("fieldManager", w.manager).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body)
	return w.send(ctx, t, "update", reason, request, response)
}

// Try returns the object as the API server would store it, and stores nothing: it would be created
// if it has no resourceVersion, and updated otherwise. Try is not a write, so it is not counted.
func (w *Writer) Try(ctx context.Context, t Target, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t, err)
	}
	verb, request := "create", w.client.Post().AbsPath(path(t, false)...)
	if obj.GetResourceVersion() != "" {
		verb, request = "update", w.client.Put().AbsPath(path(t, true)...)
	}
	result := request.Param("fieldManager", w.manager).Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx)
	// Error, unlike Raw, decodes the Status in the API server's response.
	if err := result.Error(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, t, err)
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, t, err)
	}
	stored := &unstructured.Unstructured{}
	if err := stored.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("%s %s: decode response: %w", verb, t, err)
	}
	return stored, nil
}

// Patch patches the object, or its subresource.
func (w *Writer) Patch(ctx context.Context, t Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error) {
	request := w.client.Patch(kind).AbsPath(path(t, true)...).Param("fieldManager", w.manager).Body(patch)
	return w.do(ctx, t, "patch", reason, request)
}

// Delete deletes the object with that UID, with background propagation. The UID is required: an
// object that was created with the same name since the caller decided is another object.
func (w *Writer) Delete(ctx context.Context, t Target, uid types.UID, reason string) error {
	return w.delete(ctx, t, metav1.Preconditions{UID: &uid}, reason)
}

// DeleteVersion deletes an object as Delete does, if it still has this resourceVersion.
func (w *Writer) DeleteVersion(ctx context.Context, t Target, uid types.UID, resourceVersion, reason string) error {
	return w.delete(ctx, t, metav1.Preconditions{UID: &uid, ResourceVersion: &resourceVersion}, reason)
}

func (w *Writer) delete(ctx context.Context, t Target, preconditions metav1.Preconditions, reason string) error {
	policy := metav1.DeletePropagationBackground
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &preconditions,
		PropagationPolicy: &policy,
	})
	if err != nil {
		return fmt.Errorf("encode delete options of %s: %w", t, err)
	}
	request := w.client.Delete().AbsPath(path(t, true)...).SetHeader("Content-Type", "application/json").Body(body)
	_, err = w.do(ctx, t, "delete", reason, request)
	return err
}

// metadataOnly requests a response without spec and status. A server that does not support this
// returns the whole object.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

func (w *Writer) do(ctx context.Context, t Target, verb, reason string, request *rest.Request) (*metav1.PartialObjectMetadata, error) {
	var meta metav1.PartialObjectMetadata
	if err := w.send(ctx, t, verb, reason, request.SetHeader("Accept", metadataOnly), &meta); err != nil {
		return nil, err
	}
	return &meta, nil
}

func (w *Writer) send(ctx context.Context, t Target, verb, reason string, request *rest.Request, response any) error {
	result := request.Do(ctx)
	// Error, unlike Raw, decodes the Status in the API server's response.
	if err := result.Error(); err != nil {
		writes.WithLabelValues(w.space, t.Resource.Resource, verb, reason, "false").Inc()
		return fmt.Errorf("%s %s: %w", verb, t, err)
	}
	writes.WithLabelValues(w.space, t.Resource.Resource, verb, reason, "true").Inc()
	raw, err := result.Raw()
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, t, err)
	}
	if err := json.Unmarshal(raw, response); err != nil {
		return fmt.Errorf("%s %s: decode response: %w", verb, t, err)
	}
	return nil
}

func path(t Target, named bool) []string {
	segments := make([]string, 0, 8)
	if t.Resource.Group == "" {
		segments = append(segments, "api")
	} else {
		segments = append(segments, "apis", t.Resource.Group)
	}
	segments = append(segments, t.Resource.Version)
	if t.Namespace != "" {
		segments = append(segments, "namespaces", t.Namespace)
	}
	segments = append(segments, t.Resource.Resource)
	if named {
		segments = append(segments, t.Name)
		if t.Subresource != "" {
			segments = append(segments, t.Subresource)
		}
	}
	return segments
}
