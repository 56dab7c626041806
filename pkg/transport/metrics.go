package transport

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	packagingSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "starling",
		Subsystem:      "transport",
		Name:           "packaging_seconds",
		Help:           "Time from the event of a Binding or of an object in it until what to deliver was decided.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15),
		StabilityLevel: metrics.ALPHA,
	})
	deliverySeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace:      "starling",
		Subsystem:      "transport",
		Name:           "delivery_seconds",
		Help:           "Time from the decision what to deliver until the space had accepted the write, for each write, by space.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"space"})
	objectReads = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "starling",
		Subsystem:      "transport",
		Name:           "object_reads_total",
		Help:           "Objects of the WDS that were read because their version changed.",
		StabilityLevel: metrics.ALPHA,
	})
	packageReads = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "starling",
		Subsystem:      "transport",
		Name:           "package_reads_total",
		Help:           "Contents of packages that were read, each for all Bindings that list it.",
		StabilityLevel: metrics.ALPHA,
	})
	orphanedBindings = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      "starling",
		Subsystem:      "transport",
		Name:           "orphaned_bindings",
		Help:           "Bindings that have works in a space but do not exist in the WDS.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"space"})
)

// These bear the names that dashboards made for KubeStellar know.
var (
	wecs           = kubestellarGauge("wecs", "Clusters that the inventory and transport spaces know.")
	bindingsCount  = kubestellarGauge("bindings", "Bindings that are carried out.")
	transforms     = kubestellarGauge("transforms", "CustomTransforms in the WDS.")
	wrappedObjects = kubestellarGauge("wrapped_objects", "Works in the mailboxes.")
	bindingWhats   = kubestellarHistogram("binding_whats", "Objects in a Binding, each time it changed.")
	bindingWheres  = kubestellarHistogram("binding_wheres", "Destinations of a Binding, each time it changed.")
	bindingAreas   = kubestellarHistogram("binding_areas", "Objects times destinations of a Binding, each time it changed.")
)

func kubestellarGauge(name, help string) *metrics.Gauge {
	return metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	})
}

func kubestellarHistogram(name, help string) *metrics.Histogram {
	return metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		Buckets: metrics.ExponentialBuckets(1, 4, 11), // to a million
	})
}

func init() {
	legacyregistry.MustRegister(packagingSeconds, deliverySeconds, objectReads, packageReads, orphanedBindings)
	legacyregistry.MustRegister(wecs, bindingsCount, transforms, wrappedObjects, bindingWhats, bindingWheres, bindingAreas)
}

// step returns by how much a count of things changes when one of them was there before, and is there after.
func step(before, after bool) float64 {
	switch {
	case after && !before:
		return 1
	case before && !after:
		return -1
	}
	return 0
}
