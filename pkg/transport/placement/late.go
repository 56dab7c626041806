package placement

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/logging"
)

// lateAgain is when to check again whether a watch shows what it should. Normally an event comes
// sooner.
const lateAgain = 200 * time.Millisecond

// late reports whether the watches have yet to show what became of some of these objects. The
// watches of a Binding and of its objects are not in step: who says that an object is to stay in
// the clusters, and deletes it and its Binding at once, may be seen to delete the Binding first. Of
// kinds that cannot be read it is not known, and that is no reason to wait. It blocks for reads.
func (o *objects) late(ctx context.Context, refs []objref.Ref, kinds map[schema.GroupResource]dynamicinformer.Resource) bool {
	shown := map[group][]objref.Ref{}
	for _, ref := range refs {
		if _, present := o.watched.Get(ref); present {
			shown[groupOf(ref)] = append(shown[groupOf(ref)], ref)
		}
	}
	for of, refs := range shown {
		kind, known := kinds[of.GroupResource]
		if !known || !o.watched.Synced(of.GroupResource) {
			continue
		}
		versions, err := o.versions(ctx, kind.GroupVersionResource, of.namespace, refs)
		if err != nil {
			continue
		}
		for _, ref := range refs {
			meta, present := o.watched.Get(ref)
			if version, exists := versions[ref]; present && (!exists || Newer(version, meta.GetResourceVersion())) {
				klog.FromContext(ctx).V(1).Info("Waiting for a watch to show an object as it is", logging.Object, ref)
				return true
			}
		}
	}
	return false
}

// versions returns the versions of those objects of one group that exist now. Below a page of a
// list it reads each of them, so that who takes objects out one by one pays for those only.
func (o *objects) versions(ctx context.Context, gvr schema.GroupVersionResource, namespace string, refs []objref.Ref) (map[objref.Ref]string, error) {
	versions := make(map[objref.Ref]string, len(refs))
	if len(refs) >= pageSize {
		return versions, o.pages(ctx, gvr, namespace, func(page []unstructured.Unstructured) (more bool) {
			for i := range page {
				versions[refOf(gvr, &page[i])] = page[i].GetResourceVersion()
			}
			return true
		})
	}
	var mu sync.Mutex
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(atOnce)
	for _, ref := range refs {
		reading.Go(func() error {
			live, err := o.client.Resource(gvr).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			versions[ref] = live.GetResourceVersion()
			return nil
		})
	}
	return versions, reading.Wait()
}
