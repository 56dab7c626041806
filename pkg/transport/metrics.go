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
	transforms = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace:      "kubestellar",
		Subsystem:      "transport_controller",
		Name:           "transforms",
		Help:           "CustomTransforms in the WDS.",
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

func init() {
	legacyregistry.MustRegister(packagingSeconds, deliverySeconds, objectReads, transforms, orphanedBindings)
}
