package placement

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/logging"
)

const (
	// many is the number of objects of a resource from which on they are read with a list.
	many = 20
	// pageSize is the number of objects that one request returns. They may be of a megabyte each.
	pageSize = 200
	// atOnce is the number of requests for one object each that a Binding makes at once.
	atOnce = 16
)

// wantedObjects are objects of one resource, each with how its content is made.
type wantedObjects map[objref.Ref]recipe

// batches are objects to read, by their resource.
type batches map[schema.GroupVersionResource]wantedObjects

func (b batches) add(ref objref.Ref, how recipe) {
	gvr := ref.GroupResource().WithVersion(how.version)
	if b[gvr] == nil {
		b[gvr] = wantedObjects{}
	}
	b[gvr][ref] = how
}

// ReadAhead reads the objects that all Bindings list, with a list of each resource that has many.
// Sync reads what it needs earlier, and what this does not read. Call it after ListAll.
func (g *Gatherer) ReadAhead(ctx context.Context) {
	unread := batches{}
	for _, b := range g.index.Bindings() {
		if b.DeletionTimestamp != nil {
			continue
		}
		entries := entriesOf(b)
		p := &Placement{Name: b.Name}
		p.need(entries)
		versions := make(map[schema.GroupResource]string, len(p.watched))
		for gr, resource := range p.watched {
			versions[gr] = resource.Version
		}
		for i, how := range g.recipes(p, entries, versions) {
			if len(how.removal.Unknown) == 0 {
				unread.add(entries[i].ref, how)
			}
		}
	}
	g.objects.readAhead(ctx, unread)
}

// readAhead reads the objects of each resource of which many are wanted, so that their content is
// cached. It blocks. What it cannot read, find reads later and says why it cannot.
func (o *objects) readAhead(ctx context.Context, unread batches) {
	var reading sync.WaitGroup
	defer reading.Wait()
	for gvr, objects := range unread {
		if len(objects) >= many {
			reading.Go(func() { o.readMany(ctx, gvr, objects) })
		}
	}
}

// readMany lists a resource page by page, of one namespace if all are there, until all objects were
// found. It gives up when few of those that exist are wanted: then requests for each cost less.
//
// All pages show the objects as they were at the first one. An object that changes meanwhile is
// read again, as one that changes after a read is.
func (o *objects) readMany(ctx context.Context, gvr schema.GroupVersionResource, wanted wantedObjects) {
	var from dynamic.ResourceInterface = o.client.Resource(gvr)
	if namespace, one := wanted.namespace(); one {
		from = o.client.Resource(gvr).Namespace(namespace)
	}
	options := metav1.ListOptions{Limit: pageSize}
	for listed, found := 0, 0; found < len(wanted) && found*10 >= listed; {
		page, err := from.List(ctx, options)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot list objects; reading each", logging.Resource, gvr, "err", err)
			return
		}
		for i := range page.Items {
			item := &page.Items[i]
			ref := objref.New(gvr.GroupResource(), item.GetNamespace(), item.GetName())
			if how, ok := wanted[ref]; ok {
				found++
				o.listed(ref, how, item)
			}
		}
		listed += len(page.Items)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return
		}
	}
}

// listed caches the content of an object, unless a later version of it was read meanwhile.
func (o *objects) listed(ref objref.Ref, how recipe, live *unstructured.Unstructured) {
	o.mu.Lock()
	have := o.cache[ref]
	o.mu.Unlock()
	if have != nil && Newer(have.version.resourceVersion, live.GetResourceVersion()) {
		return
	}
	objectReads.Inc()
	_, _ = o.accept(ref, how, live) // what is wrong with it, find finds
}

// namespace returns the namespace of the objects, if it is the same for all. That of a resource
// without namespaces is "".
func (w wantedObjects) namespace() (namespace string, one bool) {
	for ref := range w {
		if one && ref.Namespace != namespace {
			return "", false
		}
		namespace, one = ref.Namespace, true
	}
	return namespace, one
}
