package client

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
)

// NewRecorder returns a recorder of events whose reporting controller is controller. It never
// blocks. Events are written to the API server while run runs, which blocks until its context ends.
// The add functions register the types of the objects that the events are about.
func NewRecorder(config *rest.Config, controller string, add ...func(*runtime.Scheme) error) (recorder events.EventRecorder, run func(context.Context) error, err error) {
	client, err := eventsv1.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("build client for events: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, types := range add {
		if err := types(scheme); err != nil {
			return nil, nil, err
		}
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client})
	return broadcaster.NewRecorder(scheme, controller), func(ctx context.Context) error {
		defer broadcaster.Shutdown()
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			return fmt.Errorf("record events: %w", err)
		}
		<-ctx.Done()
		return nil
	}, nil
}
