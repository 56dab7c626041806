package transport

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// watched is what objects need of the watch on the WDS; *dynwatch.Set has it.
type watched interface {
	Get(ref objref.Ref) (metav1.Object, bool)
	Synced(gr schema.GroupResource) bool
}

// objects holds the content of bound objects, as it is delivered: read once for each version, whatever number of Bindings
// list the object and of clusters it goes to. It is safe for concurrent use.
type objects struct {
	client   dynamic.Interface
	watched  watched
	pipeline transform.Pipeline

	mu    sync.Mutex
	known map[objref.Ref]*known
}

// known is what is known of one object.
type known struct {
	object transform.Object
	// wish is what the object's annotations say of how to deal with it.
	wish    options.Wish
	version version
	// made is the digest of the instructions of CustomTransforms that the object was made with, and sourced tells whether it says
	// of which generation it is.
	made    string
	sourced bool
	// missing is since when the object has not been there; zero if it is.
	missing time.Time
}

// version tells versions of an object apart.
type version struct {
	api         string // the version of the API that it was read in
	uid         types.UID
	resource    string // resourceVersion
	fingerprint uint64
}

// grace is how long an object may be missing before that is an error: an object that is deleted is gone from the WDS a moment
// before it is gone from the Binding.
const grace = 2 * time.Second

// finding is what gathering found out about one object.
type finding struct {
	object transform.Object
	// wish is what the object's annotations say of how to deal with it.
	wish options.Wish
	// known tells that object and wish are so now.
	known bool
	// err tells why it is not; nil also while the object is missing for less than the grace.
	err error
	// again asks to look again, with back-off.
	again bool
	// recheck asks to look again after the grace.
	recheck bool
}

func newObjects(client dynamic.Interface, w watched, pipeline transform.Pipeline) *objects {
	return &objects{client: client, watched: w, pipeline: pipeline, known: map[objref.Ref]*known{}}
}

// making is how the content of an object is made of what the WDS holds.
type making struct {
	// version is the version of the API in which it is read.
	version string
	// by is what CustomTransforms remove.
	by *customtransform.Instructions
	// sourced: it says of which generation of the object it is, since somebody asks for its status.
	sourced bool
}

// find returns the content of an object. It blocks for a read if the object changed since the last one.
func (o *objects) find(ctx context.Context, ref objref.Ref, how making, now time.Time) finding {
	if f, ok := o.current(ref, how); ok {
		return f
	}
	_, present := o.watched.Get(ref)
	synced := o.watched.Synced(ref.GroupResource())

	o.mu.Lock()
	have := o.known[ref]
	o.mu.Unlock()
	// What was never read is read, whatever the watch says: it may be late, or not have begun.
	if have != nil && !present && synced {
		return o.missing(ref, have, now)
	}

	f, err := o.read(ctx, ref, how)
	if apierrors.IsNotFound(err) {
		return o.missing(ref, have, now)
	}
	if err != nil {
		return finding{err: err, again: retryable(err)}
	}
	return f
}

// current returns the content of an object if no read is needed to know it. It does not block.
func (o *objects) current(ref objref.Ref, how making) (finding, bool) {
	o.mu.Lock()
	have := o.known[ref]
	o.mu.Unlock()
	if have == nil || have.version.api != how.version || have.made != how.by.Digest || have.sourced != how.sourced || !have.missing.IsZero() {
		return finding{}, false
	}
	f := finding{object: have.object, wish: have.wish, known: true}
	meta, present := o.watched.Get(ref)
	if !present {
		return f, !o.watched.Synced(ref.GroupResource())
	}
	return f, !have.version.olderThan(meta)
}

// missing notes since when the object has not been there. Its content is forgotten: it is not to go to further places. One
// that was never seen gets no grace: it is not on its way out, and a restart must not take an error back for a moment.
func (o *objects) missing(ref objref.Ref, have *known, now time.Time) finding {
	since := now
	switch {
	case have == nil:
		since = now.Add(-grace)
	case !have.missing.IsZero():
		since = have.missing
	}
	o.mu.Lock()
	o.known[ref] = &known{missing: since}
	o.mu.Unlock()
	if now.Sub(since) < grace {
		return finding{recheck: true}
	}
	return finding{err: errMissing}
}

func (o *objects) read(ctx context.Context, ref objref.Ref, how making) (finding, error) {
	objectReads.Inc()
	gvr := ref.GroupResource().WithVersion(how.version)
	live, err := o.client.Resource(gvr).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return finding{}, fmt.Errorf("cannot be read: %w", err)
	}
	wish, err := options.Parse(live.GetAnnotations())
	if err != nil {
		return finding{}, &invalidError{err}
	}
	version := versionOf(live, how.version)
	pipeline := o.pipeline.Then(how.by.Apply)
	if how.sourced {
		pipeline = pipeline.Then(transform.Source(corestatus.Source{UID: live.GetUID(), Generation: live.GetGeneration()}))
	}
	object, err := pipeline.Apply(ref, live.Object)
	if err != nil {
		return finding{}, &invalidError{err}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if have := o.known[ref]; have != nil && have.object.Hash == object.Hash {
		object = have.object // one copy of the bytes for all that hold it
	}
	o.known[ref] = &known{object: object, wish: wish, version: version, made: how.by.Digest, sourced: how.sourced}
	return finding{object: object, wish: wish, known: true}, nil
}

// forget forgets the content of these objects.
func (o *objects) forget(refs map[objref.Ref]bool) {
	if len(refs) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.known, func(ref objref.Ref, _ *known) bool { return refs[ref] })
}

func versionOf(meta metav1.Object, api string) version {
	return version{api: api, uid: meta.GetUID(), resource: meta.GetResourceVersion(), fingerprint: fingerprint(meta)}
}

// olderThan tells whether the object of the watch has to be read. What was read may be newer than what the watch has seen.
func (v version) olderThan(meta metav1.Object) bool {
	if v.uid != meta.GetUID() {
		return true
	}
	if v.resource == meta.GetResourceVersion() || newer(v.resource, meta.GetResourceVersion()) {
		return false
	}
	return v.fingerprint != fingerprint(meta)
}

// newer tells whether resourceVersion a is surely newer than b.
func newer(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x > y
}

// unnoticed are labels and annotations whose change is no change of the object: they are not delivered.
var unnoticed = []string{
	controlv1alpha1.LabelSingletonStatus,
	controlv1alpha1.LabelMultiWECStatus,
	controlv1alpha1.LabelExecutingCount,
	"kubectl.kubernetes.io/last-applied-configuration",
}

// fingerprint sums up what changes of an object when what is delivered of it changes: generation, labels and annotations, or
// the resourceVersion for kinds without a generation. A write of the status moves none of them.
func fingerprint(meta metav1.Object) uint64 {
	h := fnv.New64a()
	add := func(s string) {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	add(string(meta.GetUID()))
	if meta.GetGeneration() == 0 {
		add(meta.GetResourceVersion())
		return h.Sum64()
	}
	add(strconv.FormatInt(meta.GetGeneration(), 10))
	for _, m := range []map[string]string{meta.GetLabels(), meta.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !slices.Contains(unnoticed, key) {
				add(key)
				add(m[key])
			}
		}
		add("")
	}
	return h.Sum64()
}
