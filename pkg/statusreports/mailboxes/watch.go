package mailboxes

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

const (
	// pageSize is the number of WorkStatuses that one request returns.
	pageSize = 500
	// refillPeriod is the least time between two lists of an ITS that were requested because a
	// mailbox has room again.
	refillPeriod = time.Minute
)

// Client reads the WorkStatuses of all mailboxes of an ITS. *client.Client is one.
type Client interface {
	// ListWorkStatuses calls each with the items of a list, and returns its metadata.
	ListWorkStatuses(ctx context.Context, options metav1.ListOptions, each func(*controlv1alpha1.WorkStatus)) (metav1.ListMeta, error)
	WatchWorkStatuses(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// source reads the WorkStatuses of one WDS, and those of several, for a Store.
type source[T any] struct {
	client   Client
	selector string
	into     *Store[T]
}

// Run keeps the Store up to date with the WorkStatuses of its WDS until the context ends. Then it
// returns, and nothing is called any more.
func (s *Store[T]) Run(ctx context.Context, client Client) {
	from := source[T]{client, fmt.Sprintf("%s in (%s,%s)", controlv1alpha1.LabelWDSUID, controlv1alpha1.SeveralWDSes, s.config.WDS), s}
	for ctx.Err() == nil {
		reading, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			from.read(reading)
		}()
		select {
		case <-ctx.Done():
		case <-time.After(refillPeriod):
			select {
			case <-ctx.Done():
			case <-s.refill:
			}
		}
		stop()
		<-ended
	}
}

// read lists and watches until the context ends.
func (s source[T]) read(ctx context.Context) {
	lists := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}, inPages{})
	reflector := cache.NewReflectorWithOptions(lists, &controlv1alpha1.WorkStatus{}, s.into, cache.ReflectorOptions{Name: "WorkStatuses"})
	// The delays are those of a reflector that runs by itself. Such a one logs each answer that
	// WorkStatuses are not served, which is normal where the add-on is not installed.
	delays := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 6, Factor: 2, Jitter: 1}
	_ = delays.DelayWithReset(clock.RealClock{}, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		switch err := reflector.ListAndWatchWithContext(ctx); {
		case apierrors.IsNotFound(err):
			s.into.config.NotServed()
		case err != nil:
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		}
		return false, nil
	}) // the error is that of the context
}

// inPages makes a reflector list in pages: a list that is streamed is in memory as a whole.
type inPages struct{}

func (inPages) IsWatchListSemanticsUnSupported() bool { return true }

// listing is what a list keeps, on its way through a reflector into the Store. A list that was
// abandoned leaves nothing behind.
type listing[T any] struct{ clusters map[string]*mailbox[T] }

// GetObjectKind implements runtime.Object.
func (*listing[T]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. Nobody copies a listing.
func (l *listing[T]) DeepCopyObject() runtime.Object { return l }

// list reads all WorkStatuses, page by page, into one listing. What is beyond the limits is not
// kept: so a list needs no more memory than what is kept, beside one WorkStatus.
func (s source[T]) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	into := &listing[T]{clusters: map[string]*mailbox[T]{}}
	// Without a version: version 0 would return everything at once.
	options := metav1.ListOptions{LabelSelector: s.selector, Limit: pageSize}
	for {
		page, err := s.client.ListWorkStatuses(ctx, options, func(ws *controlv1alpha1.WorkStatus) {
			boxOf(into.clusters, ws.Namespace).put(ws, s.into.config.reduce(ws), s.into.config.Limits)
		})
		if err != nil {
			return nil, err
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: page.ResourceVersion}, Items: []runtime.RawExtension{{Object: into}}}, nil
		}
	}
}

func (s source[T]) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = s.selector
	return s.client.WatchWorkStatuses(ctx, options)
}
