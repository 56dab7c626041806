package placement

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
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
				return true
			}
		}
	}
	return false
}

// versions returns the versions of those objects of one group that exist now. Below a page of a
// list it reads each of them, so that who takes objects out one by one pays for those only.
func (o *objects) versions(ctx context.Context, gvr schema.GroupVersionResource, namespace string, refs []objref.Ref) (map[objref.Ref]string, error) {
	var from dynamic.ResourceInterface = o.client.Resource(gvr)
	if namespace != metav1.NamespaceAll {
		from = o.client.Resource(gvr).Namespace(namespace)
	}
	versions := make(map[objref.Ref]string, len(refs))
	if len(refs) < pageSize {
		var mu sync.Mutex
		var failed error
		slots := make(chan struct{}, atOnce)
		var reading sync.WaitGroup
		for _, ref := range refs {
			slots <- struct{}{}
			reading.Go(func() {
				live, err := from.Get(ctx, ref.Name, metav1.GetOptions{})
				<-slots
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					versions[ref] = live.GetResourceVersion()
				case !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
					failed = err
				}
			})
		}
		reading.Wait()
		return versions, failed
	}
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := from.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			versions[objref.New(gvr.GroupResource(), item.GetNamespace(), item.GetName())] = item.GetResourceVersion()
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return versions, nil
		}
	}
}
