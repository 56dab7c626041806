package ocm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	workscheme "open-cluster-management.io/api/client/work/clientset/versioned/scheme"
	workv1 "open-cluster-management.io/api/work/v1"
)

// watchWorks watches ManifestWorks as their typed client does, and parses each event once. The
// client would parse it five times: for its end, for its type, for the kind of the object, for the
// object, and for its unknown fields. A work is large, and each of our writes causes an event, so
// that is most of the cost of a delivery.
func watchWorks(ctx context.Context, client rest.Interface, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	request := client.Get().Resource(ManifestWorks.Resource).VersionedParams(&o, workscheme.ParameterCodec)
	if o.TimeoutSeconds != nil {
		request = request.Timeout(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcherWithLogger(klog.FromContext(ctx), &workDecoder{stream, json.NewDecoder(stream)},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

// workDecoder reads the events of a watch on ManifestWorks.
type workDecoder struct {
	stream io.ReadCloser
	json   *json.Decoder
}

// workEvent is an event: about a ManifestWork, or an error with a Status in its place.
type workEvent struct {
	Type   watch.EventType `json:"type"`
	Object struct {
		Metadata metav1.ObjectMeta       `json:"metadata"`
		Spec     workv1.ManifestWorkSpec `json:"spec"`
		Status   json.RawMessage         `json:"status"` // an object, or "Failure"

		Message string                `json:"message"`
		Reason  metav1.StatusReason   `json:"reason"`
		Details *metav1.StatusDetails `json:"details"`
		Code    int32                 `json:"code"`
	} `json:"object"`
}

// Decode implements watch.Decoder.
func (d *workDecoder) Decode() (watch.EventType, runtime.Object, error) {
	var e workEvent
	if err := d.json.Decode(&e); err != nil {
		return "", nil, err
	}
	if e.Type == watch.Error {
		return e.Type, &metav1.Status{
			Status: metav1.StatusFailure, Message: e.Object.Message, Reason: e.Object.Reason, Details: e.Object.Details, Code: e.Object.Code,
		}, nil
	}
	work := &workv1.ManifestWork{ObjectMeta: e.Object.Metadata, Spec: e.Object.Spec}
	if len(e.Object.Status) > 0 {
		if err := json.Unmarshal(e.Object.Status, &work.Status); err != nil {
			return "", nil, err
		}
	}
	return e.Type, work, nil
}

// Close implements watch.Decoder.
func (d *workDecoder) Close() { d.stream.Close() }
