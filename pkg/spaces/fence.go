package spaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/runner"
)

// ErrReplaced means that a space is not the one any more that the program has connected to: it was
// restored from a backup, or it is another one. The program must start again.
var ErrReplaced = errors.New("the space was restored from a backup, or is another one: this program must start again")

// identity is what must not change while a program is connected to a space.
type identity struct {
	uid      types.UID
	restored string
}

// fence keeps a program from seeing two states of a space as one. A space that is restored has old
// content in one object and not yet in another one, as the program sees it: it would act on a
// mixture. A restored space has another API server process, and thus other connections. So the
// first response of each connection is withheld until the space has said again who it is.
type fence struct {
	want identity
	url  string
	fail func(error)

	mu sync.Mutex
	// checked are the last connections of which it is known that they are to the space.
	checked []net.Conn
	lost    error
}

// maxConnections is more than a program has to one space at a time. A connection that is checked
// twice costs a request.
const maxConnections = 32

// fenceIn makes the requests of config pass a fence.
func fenceIn(ctx context.Context, config *rest.Config, name string, want identity) error {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("read the address of space %q: %w", name, err)
	}
	f := &fence{want: want, url: base.JoinPath("api/v1/namespaces", metav1.NamespaceSystem).String(), fail: func(err error) {
		err = fmt.Errorf("space %q: %w", name, err)
		klog.FromContext(ctx).Error(err, "Cannot go on", logging.Space, name)
		runner.Fail(ctx, err)
	}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return f.roundTrip(next, request) })
	})
	return nil
}

func (f *fence) roundTrip(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	if _, err := f.known(nil); err != nil {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, err
	}
	var mu sync.Mutex
	var used net.Conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		mu.Lock()
		defer mu.Unlock()
		used = info.Conn
	}}
	response, err := next.RoundTrip(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	known, err := f.known(used)
	if !known && err == nil {
		err = f.check(next, request, used)
	}
	if err != nil {
		response.Body.Close()
		return nil, err
	}
	return response, nil
}

// known reports whether a connection was checked. It returns an error once the space is another
// one.
func (f *fence) known(connection net.Conn) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.checked, connection), f.lost
}

// check asks the space who it is, with the credentials of a request. The response comes from etcd,
// so it is true at this time: what was read before is of the same space.
func (f *fence) check(next http.RoundTripper, like *http.Request, connection net.Conn) error {
	request, err := http.NewRequestWithContext(like.Context(), http.MethodGet, f.url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header = like.Header.Clone()
	request.Header.Del("Content-Type")
	request.Header.Set("Accept", "application/json")
	response, err := next.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("check whether the space is the same: GET %s: %s", f.url, response.Status)
	}
	namespace := &metav1.PartialObjectMetadata{}
	if err := json.NewDecoder(response.Body).Decode(namespace); err != nil {
		return fmt.Errorf("check whether the space is the same: GET %s: %w", f.url, err)
	}
	got := identity{namespace.UID, namespace.Annotations[controlv1alpha1.AnnotationRestored]}
	f.mu.Lock()
	defer f.mu.Unlock()
	if got != f.want {
		if f.lost == nil {
			f.lost = ErrReplaced
			f.fail(ErrReplaced)
		}
		return f.lost
	}
	f.checked = append(f.checked[max(0, len(f.checked)-maxConnections+1):], connection)
	return nil
}
