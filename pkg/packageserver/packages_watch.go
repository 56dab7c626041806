package packageserver

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages"
)

// Watch implements rest.Watcher. What the revisions come to is made anew from each event of one; so it begins with a list of all
// revisions at the resourceVersion that it is to go on from, and keeps those as long as it lasts.
func (p *porchPackages) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	if o == nil {
		o = &internalversion.ListOptions{}
	}
	namespace := genericapirequest.NamespaceValue(ctx)
	from := metav1.ListOptions{}
	resumed := o.ResourceVersion != "" && o.ResourceVersion != "0" && (o.SendInitialEvents == nil || !*o.SendInitialEvents)
	if resumed {
		from.ResourceVersion, from.ResourceVersionMatch = o.ResourceVersion, metav1.ResourceVersionMatchExact
	}
	there, err := p.store.List(ctx, namespace, from, 0)
	if err != nil {
		return nil, err
	}
	kept, err := p.store.Revisions(namespace).Watch(ctx, metav1.ListOptions{
		ResourceVersion: there.ResourceVersion, AllowWatchBookmarks: o.AllowWatchBookmarks, TimeoutSeconds: o.TimeoutSeconds,
	})
	if err != nil {
		return nil, packages.Explain(err, "")
	}
	w := &packagesWatch{kept: kept, selected: selected(o), known: tally{}, events: make(chan watch.Event), stopped: make(chan struct{})}
	for _, revision := range there.Items {
		w.known.set(revision)
	}
	var first []watch.Event
	if !resumed {
		for _, item := range summarise(there.Items) {
			if w.selected(&item) {
				first = append(first, watch.Event{Type: watch.Added, Object: &item})
			}
		}
		if o.AllowWatchBookmarks && o.SendInitialEvents != nil && *o.SendInitialEvents {
			end := bookmark(there.ResourceVersion)
			end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			first = append(first, watch.Event{Type: watch.Bookmark, Object: end})
		}
	}
	go w.run(ctx, p.done, first)
	return w, nil
}

func bookmark(version string) *porchv1alpha1.PorchPackage {
	return &porchv1alpha1.PorchPackage{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PorchPackage"},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
	}
}

// packagesWatch makes events of packages of those of revisions.
type packagesWatch struct {
	kept     watch.Interface
	selected func(*porchv1alpha1.PorchPackage) bool
	known    tally
	events   chan watch.Event
	stopped  chan struct{}
	once     sync.Once
}

// Stop implements watch.Interface.
func (w *packagesWatch) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.kept.Stop()
	})
}

// ResultChan implements watch.Interface.
func (w *packagesWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *packagesWatch) run(ctx context.Context, done <-chan struct{}, first []watch.Event) {
	defer close(w.events)
	defer w.Stop()
	send := func(e watch.Event) bool {
		select {
		case w.events <- e:
			return true
		case <-w.stopped:
		case <-ctx.Done():
		case <-done:
		}
		return false
	}
	for _, e := range first {
		if !send(e) {
			return
		}
	}
	for {
		select {
		case e, open := <-w.kept.ResultChan():
			if !open {
				return
			}
			if made, concerns := w.make(e); concerns && !send(made) {
				return
			}
		case <-w.stopped:
			return
		case <-ctx.Done():
			return
		case <-done:
			return
		}
	}
}

// make makes of an event of a revision that of its package, if it concerns who watches: most change nothing of that.
func (w *packagesWatch) make(e watch.Event) (watch.Event, bool) {
	cr, ok := e.Object.(*storev1alpha1.PackageRevision)
	switch {
	case !ok:
		return e, true // an error
	case e.Type == watch.Bookmark:
		return watch.Event{Type: watch.Bookmark, Object: bookmark(cr.ResourceVersion)}, true
	}
	revision := &packages.Revision{PackageRevision: packages.Serve(cr)}
	revision.ManagedFields = nil // they are most of it, and it is kept
	before := w.known.of(revision)
	if e.Type == watch.Deleted {
		w.known.drop(revision)
	} else {
		w.known.set(revision)
	}
	after := w.known.of(revision)
	out := watch.Event{Type: watch.Modified}
	switch {
	case len(before) == 0:
		out.Type = watch.Added
	case len(after) == 0:
		out.Type, after = watch.Deleted, before
	}
	if len(after) == 0 {
		return out, false // gone before it was known
	}
	item := &summarise(after)[0]
	if out.Type == watch.Modified {
		if was := &summarise(before)[0]; was.Status == item.Status && was.CreationTimestamp.Equal(&item.CreationTimestamp) {
			return out, false // a draft was edited, say
		}
	}
	item.ResourceVersion = cr.ResourceVersion // who goes on from here goes on behind this event
	out.Object = item
	return out, w.selected(item)
}

// tally has the revisions of each package.
type tally map[types.NamespacedName]map[string]*packages.Revision

func packageOf(r *packages.Revision) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: packageName(r)}
}

func (t tally) set(r *packages.Revision) {
	key := packageOf(r)
	if t[key] == nil {
		t[key] = map[string]*packages.Revision{}
	}
	t[key][r.Name] = r
}

func (t tally) drop(r *packages.Revision) {
	key := packageOf(r)
	delete(t[key], r.Name)
	if len(t[key]) == 0 {
		delete(t, key)
	}
}

func (t tally) of(r *packages.Revision) []*packages.Revision {
	all := t[packageOf(r)]
	out := make([]*packages.Revision, 0, len(all))
	for _, revision := range all {
		out = append(out, revision)
	}
	return out
}
