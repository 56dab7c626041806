package variantsets

import (
	"k8s.io/component-base/metrics"
)

var plannings = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Namespace:      "starling",
	Subsystem:      "variantsets",
	Name:           "planning_seconds",
	Help:           "How long it takes to plan a PackageVariantSet.",
	Buckets:        []float64{0.0001, 0.001, 0.01, 0.1, 1, 10},
	StabilityLevel: metrics.ALPHA,
}, nil)
