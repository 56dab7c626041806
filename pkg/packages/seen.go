package packages

import (
	"container/list"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// seen remembers revisions, each as it was seen last: a version of an object never changes. The zero value is ready to use.
type seen struct {
	mu    sync.Mutex
	known map[types.UID]*list.Element
	order list.List // of *remembered, the last used first
	size  int
	// fields are the sets of fields in managedFields.
	fields map[string]*metav1.FieldsV1
}

type remembered struct {
	Revision
	kept types.UID
	size int
}

// seenSize is how many bytes of revisions are remembered, about: some twenty thousand.
const seenSize = 64 << 20

// empty tells whether nothing is known.
func (s *seen) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known) == 0
}

// get returns a revision at a version, nil if it is not known.
func (s *seen) get(kept types.UID, version string) *Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.known[kept]
	if !ok {
		return nil
	}
	r := e.Value.(*remembered) //nolint:forcetypeassert // nothing else is in it
	if r.ResourceVersion != version {
		return nil
	}
	s.order.MoveToFront(e)
	return &r.Revision
}

// add remembers a revision that was read or written, and returns it. What it points to belongs to seen from then on.
func (s *seen) add(cr *storev1alpha1.PackageRevision) *Revision {
	r := &remembered{Revision: Revision{Serve(cr), cr.Content.Digest}, kept: cr.UID, size: weigh(cr)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.known[r.kept]; ok {
		s.drop(e)
	}
	if s.known == nil {
		s.known = map[types.UID]*list.Element{}
	}
	s.share(r.ManagedFields)
	s.known[r.kept] = s.order.PushFront(r)
	for s.size += r.size; s.size > seenSize; {
		s.drop(s.order.Back())
	}
	return &r.Revision
}

func (s *seen) drop(e *list.Element) {
	r := s.order.Remove(e).(*remembered) //nolint:forcetypeassert // nothing else is in it
	delete(s.known, r.kept)
	s.size -= r.size
}

// share lets sets of fields that are the same have the same memory: most revisions were written by the same programs in the same way.
func (s *seen) share(entries []metav1.ManagedFieldsEntry) {
	const many = 4096
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil {
			continue
		}
		if one, ok := s.fields[string(e.FieldsV1.Raw)]; ok {
			e.FieldsV1 = one
			continue
		}
		if s.fields == nil || len(s.fields) >= many {
			s.fields = map[string]*metav1.FieldsV1{}
		}
		s.fields[string(e.FieldsV1.Raw)] = e.FieldsV1
	}
}

// weigh estimates what a revision takes in memory.
func weigh(cr *storev1alpha1.PackageRevision) int {
	const itself, entry = 1500, 96 // of structs; of one of a map or list
	size := itself + len(cr.Served.ManagedFields)
	for _, m := range []map[string]string{cr.Labels, cr.Annotations} {
		for key, value := range m {
			size += entry + len(key) + len(value)
		}
	}
	for i := range cr.Status.Conditions {
		c := &cr.Status.Conditions[i]
		size += entry + len(c.Type) + len(c.Reason) + len(c.Message)
	}
	if m := cr.Spec.PackageMetadata; m != nil {
		for _, m := range []map[string]string{m.Labels, m.Annotations} {
			for key, value := range m {
				size += entry + len(key) + len(value)
			}
		}
	}
	return size + entry*(len(cr.Spec.Tasks)+len(cr.Spec.ReadinessGates)+len(cr.Served.OwnerReferences)+len(cr.Finalizers))
}
