package statusreports

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
)

const (
	// pageSize is the number of WorkStatuses that one request returns.
	pageSize = 500
	// refillPeriod is the least time between two lists of an ITS that were requested because a
	// mailbox has room again.
	refillPeriod = time.Minute
)

// source reads the WorkStatuses with certain labels, of all mailboxes of an ITS.
type source struct {
	client   *client.Client
	selector string
	into     *mailboxes
}

// run keeps the mailboxes up to date until the context ends.
func (s source) run(ctx context.Context) {
	lists := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}, inPages{})
	for ctx.Err() == nil {
		reading, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cache.NewReflectorWithOptions(lists, &controlv1alpha1.WorkStatus{}, s.into, cache.ReflectorOptions{Name: "WorkStatuses"}).
				RunWithContext(reading)
		}()
		select {
		case <-ctx.Done():
		case <-time.After(refillPeriod):
			select {
			case <-ctx.Done():
			case <-s.into.refill:
			}
		}
		stop()
		<-ended
	}
}

// inPages makes a reflector list in pages: a list that is streamed is in memory as a whole.
type inPages struct{}

func (inPages) IsWatchListSemanticsUnSupported() bool { return true }

// list reads all WorkStatuses into the mailboxes, page by page. The list that it returns is empty.
func (s source) list(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	// Without a version: version 0 would return everything at once.
	options := metav1.ListOptions{LabelSelector: s.selector, Limit: pageSize}
	for first := true; ; first = false {
		page, err := s.client.WorkStatuses(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, err
		}
		s.into.list(page.Items, first)
		if options.Continue = page.Continue; options.Continue == "" {
			return &controlv1alpha1.WorkStatusList{ListMeta: metav1.ListMeta{ResourceVersion: page.ResourceVersion}}, nil
		}
	}
}

func (s source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = s.selector
	return s.client.WorkStatuses(metav1.NamespaceAll).Watch(ctx, options)
}
