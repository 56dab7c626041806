package apiserver

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/store"
)

// Watch implements rest.Watcher. It computes packages from the events of their revisions. It
// therefore begins with a list of all revisions at the requested resourceVersion, and keeps them in
// memory until it ends.
func (p *porchPackages) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	from := metav1.ListOptions{}
	resumed := o.ResourceVersion != "" && o.ResourceVersion != "0" && (o.SendInitialEvents == nil || !*o.SendInitialEvents)
	if resumed {
		from.ResourceVersion, from.ResourceVersionMatch = o.ResourceVersion, metav1.ResourceVersionMatchExact
	}
	there, err := p.store.List(ctx, genericapirequest.NamespaceValue(ctx), from, 0)
	if err != nil {
		return nil, err
	}
	stored, err := watchStored(ctx, p.store, metav1.ListOptions{
		ResourceVersion: there.ResourceVersion, AllowWatchBookmarks: o.AllowWatchBookmarks, TimeoutSeconds: o.TimeoutSeconds,
	}, p.done)
	if err != nil {
		return nil, err
	}
	w := &packagesWatch{revisions: stored, selects: packageSelector(o), known: revisionsByPackage{}, events: make(chan watch.Event), stopped: make(chan struct{})}
	for _, revision := range there.Items {
		w.known.set(packageOf(revision), revision)
	}
	var first []watch.Event
	if !resumed {
		for _, item := range summarise(there.Items) {
			if w.selects(&item) {
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

// packagesWatch translates events of revisions into events of packages.
type packagesWatch struct {
	revisions watch.Interface
	selects   func(*porchv1alpha1.PorchPackage) bool
	known     revisionsByPackage
	events    chan watch.Event
	stopped   chan struct{}
	once      sync.Once
}

// Stop implements watch.Interface.
func (w *packagesWatch) Stop() {
	w.once.Do(func() {
		close(w.stopped)
		w.revisions.Stop()
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
	for e := range w.revisions.ResultChan() { // it is closed by Stop, and when the request or the server ends
		if made, concerns := w.packageEvent(e); concerns && !send(made) {
			return
		}
	}
}

// packageEvent translates an event of a revision. It returns false if the package does not change,
// which is the usual case, or is not selected.
func (w *packagesWatch) packageEvent(e watch.Event) (watch.Event, bool) {
	cr, ok := e.Object.(*storev1alpha1.PackageRevision)
	switch {
	case !ok:
		return e, true // an error
	case e.Type == watch.Bookmark:
		return watch.Event{Type: watch.Bookmark, Object: bookmark(cr.ResourceVersion)}, true
	}
	revision := &store.Revision{PackageRevision: store.Serve(cr)}
	revision.ManagedFields = nil // most of the memory, and not needed here
	pkg := packageOf(revision)
	before := w.known.of(pkg)
	if e.Type == watch.Deleted {
		delete(w.known[pkg], revision.Name)
	} else {
		w.known.set(pkg, revision)
	}
	after := w.known.of(pkg)
	if len(after) == 0 {
		delete(w.known, pkg)
	}
	out := watch.Event{Type: watch.Modified}
	switch {
	case len(before) == 0:
		out.Type = watch.Added
	case len(after) == 0:
		out.Type, after = watch.Deleted, before
	}
	if len(after) == 0 {
		return out, false // deleted before it was known
	}
	item := &summarise(after)[0]
	if out.Type == watch.Modified {
		if was := &summarise(before)[0]; was.Status == item.Status && was.CreationTimestamp.Equal(&item.CreationTimestamp) {
			return out, false // for example, a draft was edited
		}
	}
	item.ResourceVersion = cr.ResourceVersion // a client that resumes from here continues after this event
	out.Object = item
	return out, w.selects(item)
}

// revisionsByPackage has the revisions of each package by their names.
type revisionsByPackage map[types.NamespacedName]map[string]*store.Revision

func (t revisionsByPackage) set(pkg types.NamespacedName, r *store.Revision) {
	if t[pkg] == nil {
		t[pkg] = map[string]*store.Revision{}
	}
	t[pkg][r.Name] = r
}

func (t revisionsByPackage) of(pkg types.NamespacedName) []*store.Revision {
	return slices.Collect(maps.Values(t[pkg]))
}
