// Package metrics registers the metrics of Starling, and has gauges whose values are computed when
// they are read.
package metrics

import (
	"fmt"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Collector is a metric, or a metrics.StableCollector, of component-base.
type Collector interface {
	ClearState()
}

// registered belongs to the registry of component-base, of which a process has one. That registry
// panics when it gets the same collector twice, as it does when two controllers run in one process.
var registered sync.Map

// Register adds the collectors to those that the program serves at /metrics. A collector that is
// registered already is skipped: each constructor registers what it needs. Register panics if
// another collector has the same name, which is a bug.
func Register(collectors ...Collector) {
	for _, c := range collectors {
		if _, before := registered.LoadOrStore(c, true); before {
			continue
		}
		switch c := c.(type) {
		case metrics.Registerable:
			legacyregistry.MustRegister(c)
		case metrics.StableCollector:
			legacyregistry.CustomMustRegister(c)
		default:
			panic(fmt.Sprintf("register metric: %T is no collector of component-base", c))
		}
	}
}
