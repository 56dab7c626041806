package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/spaces"
)

const (
	// retryInterval is how often something is read again that does not exist yet.
	retryInterval = 2 * time.Second
	// requestTimeout is much longer than an API server needs to respond.
	requestTimeout = 30 * time.Second

	qps, burst = 100, 200
)

var controlPlanes = schema.GroupVersionResource{Group: "tenancy.kflex.kubestellar.org", Version: "v1alpha1", Resource: "controlplanes"}

// Space returns the configuration of the administrator of a space. It waits, at most for timeout,
// for a Secret that does not exist yet and a ControlPlane that is not ready, and writes to out what
// it waits for. It sends no request to the space.
func (o *Options) Space(ctx context.Context, space string, timeout time.Duration, out io.Writer) (*rest.Config, error) {
	if o.secret == "" && o.controlPlane == "" {
		return (&spaces.Options{Kubeconfig: o.kubeconfig, QPS: qps, Burst: burst}).Load()
	}
	host, err := o.Host()
	if err != nil {
		return nil, err
	}
	host.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(host)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(host)
	if err != nil {
		return nil, err
	}
	f := &finder{options: o, host: client, planes: dynamicClient.Resource(controlPlanes)}
	config, err := f.wait(ctx, timeout, out)
	if err != nil {
		return nil, fmt.Errorf("find the kubeconfig of space %q: %w", space, err)
	}
	config.QPS, config.Burst, config.UserAgent = host.QPS, host.Burst, host.UserAgent
	return config, nil
}

// Host returns the configuration of the hosting cluster.
func (o *Options) Host() (*rest.Config, error) {
	config, err := (&spaces.Options{Kubeconfig: o.HostKubeconfig, QPS: qps, Burst: burst}).Load()
	if err != nil {
		return nil, fmt.Errorf("connect to the hosting cluster: %w", err)
	}
	return config, nil
}

// finder finds a kubeconfig in the hosting cluster.
type finder struct {
	options *Options
	host    kubernetes.Interface
	planes  dynamic.ResourceInterface
}

// missingError is about something that may come.
type missingError struct{ error }

func (f *finder) wait(ctx context.Context, timeout time.Duration, out io.Writer) (*rest.Config, error) {
	var config *rest.Config
	var last error
	err := wait.PollUntilContextTimeout(ctx, retryInterval, timeout, true, func(ctx context.Context) (bool, error) {
		var err error
		config, err = f.find(ctx)
		if missing, ok := errors.AsType[missingError](err); ok && ctx.Err() == nil {
			if last == nil || last.Error() != missing.Error() {
				fmt.Fprintf(out, "Waiting: %v\n", missing)
			}
			last = missing
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && last != nil {
		return nil, fmt.Errorf("not within %s: %w", timeout, last)
	}
	return config, err
}

func (f *finder) find(ctx context.Context) (*rest.Config, error) {
	k, err := f.key(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := f.host.CoreV1().Secrets(k.namespace).Get(ctx, k.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, missingError{fmt.Errorf("the hosting cluster has no Secret \"%s/%s\": create it, with the kubeconfig of an administrator of the space in key %q",
			k.namespace, k.secret, k.key)}
	}
	if err != nil {
		return nil, hostError(err, "get Secret \"%s/%s\"", k.namespace, k.secret)
	}
	config, err := read(secret, k)
	if err != nil {
		return nil, fmt.Errorf("read Secret \"%s/%s\" of the hosting cluster: %w", k.namespace, k.secret, err)
	}
	return config, nil
}

// key returns where the kubeconfig is.
func (f *finder) key(ctx context.Context) (key, error) {
	o := f.options
	if o.controlPlane == "" {
		namespace, name, _ := strings.Cut(o.secret, "/")
		k := key{namespace, name, o.key}
		if k.key == "" {
			k.key = defaultKey
		}
		return k, nil
	}
	plane, err := f.planes.Get(ctx, o.controlPlane, metav1.GetOptions{})
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsNotFound(err) {
		if details := status.ErrStatus.Details; details == nil || details.Name == "" { // the resource, not the object
			return key{}, missingError{errors.New("the hosting cluster serves no ControlPlanes: install KubeFlex in it")}
		}
		return key{}, missingError{fmt.Errorf("ControlPlane %q does not exist in the hosting cluster", o.controlPlane)}
	}
	if err != nil {
		return key{}, hostError(err, "get ControlPlane %q", o.controlPlane)
	}
	k, missing := ofControlPlane(plane)
	if missing != "" {
		return key{}, missingError{errors.New(missing)}
	}
	return k, nil
}

// hostError returns an error of the hosting cluster. It is of no use to wait if the request is not
// allowed.
func hostError(err error, format string, args ...any) error {
	wrapped := fmt.Errorf(format+" of the hosting cluster: %w", append(args, err)...)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) {
		return wrapped
	}
	return missingError{wrapped}
}
