package placement

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// version identifies one version of an object.
type version struct {
	api             string // the version of the API that it was read in
	uid             types.UID
	resourceVersion string
	fingerprint     uint64
}

func versionOf(meta metav1.Object, api string, tracksContent bool) version {
	return version{
		api: api, uid: meta.GetUID(), resourceVersion: meta.GetResourceVersion(), fingerprint: fingerprint(meta, tracksContent),
	}
}

// olderThan reports whether the object must be read, given its metadata in the watch. What was read
// may be newer than what the watch has seen.
func (v version) olderThan(meta metav1.Object, tracksContent bool) bool {
	if v.uid != meta.GetUID() {
		return true
	}
	if v.resourceVersion == meta.GetResourceVersion() || Newer(v.resourceVersion, meta.GetResourceVersion()) {
		return false
	}
	return v.fingerprint != fingerprint(meta, tracksContent)
}

// Newer reports whether resourceVersion a is surely newer than b.
func Newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// undelivered are labels and annotations that are not delivered, so that their change is no change
// of the object.
var undelivered = []string{
	controlv1alpha1.LabelSingletonStatus,
	controlv1alpha1.LabelMultiWECStatus,
	controlv1alpha1.LabelExecutingCount,
}

// fingerprint returns a hash of the metadata that changes when what is delivered of an object
// changes: generation, labels and annotations if the generation tracks the content, so that a write
// of the status changes nothing; otherwise the resourceVersion.
func fingerprint(meta metav1.Object, tracksContent bool) uint64 {
	h := fnv.New64a()
	add := func(s string) {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	add(string(meta.GetUID()))
	if !tracksContent || meta.GetGeneration() == 0 {
		add(meta.GetResourceVersion())
		return h.Sum64()
	}
	add(strconv.FormatInt(meta.GetGeneration(), 10))
	for _, m := range []map[string]string{meta.GetLabels(), meta.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !slices.Contains(undelivered, key) {
				add(key)
				add(m[key])
			}
		}
		add("")
	}
	return h.Sum64()
}
