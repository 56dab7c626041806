package delivery

import "k8s.io/component-base/metrics"

var (
	deliverySeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "starling", Subsystem: "transport", Name: "delivery_seconds",
		Help:    "Time from the decision what to deliver until the space had accepted the write, for each write, by space.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15), StabilityLevel: metrics.ALPHA,
	}, []string{"space"})
	orphanedBindings = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "starling", Subsystem: "transport", Name: "orphaned_bindings",
		Help: "Bindings that have works in a space but do not exist in the WDS.", StabilityLevel: metrics.ALPHA,
	}, []string{"space"})
)

// These have the names that dashboards for KubeStellar know.
var (
	wecs = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: "wecs",
		Help: "Clusters that the inventory and transport spaces know.", StabilityLevel: metrics.ALPHA,
	})
	wrappedObjects = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "kubestellar", Subsystem: "transport_controller", Name: "wrapped_objects", Help: "Works in the mailboxes.",
		StabilityLevel: metrics.ALPHA,
	})
)
