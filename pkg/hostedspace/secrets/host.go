package secrets

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// WaitForHost blocks until the hosting cluster responds, or fails after the timeout. A pod may
// start before the network of its node is ready. If the Job of the certificates failed then, pods
// that mount them would wait for minutes: kubelet tries to mount a missing Secret less and less
// often.
func WaitForHost(ctx context.Context, hosting kubernetes.Interface, timeout time.Duration) error {
	const interval, patience = 500 * time.Millisecond, 3 * time.Second
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		last = hosting.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("connect to the hosting cluster: no response within %s: %w", timeout, last)
	}
	return err
}
