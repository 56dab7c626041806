package works

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// BenchmarkReadOptions reads a work of so many objects, each with options, that was read before:
// linear in them.
func BenchmarkReadOptions(b *testing.B) {
	for _, n := range []int{1e1, 1e2, 1e3} {
		work := &workv1.ManifestWork{}
		work.Annotations = map[string]string{controlv1alpha1.AnnotationKinds: "ConfigMap=configmaps"}
		for i := range n {
			name := fmt.Sprintf("settings-%05d", i)
			work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"web"}}`),
			}})
			work.Spec.ManifestConfigs = append(work.Spec.ManifestConfigs, workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "web", Name: name},
				UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly},
			})
		}
		texts := NewManifests(1000)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if !Read(work, texts).Items[n-1].CreateOnly {
					b.Fatal("an option was not read")
				}
			}
		})
	}
}
