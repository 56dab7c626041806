package binding

import (
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// Difference is how far two specs are apart.
type Difference int

const (
	// Equal specs need no write.
	Equal Difference = iota
	// Versions: only resourceVersions differ. Such a write may wait.
	Versions
	// Set: objects, how they are carried, or destinations differ, or their order.
	Set
)

// Diff tells how far the specs are apart. Its cost is linear in their size.
func Diff(a, b *controlv1alpha1.BindingSpec) Difference {
	if !slices.Equal(a.Destinations, b.Destinations) ||
		len(a.Workload.ClusterScope) != len(b.Workload.ClusterScope) ||
		len(a.Workload.NamespaceScope) != len(b.Workload.NamespaceScope) {
		return Set
	}
	found := Equal
	for i := range a.Workload.ClusterScope {
		x, y := &a.Workload.ClusterScope[i], &b.Workload.ClusterScope[i]
		xObject, yObject := x.ClusterScopeDownsyncObject, y.ClusterScopeDownsyncObject
		if xObject.ResourceVersion != yObject.ResourceVersion {
			found = Versions
			xObject.ResourceVersion = yObject.ResourceVersion
		}
		if xObject != yObject || !equalModulation(&x.DownsyncModulation, &y.DownsyncModulation) {
			return Set
		}
	}
	for i := range a.Workload.NamespaceScope {
		x, y := &a.Workload.NamespaceScope[i], &b.Workload.NamespaceScope[i]
		xObject, yObject := x.NamespaceScopeDownsyncObject, y.NamespaceScopeDownsyncObject
		if xObject.ResourceVersion != yObject.ResourceVersion {
			found = Versions
			xObject.ResourceVersion = yObject.ResourceVersion
		}
		if xObject != yObject || !equalModulation(&x.DownsyncModulation, &y.DownsyncModulation) {
			return Set
		}
	}
	return found
}

func equalModulation(a, b *controlv1alpha1.DownsyncModulation) bool {
	return a.CreateOnly == b.CreateOnly &&
		a.WantSingletonReportedState == b.WantSingletonReportedState &&
		a.WantMultiWECReportedState == b.WantMultiWECReportedState &&
		slices.Equal(a.StatusCollectors, b.StatusCollectors)
}
