package store

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/boundedcache"
)

// revisionCache caches the last seen version of each revision, by the UID of the stored one. A
// version of an object never changes.
type revisionCache struct {
	known *boundedcache.Cache[types.UID, *Revision]

	mu sync.Mutex
	// fields has the distinct field sets of managedFields.
	fields map[string]*metav1.FieldsV1
}

// revisionCacheSize is the approximate maximum size of the cache in bytes: about twenty thousand
// revisions.
const revisionCacheSize = 64 << 20

func newRevisionCache() *revisionCache {
	return &revisionCache{known: boundedcache.New[types.UID, *Revision](revisionCacheSize)}
}

// get returns a revision at a resourceVersion, or nil if it is not cached.
func (s *revisionCache) get(stored types.UID, version string) *Revision {
	if r, ok := s.known.Get(stored); ok && r.ResourceVersion == version {
		return r
	}
	return nil
}

// add caches a revision that was read or written, and returns it. The cache owns it from then on.
func (s *revisionCache) add(cr *storev1alpha1.PackageRevision) *Revision {
	stored, size := cr.UID, estimateSize(cr)
	r := &Revision{Serve(cr), cr.Content.Digest, int(cr.Content.Files)}
	s.shareManagedFields(r.ManagedFields)
	s.known.Add(stored, r, size)
	return r
}

// shareManagedFields lets equal field sets share memory: most revisions were written by the same
// programs in the same way.
func (s *revisionCache) shareManagedFields(entries []metav1.ManagedFieldsEntry) {
	const many = 4096
	s.mu.Lock()
	defer s.mu.Unlock()
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

// estimateSize estimates the memory of a revision in bytes.
func estimateSize(cr *storev1alpha1.PackageRevision) int {
	const itself, entry = 1500, 96 // of the structs; of one entry of a map or list
	size := itself + len(cr.Served.ManagedFields)
	maps := []map[string]string{cr.Labels, cr.Annotations}
	if m := cr.Spec.PackageMetadata; m != nil {
		maps = append(maps, m.Labels, m.Annotations)
	}
	for _, m := range maps {
		for key, value := range m {
			size += entry + len(key) + len(value)
		}
	}
	for i := range cr.Status.Conditions {
		c := &cr.Status.Conditions[i]
		size += entry + len(c.Type) + len(c.Reason) + len(c.Message)
	}
	return size + entry*(len(cr.Spec.Tasks)+len(cr.Spec.ReadinessGates)+len(cr.Served.OwnerReferences)+len(cr.Finalizers))
}

// Revision is a served revision with the digest and the number of its files. It is shared: callers
// must not change it.
type Revision struct {
	*porchv1alpha1.PackageRevision
	Digest string
	Files  int
}
