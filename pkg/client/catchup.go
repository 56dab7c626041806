package client

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// seenPoll is how often it is checked whether a watch shows what was read.
	seenPoll = 10 * time.Millisecond
	// readAgain is how long after an error, or without effect, it is read again.
	readAgain = time.Second
)

// CatchUp blocks until a view, which a watch fills, has had everything that exists now, in that
// version or a newer one. read asks the API server, shown returns what the view has, both as
// versions by key; newer reports whether version a is surely newer than b. Who uses the view may be
// behind it. CatchUp returns an error only if the context ends.
func CatchUp[K comparable, V any](ctx context.Context, read func(context.Context) (map[K]V, error), shown func() map[K]V, newer func(a, b V) bool) error {
	return wait.PollUntilContextCancel(ctx, readAgain, true, func(ctx context.Context) (bool, error) {
		before := shown()
		exist, err := read(ctx)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot read which objects exist; will retry before anything is written", "err", err)
			return false, nil
		}
		err = wait.PollUntilContextTimeout(ctx, seenPoll, readAgain, true, func(context.Context) (bool, error) {
			return !behind(before, exist, shown(), newer), nil
		})
		return err == nil, nil
	})
}

// behind reports whether a view does not show the objects yet that were read, after it showed those
// before. An object that was deleted meanwhile may look like one that is not shown yet, until all
// are read again.
func behind[K comparable, V any](before, read, shown map[K]V, newer func(a, b V) bool) bool {
	for key, version := range read {
		_, had := before[key]
		now, shows := shown[key]
		if !shows && !had || shows && newer(version, now) {
			return true
		}
	}
	for key := range before {
		_, exists := read[key]
		if _, shows := shown[key]; shows && !exists {
			return true
		}
	}
	return false
}

// CatchUpStore is CatchUp for the store of an informer. Handlers of the informer may be behind it.
func CatchUpStore(ctx context.Context, list ListMetadata, store cache.Store) error {
	read := func(ctx context.Context) (map[cache.ObjectName]string, error) {
		versions := map[cache.ObjectName]string{}
		err := ReadEach(ctx, list, metav1.ListOptions{}, func(m *metav1.PartialObjectMetadata) {
			versions[cache.MetaObjectToName(m)] = m.ResourceVersion
		})
		return versions, err
	}
	return CatchUp(ctx, read, func() map[cache.ObjectName]string { return versionsIn(store) }, isNewer)
}

// isNewer reports whether resourceVersion a is surely newer than b.
func isNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

func versionsIn(store cache.Store) map[cache.ObjectName]string {
	versions := map[cache.ObjectName]string{}
	for _, item := range store.List() {
		if o, ok := item.(metav1.Object); ok {
			versions[cache.MetaObjectToName(o)] = o.GetResourceVersion()
		}
	}
	return versions
}
