package works

import (
	"fmt"
	"slices"

	kjson "k8s.io/apimachinery/pkg/util/json"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Content returns what a ManifestWork has of an object. It is read for a single write: plans need
// only hashes.
func Content(work *workv1.ManifestWork, ref objref.Ref) (transform.Object, error) {
	items := Read(work, NewManifests(len(work.Spec.Workload.Manifests)+1)).Items
	i := slices.IndexFunc(items, func(item plan.Item) bool { return item.Ref == ref && !item.Withdrawn })
	if i < 0 {
		return transform.Object{}, fmt.Errorf("ManifestWork %s/%s does not have %s", work.Namespace, work.Name, ref)
	}
	var content map[string]any
	if err := kjson.Unmarshal(work.Spec.Workload.Manifests[i].Raw, &content); err != nil {
		return transform.Object{}, fmt.Errorf("decode %s in ManifestWork %s/%s: %w", ref, work.Namespace, work.Name, err)
	}
	return transform.Pipeline{}.Apply(ref, content)
}
