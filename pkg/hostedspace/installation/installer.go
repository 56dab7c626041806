package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/apply"
	"github.com/starlinghq/starling/pkg/install/chart"
	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/install/ocm"
	"github.com/starlinghq/starling/pkg/install/packages"
)

const (
	// retryInterval is how often a space is asked again that does not respond yet.
	retryInterval = time.Second

	// requestTimeout is much longer than an API server needs to respond. Nothing is watched.
	requestTimeout = 30 * time.Second
)

// Installer installs spaces.
type Installer struct {
	// Charts has the charts, OCM the manifests of OCM.
	Charts, OCM fs.FS
	// Out receives a line for each step.
	Out io.Writer
}

// Install installs in a space what is requested. It waits until the space responds, and until what
// is installed is served. It returns a RefusedError, and has changed nothing, if the space is
// another one than requested.
func (i *Installer) Install(ctx context.Context, config *rest.Config, r *Request) error {
	config = rest.CopyConfig(config)
	config.Timeout = min(requestTimeout, r.Timeout)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	o, err := i.waitObserved(limited, config, client, r)
	if err != nil {
		return err
	}
	i.say("Space %s has Kubernetes %s", r.Name, o.Version)
	if err := check(r, o); err != nil {
		return err
	}
	if err := i.install(limited, config, client, r, o); err != nil {
		return fmt.Errorf("install space %q: %w", r.Name, err)
	}
	i.say("Space %s is installed", r.Name)
	return nil
}

func (i *Installer) install(ctx context.Context, config *rest.Config, client kubernetes.Interface, r *Request, o *observed) error {
	if err := writeRecord(ctx, client, o.Record, hostedspace.Record{Type: string(r.Type), Name: r.Name}); err != nil {
		return err
	}
	if r.Webhooks != nil {
		objs, err := ocm.Hub(i.OCM, r.Webhooks.URL, r.Webhooks.CA)
		if err != nil {
			return err
		}
		if err := i.apply(ctx, config, "OCM's hub", append(objs, ocm.Bootstrap()...)); err != nil {
			return err
		}
	}
	if err := i.installChart(ctx, config, r); err != nil {
		return err
	}
	if r.Address != nil {
		objs, err := addressObjects(r.Address)
		if err != nil {
			return err
		}
		if err := i.apply(ctx, config, "the address of the space", objs); err != nil {
			return err
		}
	}
	if r.Packages != nil {
		if err := i.apply(ctx, config, "the registration of package-server", r.Packages.Objects()); err != nil {
			return err
		}
		return i.waitPackages(ctx, config, r)
	}
	return nil
}

// waitObserved observes the space. It waits while the space does not respond.
func (i *Installer) waitObserved(ctx context.Context, config *rest.Config, client kubernetes.Interface, r *Request) (*observed, error) {
	var last error
	var o *observed
	err := wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		var err error
		o, err = observe(ctx, config, client)
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if last == nil || last.Error() != err.Error() {
			i.say("Waiting for space %s: %v", r.Name, err)
		}
		last = err
		if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
			return false, err
		}
		return false, nil
	})
	switch {
	case err == nil:
		return o, nil
	case errors.Is(err, context.Canceled):
		return nil, err
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return nil, fmt.Errorf("connect to space %q: nothing was changed: the API server refuses the credentials of the kubeconfig: %w", r.Name, err)
	case last == nil:
		last = errors.New("no response")
	}
	return nil, fmt.Errorf("connect to space %q at %s: nothing was changed: it did not respond within %s; check the address and that the space runs: %w",
		r.Name, config.Host, r.Timeout, last)
}

func (i *Installer) apply(ctx context.Context, config *rest.Config, what string, objs []*unstructured.Unstructured) error {
	if err := apply.Objects(ctx, config, objs); err != nil {
		return fmt.Errorf("install %s: %w", what, err)
	}
	i.say("Applied %s: %s", what, text.Count(len(objs), "object"))
	return nil
}

// installChart installs the chart of the space, and waits until its APIs are served.
func (i *Installer) installChart(ctx context.Context, config *rest.Config, r *Request) error {
	name := string(r.Type)
	installed, err := chart.Install(ctx, config, chart.Chart{Files: i.Charts, Name: name, Values: r.Values, Timeout: r.Timeout})
	if err != nil {
		return err
	}
	// Helm looks at nothing if the release has not changed: a definition may be missing or older.
	crds, err := definitions(installed.Manifest)
	if err != nil {
		return err
	}
	if err := apply.Objects(ctx, config, crds); err != nil {
		return fmt.Errorf("install the APIs of chart %q: %w", name, err)
	}
	if installed.Changed {
		i.say("Installed chart %s with %s", name, text.Count(len(crds), "API"))
	} else {
		i.say("Chart %s is installed already", name)
	}
	return nil
}

// definitions returns the CRDs in the manifest of a release.
func definitions(release string) ([]*unstructured.Unstructured, error) {
	objs, err := manifest.Parse(strings.NewReader(release))
	if err != nil {
		return nil, fmt.Errorf("read the Helm release: %w", err)
	}
	var crds []*unstructured.Unstructured
	for _, obj := range objs {
		if obj.GetKind() == "CustomResourceDefinition" {
			crds = append(crds, obj)
		}
	}
	return crds, nil
}

// waitPackages blocks until the API server forwards requests for packages.
func (i *Installer) waitPackages(ctx context.Context, config *rest.Config, r *Request) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	last := ""
	err = wait.PollUntilContextCancel(ctx, retryInterval, true, func(ctx context.Context) (bool, error) {
		api, err := client.Resource(packages.APIServices).Get(ctx, packages.APIService, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		available, reason := availability(api)
		if !available && reason != last {
			last = reason
			i.say("Waiting for package-server: %s", reason)
		}
		return available, nil
	})
	if wait.Interrupted(err) && last != "" {
		return fmt.Errorf("wait until package-server is available: it was not within %s, all else is installed; "+
			"check that package-server runs at %s:%d and has the credentials of the space: %s", r.Timeout, r.Packages.Host, r.Packages.Port, last)
	}
	if err != nil {
		return fmt.Errorf("wait until package-server is available: %w", err)
	}
	i.say("Package-server is available")
	return nil
}

// availability returns whether an APIService is available, and if it is not, why.
func availability(api *unstructured.Unstructured) (available bool, reason string) {
	conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Available" {
			return condition["status"] == "True", fmt.Sprint(condition["message"])
		}
	}
	return false, "the API server has not reported on it"
}

func (i *Installer) say(format string, args ...any) { fmt.Fprintf(i.Out, format+"\n", args...) }
