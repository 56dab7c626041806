package clusters

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

	"github.com/starlinghq/starling/pkg/logging"
)

// ErrNotConnected says that a space could not be reached, or did not yet let us in. It passes: try again, or wait for notice.
var ErrNotConnected = errors.New("not connected")

// probeTimeout bounds one attempt to connect. A space that is there answers in milliseconds.
const probeTimeout = 10 * time.Second

// Space is a space that answered.
type Space struct {
	// Name is what the space was called when it was given to us; it identifies nothing.
	Name string
	// UID identifies the space: it is the UID of its kube-system namespace.
	UID types.UID
	// Config leads to the space. Copy before you change it.
	Config *rest.Config
}

// Connect reads the kubeconfig, probes the API server once and learns the space's identity. It blocks for at most ten
// seconds. A space that cannot be reached, or refuses our credentials, is ErrNotConnected; a kubeconfig that cannot be read is
// not.
//
// It needs the right to get the namespace kube-system.
func Connect(ctx context.Context, name string, o Options) (*Space, error) {
	config, err := o.Load()
	if err != nil {
		return nil, err
	}
	measured(config, name)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for space %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w to space %s: read its identity: %w", ErrNotConnected, name, err)
	}
	return &Space{Name: name, UID: namespace.UID, Config: config}, nil
}

// WaitConnected is Connect until it succeeds or the context ends, with back-off up to ten seconds. It logs when it begins to
// wait, whenever the reason changes, and when it has connected.
func WaitConnected(ctx context.Context, name string, o Options) (*Space, error) {
	var space *Space
	logged := ""
	err := retry(ctx, func(ctx context.Context) (bool, error) {
		s, err := Connect(ctx, name, o)
		if errors.Is(err, ErrNotConnected) {
			if text := err.Error(); text != logged {
				logged = text
				klog.FromContext(ctx).Info("Waiting for the space", logging.Space, name, logging.Reason, text)
			}
			return false, nil
		}
		space = s
		return true, err
	})
	if err != nil {
		return nil, err
	}
	if logged != "" {
		klog.FromContext(ctx).Info("Connected", logging.Space, name)
	}
	return space, nil
}

// retry calls do at once, and then with back-off from a quarter of a second to ten seconds, until it is done, fails, or the
// context ends.
func retry(ctx context.Context, do wait.ConditionWithContextFunc) error {
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 100, Cap: 10 * time.Second}
	return backoff.DelayFunc().Until(ctx, true, false, do)
}
