package placement

import "k8s.io/component-base/metrics"

var (
	packagingSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "starling", Subsystem: "transport", Name: "packaging_seconds",
		Help:    "Time from the event of a Binding or of an object in it until what to deliver was decided.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15), StabilityLevel: metrics.ALPHA,
	})
	objectReads = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "starling", Subsystem: "transport", Name: "object_reads_total",
		Help: "Objects of the WDS that were read because their version changed.", StabilityLevel: metrics.ALPHA,
	})
	packageReads = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "starling", Subsystem: "transport", Name: "package_reads_total",
		Help: "Contents of packages that were read, each for all Bindings that list it.", StabilityLevel: metrics.ALPHA,
	})
)

// These have the names that dashboards for KubeStellar know.
var (
	bindingsCount = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: "bindings", Help: "Bindings that are carried out.",
		StabilityLevel: metrics.ALPHA,
	})
	customTransformsCount = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: "transforms", Help: "CustomTransforms in the WDS.",
		StabilityLevel: metrics.ALPHA,
	})
	bindingWhats = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: "binding_whats",
		Help: "Objects in a Binding, each time it changed.", Buckets: sizes, StabilityLevel: metrics.ALPHA,
	})
	bindingWheres = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: "binding_wheres",
		Help: "Destinations of a Binding, each time it changed.", Buckets: sizes, StabilityLevel: metrics.ALPHA,
	})
	bindingAreas = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: "binding_areas",
		Help: "Objects times destinations of a Binding, each time it changed.", Buckets: sizes, StabilityLevel: metrics.ALPHA,
	})
)

// sizes are the buckets of numbers of things, to a million.
var sizes = metrics.ExponentialBuckets(1, 4, 11)

// Step returns by how much a count of things changes when one of them existed before, and exists
// after.
func Step(before, after bool) float64 {
	switch {
	case after && !before:
		return 1
	case before && !after:
		return -1
	}
	return 0
}
