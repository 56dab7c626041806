package status

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// finalization is the last stage of the way of a status: from the ITS into the object of the WDS.
var finalization = metrics.NewHistogram(&metrics.HistogramOpts{
	Namespace:      "starling",
	Name:           "status_finalization_duration_seconds",
	Help:           "Time from a WorkStatus that came in to the object in the WDS that holds its status.",
	Buckets:        metrics.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(finalization) }
