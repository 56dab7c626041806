package status

import (
	"time"

	"k8s.io/component-base/metrics"

	starlingmetrics "github.com/starlinghq/starling/pkg/metrics"
)

// finalization is the last stage of a status on its way: from the ITS into the object of the WDS.
// It has the name that KubeStellar's dashboards use.
var finalization = metrics.NewHistogram(&metrics.HistogramOpts{ //nolint:promlinter // the name is KubeStellar's
	Namespace:      "kubestellar",
	Subsystem:      "statusPropagation",
	Name:           "finalization_duration_seconds",
	Help:           "Time from a WorkStatus that came in to the object in the WDS that holds its status.",
	Buckets:        metrics.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
	StabilityLevel: metrics.ALPHA,
})

var lag = starlingmetrics.NewClusterGauge("starling_status_return_lag_seconds",
	"How long the oldest report of the cluster has been waiting to be returned to its object in the WDS. There is no value while none is waiting.")

// arrival is when a report arrived that was not processed yet, and from which cluster.
type arrival struct {
	at      time.Time
	cluster string
}

// lags returns how long the oldest report of each cluster has been waiting.
func (c *Controller) lags() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	lags := map[string]float64{}
	for _, a := range c.since {
		lags[a.cluster] = max(lags[a.cluster], c.config.Clock.Since(a.at).Seconds())
	}
	return lags
}
