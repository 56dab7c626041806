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
	bindingWhats  = kubestellarHistogram("binding_whats", "Objects in a Binding, each time it changed.")
	bindingWheres = kubestellarHistogram("binding_wheres", "Destinations of a Binding, each time it changed.")
	bindingAreas  = kubestellarHistogram("binding_areas", "Objects times destinations of a Binding, each time it changed.")
)

func kubestellarHistogram(name, help string) *metrics.Histogram {
	return metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		Buckets: metrics.ExponentialBuckets(1, 4, 11), // to a million
	})
}

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
