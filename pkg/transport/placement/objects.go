package placement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/keymutex"

	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// watched is what objects need of the watches on the WDS.
type watched interface {
	Get(ref objref.Ref) (metav1.Object, bool)
	Synced(gr schema.GroupResource) bool
	// TracksContent reports whether the generation of the objects changes whenever their content
	// does. False may mean that it is not known.
	TracksContent(gr schema.GroupResource) bool
}

// objects caches the content of listed objects as it is delivered. An object is read once for each
// version, however many Bindings list it and however many clusters receive it. It is safe for
// concurrent use.
type objects struct {
	client  dynamic.Interface
	watched watched

	// lists has a lock for each group of objects, held while a list of them is read.
	lists keymutex.KeyMutex

	mu    sync.Mutex
	cache map[objref.Ref]*cachedObject
	// parted is what the annotations of listed objects that were deleted asked for last.
	parted map[objref.Ref]options.Requested
	// wanted are objects that are to be read for some Binding and have not been read.
	wanted batches
}

// cachedObject is what is known of one object.
type cachedObject struct {
	manifest *render.Manifest
	version  version
	// how is how the manifest was made.
	how recipe
	// missing is since when the object does not exist; zero if it exists.
	missing time.Time
}

// grace is how long an object may be missing before that is an error: an object that is deleted
// disappears from the WDS a moment before it disappears from the Binding.
const grace = 2 * time.Second

// finding is the result of reading one object.
type finding struct {
	// manifest is the object as it is, nil if that is not known.
	manifest *render.Manifest
	// err is why it is not; nil while the object is missing for less than the grace.
	err error
	// autoscaler is the object as it was last seen, if it is an autoscaler that is not known: what
	// it scales waits for it.
	autoscaler *transform.Object
	// retry asks for another attempt with back-off, recheck for one after the grace.
	retry, recheck bool
}

func newObjects(client dynamic.Interface, w watched) *objects {
	return &objects{client: client, watched: w, lists: keymutex.NewHashed(0), cache: map[objref.Ref]*cachedObject{}, parted: map[objref.Ref]options.Requested{}, wanted: batches{}}
}

// recipe is how the content of an object is made from the object in the WDS.
type recipe struct {
	// version is the version of the API in which it is read.
	version string
	// removal is what CustomTransforms remove.
	removal *customtransform.Instructions
}

// equal reports whether the two make the same.
func (r recipe) equal(other recipe) bool {
	return r.version == other.version && r.removal.Digest == other.removal.Digest
}

// find returns the content of an object. It blocks for a read if the object changed since the last
// one.
func (o *objects) find(ctx context.Context, ref objref.Ref, how recipe, now time.Time) finding {
	if f, ok := o.cached(ref, how); ok {
		return f
	}
	have, gone := o.seen(ref)
	if gone {
		return o.missing(ref, have, now)
	}

	f, err := o.read(ctx, ref, how)
	// That the WDS does not serve the resource now does not mean that the object is gone.
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return o.missing(ref, have, now)
	}
	if err != nil {
		f.err = err
		var invalid *invalidError
		f.retry = !errors.As(err, &invalid)
		if f.autoscaler == nil && have != nil && have.manifest != nil && options.IsAutoscaler(ref) {
			f.autoscaler = &have.manifest.Object
		}
	}
	return f
}

// seen returns what is cached of an object, and whether the watch shows that it does not exist any
// more. An object that was never read is read, whatever the watch shows: the watch may be late, or
// not have begun.
func (o *objects) seen(ref objref.Ref) (have *cachedObject, gone bool) {
	_, present := o.watched.Get(ref)
	synced := o.watched.Synced(ref.GroupResource())
	o.mu.Lock()
	defer o.mu.Unlock()
	have = o.cache[ref]
	return have, have != nil && !present && synced
}

// cached returns the content of an object if it is known without a read. It does not block.
func (o *objects) cached(ref objref.Ref, how recipe) (finding, bool) {
	o.mu.Lock()
	have := o.cache[ref]
	o.mu.Unlock()
	if have == nil || !have.missing.IsZero() || !have.how.equal(how) {
		return finding{}, false
	}
	f := finding{manifest: have.manifest}
	meta, present := o.watched.Get(ref)
	if !present {
		return f, !o.watched.Synced(ref.GroupResource())
	}
	return f, !have.version.olderThan(meta, o.watched.TracksContent(ref.GroupResource()))
}

// has reports whether the content of an object is known that the watch shows like this.
func (o *objects) has(ref objref.Ref, meta metav1.Object, tracksContent bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	have := o.cache[ref]
	return have != nil && have.missing.IsZero() && !have.version.olderThan(meta, tracksContent)
}

// missing records since when an object does not exist. Its content is dropped: it must not be
// delivered to further clusters. An object that was never seen gets no grace: it is not being
// deleted, and a restart must not withdraw an error for a moment.
func (o *objects) missing(ref objref.Ref, have *cachedObject, now time.Time) finding {
	since := now
	switch {
	case have == nil:
		since = now.Add(-grace)
	case !have.missing.IsZero():
		since = have.missing
	}
	o.mu.Lock()
	o.cache[ref] = &cachedObject{missing: since}
	o.wanted.remove(ref)
	o.mu.Unlock()
	if now.Sub(since) < grace {
		return finding{recheck: true}
	}
	return finding{err: errMissing}
}

func (o *objects) read(ctx context.Context, ref objref.Ref, how recipe) (finding, error) {
	objectReads.Inc()
	gvr := ref.GroupResource().WithVersion(how.version)
	live, err := o.client.Resource(gvr).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return finding{}, fmt.Errorf("cannot be read: %w", err)
	}
	return o.accept(ref, how, live)
}

// accept caches the content of an object that was read.
func (o *objects) accept(ref objref.Ref, how recipe, live *unstructured.Unstructured) (finding, error) {
	o.mu.Lock()
	o.wanted.remove(ref)
	o.mu.Unlock()
	version := versionOf(live, how.version, o.watched.TracksContent(ref.GroupResource()))
	manifest, err := render.Render(&render.Source{Ref: ref, Object: live.Object, Removal: how.removal, UID: live.GetUID()})
	if err != nil {
		return finding{autoscaler: render.Autoscaler(ref, live.Object)}, &invalidError{err}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if have := o.cache[ref]; have != nil && have.manifest != nil && have.manifest.Hash == manifest.Hash && have.manifest.Requested == manifest.Requested {
		manifest = have.manifest // one copy of the bytes for all that hold it
	}
	o.cache[ref] = &cachedObject{manifest: manifest, version: version, how: how}
	return finding{manifest: manifest}, nil
}

// forget drops the content of these objects.
func (o *objects) forget(refs map[objref.Ref]bool) {
	if len(refs) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref := range refs {
		delete(o.cache, ref)
		delete(o.parted, ref)
		o.wanted.remove(ref)
	}
}

// part notes what a listed object that was deleted asked for last: often it was said just before,
// and never read.
func (o *objects) part(ref objref.Ref, last metav1.Object) {
	if requested, err := options.Parse(last.GetAnnotations()); err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.parted[ref] = requested
	}
}

// lastRequest returns what an object asks for, or asked for when it was deleted, as far as the
// watch shows.
func (o *objects) lastRequest(ref objref.Ref) (options.Requested, bool) {
	if meta, present := o.watched.Get(ref); present {
		requested, err := options.Parse(meta.GetAnnotations())
		return requested, err == nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	requested, known := o.parted[ref]
	return requested, known
}

// errMissing says that a listed object does not exist.
var errMissing = errors.New("is listed by the Binding, but does not exist in the WDS")

// invalidError says that an object cannot be delivered as it is. Reading it again does not help.
type invalidError struct{ err error }

func (e *invalidError) Error() string { return "cannot be delivered: " + e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }
