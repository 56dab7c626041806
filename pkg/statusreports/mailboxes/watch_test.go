package mailboxes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// its is an ITS with WorkStatuses. Each page has one.
type its struct {
	mu      sync.Mutex
	exist   map[string]*controlv1alpha1.WorkStatus
	version int
	// notServed says that the resource does not exist.
	notServed bool
	selectors map[string]bool
	watcher   *watch.FakeWatcher
}

func (i *its) ListWorkStatuses(_ context.Context, o metav1.ListOptions, each func(*controlv1alpha1.WorkStatus)) (page metav1.ListMeta, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.selectors[o.LabelSelector] = true
	if i.notServed {
		return page, apierrors.NewNotFound(controlv1alpha1.WorkStatuses.GroupResource(), "")
	}
	page.ResourceVersion = fmt.Sprint(i.version)
	last := ""
	for _, name := range slices.Sorted(maps.Keys(i.exist)) {
		switch {
		case name <= o.Continue:
		case last != "":
			page.Continue = last
			return page, nil
		default:
			each(i.exist[name])
			last = name
		}
	}
	return page, nil
}

func (i *its) WatchWorkStatuses(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.selectors[o.LabelSelector] = true
	if i.notServed {
		return nil, apierrors.NewNotFound(controlv1alpha1.WorkStatuses.GroupResource(), "")
	}
	i.watcher = watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 100})
	return i.watcher, nil
}

// do changes what exists. What is watched sees it.
func (i *its) do(verb watch.EventType, ws *controlv1alpha1.WorkStatus) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.version++
	ws.ResourceVersion = fmt.Sprint(i.version)
	if verb == watch.Deleted {
		delete(i.exist, ws.Namespace+"/"+ws.Name)
	} else {
		i.exist[ws.Namespace+"/"+ws.Name] = ws
	}
	if i.watcher != nil {
		i.watcher.Action(verb, ws)
	}
}

// TestRun: everything is read page by page, then watched; what was refused is read when there is
// room; and an ITS that does not serve WorkStatuses is no error.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := follow(t, Limits{Reports: 2, Bytes: 1 << 10})
		i := &its{exist: map[string]*controlv1alpha1.WorkStatus{}, notServed: true, selectors: map[string]bool{}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx, i)
		}()
		expect := func(what string, after time.Duration, partial bool, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(f.objects))); diff != "" || f.partial["a"] != partial {
				t.Errorf("%s: partial %t (-want +got):\n%s", what, f.partial["a"], diff)
			}
		}
		expect("not served", time.Second, false)
		counted := func(missing, listed int) {
			t.Helper()
			f.mu.Lock()
			defer f.mu.Unlock()
			if min(f.missing, 1) != missing || f.listed != listed || s.HasSynced() != (listed > 0) {
				t.Errorf("not served: %d times; listed %d times, want %d; synced %t", f.missing, f.listed, listed, s.HasSynced())
			}
			f.missing = 0
		}
		counted(1, 0)
		i.mu.Lock()
		i.notServed = false
		i.mu.Unlock()
		for _, name := range []string{"1", "2", "3"} {
			i.do(watch.Added, report("a", name, "", ""))
		}
		i.do(watch.Added, report("b", "1", "", ""))
		expect("listed", refillPeriod/2, true, "a/1", "a/2", "b/1")
		counted(0, 1)
		i.do(watch.Added, report("b", "2", "", ""))
		i.do(watch.Deleted, report("a", "1", "", ""))
		expect("watched", 0, true, "a/2", "b/1", "b/2")
		expect("listed again", refillPeriod, false, "a/2", "a/3", "b/1", "b/2")
		counted(0, 2)
		// What disappeared while nobody watched is noticed.
		i.mu.Lock()
		clear(i.exist)
		i.watcher.Stop()
		i.watcher = nil
		i.mu.Unlock()
		i.do(watch.Added, report("b", "3", "", ""))
		i.mu.Lock()
		i.notServed = true
		i.mu.Unlock()
		expect("not served any more", time.Minute, false, "a/2", "a/3", "b/1", "b/2")
		counted(1, 2)
		i.mu.Lock()
		i.notServed = false
		i.mu.Unlock()
		expect("served again", time.Minute, false, "b/3")
		counted(0, 3)
		if diff := cmp.Diff(map[string]bool{controlv1alpha1.LabelWDSUID + " in (several,uid)": true}, i.selectors); diff != "" {
			t.Errorf("selectors (-want +got):\n%s", diff)
		}
		stop()
		<-ended
	})
}
