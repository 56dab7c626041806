package combinedstatus

import (
	"k8s.io/component-base/metrics"
)

var (
	// evaluations shows that one more report costs only its own rows.
	evaluations = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "starling",
		Name:           "status_evaluations_total",
		Help:           "Rows of StatusCollectors that were evaluated: one for each StatusCollector, object, policy and cluster for which something changed.",
		StabilityLevel: metrics.ALPHA,
	})
	combination = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "starling",
		Name:           "status_combination_duration_seconds",
		Help:           "Time from the arrival of a WorkStatus to the write of the CombinedStatus that it changed.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
		StabilityLevel: metrics.ALPHA,
	})
)
