package agent

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// reportDuration is a stage of the way of a status: from the WEC into the ITS.
var reportDuration = metrics.NewHistogram(&metrics.HistogramOpts{
	Namespace:      "starling",
	Name:           "status_report_duration_seconds",
	Help:           "Time from a change of a delivered object in the WEC to its WorkStatus in the ITS.",
	Buckets:        metrics.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
	StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(reportDuration) }
