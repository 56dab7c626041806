package dynamicinformer

import (
	"k8s.io/component-base/metrics"
)

// unsynced has an entry for each watched resource that has not synced; usually there is none.
var unsynced = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace:      "starling",
	Name:           "unsynced_resources",
	Help:           "Watched resources that have not synced: 1 for each.",
	StabilityLevel: metrics.ALPHA,
}, []string{"group", "resource"})
