package spaces

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/logging"
)

// ErrNotConnected means that the API server of a space does not respond, or refuses the
// credentials. It is temporary: the caller retries.
var ErrNotConnected = errors.New("not connected")

// probeTimeout bounds one attempt to connect. A space that runs responds in milliseconds.
const probeTimeout = 10 * time.Second

// Space is a connection to a space.
type Space struct {
	// Name is the name of the space in the flags of this program. It identifies nothing.
	Name string
	// UID identifies the space: it is the UID of its namespace kube-system.
	UID types.UID
	// Restored is the ID of the last restoration of the space from a backup; empty if there was
	// none.
	Restored string
	// Config configures clients of the space. Copy it before you change it.
	Config *rest.Config
}

// Connect reads the kubeconfig and gets the space's UID from its API server. It sends one request
// and blocks for at most ten seconds. It returns ErrNotConnected if the API server does not respond
// or refuses the credentials, and another error if the kubeconfig cannot be read.
//
// When the space is another one later, because it was restored from a backup, all requests fail,
// and so does the program that pkg/runner runs with ctx: what it knows would be wrong.
//
// It needs the right to get the namespace kube-system.
func Connect(ctx context.Context, name string, o Options) (*Space, error) {
	config, err := o.Load()
	if err != nil {
		return nil, err
	}
	measureCalls(config, name)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for space %q: %w", name, err)
	}
	callerCtx := ctx
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w to space %q: get its UID: %w", ErrNotConnected, name, err)
	}
	restored := namespace.Annotations[controlv1alpha1.AnnotationRestored]
	if err := fenceIn(callerCtx, config, name, identity{namespace.UID, restored}); err != nil {
		return nil, err
	}
	return &Space{Name: name, UID: namespace.UID, Restored: restored, Config: config}, nil
}

// WaitConnected calls Connect until it succeeds or the context ends, with back-off up to ten
// seconds. It logs when it starts to wait, when the reason changes, and when it has connected.
func WaitConnected(ctx context.Context, name string, o Options) (*Space, error) {
	var space *Space
	err := retry(ctx, name, "Waiting for the space", logging.Reason, "Connected", func(ctx context.Context) (waitsFor string, err error) {
		space, err = Connect(ctx, name, o)
		if errors.Is(err, ErrNotConnected) {
			return err.Error(), nil
		}
		return "", err
	})
	return space, err
}

// retry calls do until it waits for nothing, fails, or the context ends: at once first, then with
// back-off from 250 ms to ten seconds. It logs the message waiting, with what do waits for as the
// value of the key, when that changes. If do had to wait, it logs the message done at the end.
func retry(ctx context.Context, space, waiting, key, done string, do func(context.Context) (waitsFor string, err error)) error {
	logger := klog.FromContext(ctx).WithValues(logging.Space, space)
	logged := ""
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 100, Cap: 10 * time.Second}
	err := backoff.DelayFunc().Until(ctx, true, false, func(ctx context.Context) (bool, error) {
		waitsFor, err := do(ctx)
		if waitsFor != "" && waitsFor != logged {
			logged = waitsFor
			logger.Info(waiting, key, waitsFor)
		}
		return waitsFor == "", err
	})
	if err == nil && logged != "" {
		logger.Info(done)
	}
	return err
}
