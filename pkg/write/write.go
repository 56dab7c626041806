// Package write is the only writer of API objects in Starling's controllers.
//
// One place to write gives one place to count: invariants 2 and 3 of the architecture (writes follow change, a restart
// writes nothing) are checked in tests and seen in production by the counter of this package. Objects are sent as the JSON
// that the caller decided on and answers are read only as far as their metadata, so a large work costs one encoding.
package write

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var writes = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "starling",
	Name:           "writes_total",
	Help:           "Writes to API servers, by space, resource, verb, reason and whether they were accepted.",
	StabilityLevel: metrics.ALPHA,
}, []string{"space", "resource", "verb", "reason", "accepted"})

func init() { legacyregistry.MustRegister(writes) }

// Target says which object is written.
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

// String names the target as users write it.
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

// Writer writes objects to one space. It is safe for concurrent use; each call blocks until the API server has answered or
// the context ends. Errors wrap those of the API server, so apierrors.IsConflict and the like see through them.
type Writer struct {
	client  rest.Interface
	space   string
	manager string
}

// New returns a Writer for the space that config leads to. The name of the space appears in metrics only; manager is the
// field manager of all writes.
func New(config *rest.Config, space, manager string) (*Writer, error) {
	config = dynamic.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // requests carry absolute paths
	// A status with a field that the schema of the WDS does not know is no news, yet a warning with each write.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build client for space %s: %w", space, err)
	}
	return &Writer{client: client, space: space, manager: manager}, nil
}

// Create creates the object. The reason is a short word for the metric that says why.
func (w *Writer) Create(ctx context.Context, t Target, obj any, reason string) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t, err)
	}
	request := w.client.Post().AbsPath(path(t, false)...).Param("fieldManager", w.manager).
		SetHeader("Content-Type", "application/json").Body(body)
	return w.do(ctx, t, "create", reason, request)
}

// Update replaces the object, or its subresource. The object carries the resourceVersion that it was decided on; a conflict
// is returned as such.
func (w *Writer) Update(ctx context.Context, t Target, obj any, reason string) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", t, err)
	}
	request := w.client.Put().AbsPath(path(t, true)...).Param("fieldManager", w.manager).
		SetHeader("Content-Type", "application/json").Body(body)
	return w.do(ctx, t, "update", reason, request)
}

// UpdateInto is Update for an object whose answer says more than that it was written: the answer is read, as JSON.
func (w *Writer) UpdateInto(ctx context.Context, t Target, obj, answer any, reason string) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t, err)
	}
	request := w.client.Put().AbsPath(path(t, true)...).Param("fieldManager", w.manager).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body)
	return w.send(ctx, t, "update", reason, request, answer)
}

// Patch patches the object, or its subresource.
func (w *Writer) Patch(ctx context.Context, t Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error) {
	request := w.client.Patch(kind).AbsPath(path(t, true)...).Param("fieldManager", w.manager).Body(patch)
	return w.do(ctx, t, "patch", reason, request)
}

// Delete deletes the object of that UID, in the background. The UID is required: an object of the same name that was created
// since the decision is another object.
func (w *Writer) Delete(ctx context.Context, t Target, uid types.UID, reason string) error {
	policy := metav1.DeletePropagationBackground
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &policy,
	})
	if err != nil {
		return fmt.Errorf("encode delete options of %s: %w", t, err)
	}
	request := w.client.Delete().AbsPath(path(t, true)...).SetHeader("Content-Type", "application/json").Body(body)
	_, err = w.do(ctx, t, "delete", reason, request)
	return err
}

// metadataOnly asks for no more of the object than is read. A server that cannot give that gives the whole.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

func (w *Writer) do(ctx context.Context, t Target, verb, reason string, request *rest.Request) (*metav1.PartialObjectMetadata, error) {
	var meta metav1.PartialObjectMetadata
	if err := w.send(ctx, t, verb, reason, request.SetHeader("Accept", metadataOnly), &meta); err != nil {
		return nil, err
	}
	return &meta, nil
}

func (w *Writer) send(ctx context.Context, t Target, verb, reason string, request *rest.Request, answer any) error {
	result := request.Do(ctx)
	// Error, unlike Raw, has decoded the Status that an API server answers with.
	if err := result.Error(); err != nil {
		writes.WithLabelValues(w.space, t.Resource.Resource, verb, reason, "false").Inc()
		return fmt.Errorf("%s %s: %w", verb, t, err)
	}
	writes.WithLabelValues(w.space, t.Resource.Resource, verb, reason, "true").Inc()
	raw, err := result.Raw()
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, t, err)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("%s %s: read answer: %w", verb, t, err)
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
