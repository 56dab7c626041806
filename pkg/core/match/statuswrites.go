package match

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// statusWrites are our own writes of the status of an object, and of the labels about it. Where the
// generation does not track the content, nothing in the metadata distinguishes them from an edit.
// But each is bound to the version that it was decided on. So what it leaves has the content of
// that version.
type statusWrites struct {
	// seen is the last version that was observed. Its content is that of object.resourceVersion.
	seen string
	// versions are the one that the first write was made on, and those that the writes left, each
	// made on the one before.
	versions []string
	// writing: a write on the last version is under way. What is observed on top of that version
	// may be of this write: undecided has the first and the last of it until the write has ended.
	writing   bool
	undecided []string
}

// last returns the version on which the next write is made.
func (w *statusWrites) last() string { return w.versions[len(w.versions)-1] }

// onlyStatus reports whether a version that is observed has the content of the one that was
// observed before, as far as that is known.
func (w *statusWrites) onlyStatus(version string) bool {
	if i := slices.Index(w.versions, version); i > 0 && slices.Contains(w.versions[:i], w.seen) {
		w.seen, w.versions = version, w.versions[i:]
		return true
	}
	if w.writing && (w.seen == w.last() || len(w.undecided) > 0) {
		w.undecided = append(w.undecided[:min(len(w.undecided), 1)], version)
		return true
	}
	return false
}

// sameContent reports whether the version of an object that is observed has the content of the
// version before. An object without a label about its status is not looked at: after a restart it
// could not be distinguished from one that was edited.
func (o *object) sameContent(obj metav1.Object) bool {
	if o.writes == nil {
		return o.resourceVersion == obj.GetResourceVersion()
	}
	return o.writes.seen == obj.GetResourceVersion() || hasStatusLabel(obj.GetLabels()) && o.writes.onlyStatus(obj.GetResourceVersion())
}

func hasStatusLabel(labels map[string]string) bool {
	for key := range labels {
		if StatusLabel(key) {
			return true
		}
	}
	return false
}

// edit records that a version of the object has another content.
func (o *object) edit(version string) {
	o.resourceVersion = version
	if o.writes != nil {
		// Its versions stay: they may be later ones, which are still to be observed.
		o.writes.seen, o.writes.undecided = version, nil
	}
}

// StatusWriting records that the status of an object, or its labels about that, are about to be
// written, if the object still has that version. StatusWritten must follow.
func (x *Index) StatusWriting(ref objref.Ref, version string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.catalog.object(ref)
	if o == nil || o.resource.TracksContent && o.generation > 0 {
		return
	}
	if o.writes == nil {
		o.writes = &statusWrites{seen: o.resourceVersion, versions: []string{version}}
	}
	order, err := resourceversion.CompareResourceVersion(version, o.writes.last())
	if err != nil || order > 0 {
		o.writes.versions = []string{version} // somebody else has written in between
	}
	o.writes.writing = o.writes.last() == version // a write on an older version is refused
}

// StatusWritten records which version such a write left; "" if it failed.
func (x *Index) StatusWritten(ref objref.Ref, version string) Changes {
	return x.change(func(c *changing) {
		o := x.catalog.object(ref)
		if o == nil || o.writes == nil || !o.writes.writing {
			return
		}
		w := o.writes
		undecided := w.undecided
		w.writing, w.undecided = false, nil
		if version != "" && version != w.last() {
			w.versions = append(w.versions, version)
		}
		for _, observed := range undecided {
			if !w.onlyStatus(observed) {
				o.edit(undecided[len(undecided)-1])
				x.edited(c, o)
				return
			}
		}
	})
}

// edited notes that the content of the object changed.
func (x *Index) edited(c *changing, o *object) {
	o.edited = true
	c.version(o)
	x.frozenCollections(c, o.ref())
}
