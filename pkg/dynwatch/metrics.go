package dynwatch

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// unsynced has an entry for each resource that is watched and was not read yet; none is the usual state.
var unsynced = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace:      "starling",
	Name:           "unsynced_resources",
	Help:           "Resources that are watched and whose objects were not all read yet: 1 for each.",
	StabilityLevel: metrics.ALPHA,
}, []string{"group", "resource"})

func init() { legacyregistry.MustRegister(unsynced) }
