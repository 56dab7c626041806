package combined

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	// evaluations shows that one further report costs its own rows.
	evaluations = metrics.NewCounter(&metrics.CounterOpts{
		Namespace:      "starling",
		Name:           "status_evaluations_total",
		Help:           "Rows of StatusCollectors that were evaluated: one for each StatusCollector, object, policy and cluster for which something changed.",
		StabilityLevel: metrics.ALPHA,
	})
	combination = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "starling",
		Name:           "status_combination_duration_seconds",
		Help:           "Time from a WorkStatus that came in to the CombinedStatus that it changed.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
		StabilityLevel: metrics.ALPHA,
	})
)

func init() { legacyregistry.MustRegister(evaluations, combination) }
