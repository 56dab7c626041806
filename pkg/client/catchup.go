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

// CatchUp blocks until the store of an informer has had all objects in the versions that the list
// has now, or newer ones. Handlers of the informer may be behind the store. It returns an error
// only if the context ends.
func CatchUp(ctx context.Context, list ListMetadata, store cache.Store) error {
	return wait.PollUntilContextCancel(ctx, readAgain, true, func(ctx context.Context) (bool, error) {
		before, read := versionsIn(store), map[cache.ObjectName]string{}
		err := ReadEach(ctx, list, metav1.ListOptions{}, func(m *metav1.PartialObjectMetadata) {
			read[cache.MetaObjectToName(m)] = m.ResourceVersion
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot read which objects exist; will retry before anything is written")
			return false, nil
		}
		err = wait.PollUntilContextTimeout(ctx, seenPoll, readAgain, true, func(context.Context) (bool, error) {
			return !behind(before, read, versionsIn(store)), nil
		})
		return err == nil, nil
	})
}

// behind reports whether a store does not show the objects yet that were read, after it showed
// those before. All are resourceVersions. An object that was deleted meanwhile may look like one
// that is not shown yet, until all are read again.
func behind(before, read, shown map[cache.ObjectName]string) bool {
	for name, version := range read {
		_, had := before[name]
		now, shows := shown[name]
		if !shows && !had || shows && isNewer(version, now) {
			return true
		}
	}
	for name := range before {
		_, exists := read[name]
		if _, shows := shown[name]; shows && !exists {
			return true
		}
	}
	return false
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
