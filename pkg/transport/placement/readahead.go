package placement

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/logging"
)

const (
	// many is the number of objects from which on they are read with a list.
	many = 20
	// pageSize is the number of objects that one request returns. They may be of a megabyte each.
	pageSize = 200
	// atOnce is the number of requests for one object each that a Binding makes at once.
	atOnce = 16
)

// group is what a list reads: the objects of a resource in one namespace. That of a resource
// without namespaces is "".
type group struct {
	schema.GroupResource
	namespace string
}

func groupOf(ref objref.Ref) group { return group{ref.GroupResource(), ref.Namespace} }

// wantedObjects are objects of one resource, each with how its content is made.
type wantedObjects map[objref.Ref]recipe

// batches are objects to read, by what a list reads.
type batches map[group]wantedObjects

func (b batches) add(ref objref.Ref, how recipe) {
	of := groupOf(ref)
	if b[of] == nil {
		b[of] = wantedObjects{}
	}
	b[of][ref] = how
}

func (b batches) remove(ref objref.Ref) {
	of := groupOf(ref)
	delete(b[of], ref)
	if len(b[of]) == 0 {
		delete(b, of)
	}
}

// want records objects that are to be read for some Binding. A list that another Binding needs
// reads them as well.
func (o *objects) want(unread batches) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, objects := range unread {
		for ref, how := range objects {
			o.wanted.add(ref, how)
		}
	}
}

// readTogether reads with lists those of the objects of which many are in one namespace, or in
// namespaces with few each, with all others there that are wanted. Their content is cached then. It
// blocks, also while somebody else reads a list of the same. What it does not read, find reads
// later, one by one, and says why it cannot.
func (o *objects) readTogether(ctx context.Context, unread batches) {
	o.want(unread)
	scattered := map[schema.GroupVersionResource]batches{}
	for of, objects := range unread {
		var gvr schema.GroupVersionResource
		for _, how := range objects {
			gvr = of.WithVersion(how.version)
			break
		}
		if !o.readGroup(ctx, gvr, of.namespace, func() wantedObjects { return o.wantedOf(of) }) {
			if scattered[gvr] == nil {
				scattered[gvr] = batches{}
			}
			scattered[gvr][of] = objects
		}
	}
	for gvr, few := range scattered {
		if o.stillWanted(few) >= many {
			o.readGroup(ctx, gvr, metav1.NamespaceAll, func() wantedObjects { return o.scattered(gvr.GroupResource()) })
		}
	}
}

// readGroup reads wanted objects of a resource with a list, of one namespace or of all, if they are
// many. It reports whether they are. One list of a group is read at a time; the next one is about
// what is still wanted.
func (o *objects) readGroup(ctx context.Context, gvr schema.GroupVersionResource, namespace string, wantedNow func() wantedObjects) bool {
	id := gvr.GroupResource().String() + "/" + namespace
	o.lists.LockKey(id)
	defer func() { _ = o.lists.UnlockKey(id) }() // it returns nil
	wanted := o.withoutCached(wantedNow)
	if len(wanted) < many {
		return false
	}
	o.readMany(ctx, gvr, namespace, wanted)
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref := range wanted {
		o.wanted.remove(ref) // what was not found is read by itself
	}
	return true
}

// withoutCached returns wanted objects, and wants those no more of which the content is cached:
// while a Binding waits for the list of another one, that list reads what it has asked for.
func (o *objects) withoutCached(wantedNow func() wantedObjects) wantedObjects {
	o.mu.Lock()
	wanted := wantedNow()
	o.mu.Unlock()
	for ref, how := range wanted {
		if _, cached := o.cached(ref, how); cached {
			delete(wanted, ref)
			o.mu.Lock()
			o.wanted.remove(ref)
			o.mu.Unlock()
		}
	}
	return wanted
}

// wantedOf returns the wanted objects of a group. The lock is held.
func (o *objects) wantedOf(of group) wantedObjects { return maps.Clone(o.wanted[of]) }

// scattered returns the wanted objects of a resource that are in namespaces with few of them. The
// lock is held.
func (o *objects) scattered(gr schema.GroupResource) wantedObjects {
	all := wantedObjects{}
	for of, objects := range o.wanted {
		if of.GroupResource == gr && len(objects) < many {
			maps.Copy(all, objects)
		}
	}
	return all
}

// stillWanted returns how many of these objects have not been read.
func (o *objects) stillWanted(unread batches) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for of, objects := range unread {
		for ref := range objects {
			if _, ok := o.wanted[of][ref]; ok {
				n++
			}
		}
	}
	return n
}

// readMany lists a resource page by page until all wanted objects were found. It gives up when few
// of those that exist are wanted: then requests for each cost less.
//
// All pages show the objects as they were at the first one. An object that changes meanwhile is
// read again, as one that changes after a read is.
func (o *objects) readMany(ctx context.Context, gvr schema.GroupVersionResource, namespace string, wanted wantedObjects) {
	listed, found := 0, 0
	err := o.pages(ctx, gvr, namespace, func(page []unstructured.Unstructured) (more bool) {
		for i := range page {
			ref := refOf(gvr, &page[i])
			if how, ok := wanted[ref]; ok {
				found++
				if how.version == gvr.Version {
					o.listed(ref, how, &page[i])
				}
			}
		}
		listed += len(page)
		return found < len(wanted) && found*10 >= listed
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot list objects; reading each", logging.Resource, gvr, "err", err)
	}
}

// pages lists a resource, in one namespace or in all, and calls visit for each page until it
// returns false.
func (o *objects) pages(ctx context.Context, gvr schema.GroupVersionResource, namespace string, visit func([]unstructured.Unstructured) bool) error {
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := o.client.Resource(gvr).Namespace(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		if options.Continue = page.GetContinue(); !visit(page.Items) || options.Continue == "" {
			return nil
		}
	}
}

func refOf(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) objref.Ref {
	return objref.New(gvr.GroupResource(), obj.GetNamespace(), obj.GetName())
}

// listed caches the content of an object, unless a later version of it was read meanwhile, or no
// Binding lists it any more.
func (o *objects) listed(ref objref.Ref, how recipe, live *unstructured.Unstructured) {
	o.mu.Lock()
	_, wanted := o.wanted[groupOf(ref)][ref]
	have := o.cache[ref]
	o.mu.Unlock()
	if !wanted || have != nil && Newer(have.version.resourceVersion, live.GetResourceVersion()) {
		return
	}
	objectReads.Inc()
	_, _ = o.accept(ref, how, live) // what is wrong with it, find finds
}
