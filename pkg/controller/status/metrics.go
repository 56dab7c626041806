package status

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/starlinghq/starling/pkg/gauge"
)

// finalization is the last stage of the way of a status: from the ITS into the object of the WDS. It bears the name that
// dashboards made for KubeStellar know.
var finalization = metrics.NewHistogram(&metrics.HistogramOpts{ //nolint:promlinter // the name is KubeStellar's
	Namespace:      "kubestellar",
	Subsystem:      "statusPropagation",
	Name:           "finalization_duration_seconds",
	Help:           "Time from a WorkStatus that came in to the object in the WDS that holds its status.",
	Buckets:        metrics.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
	StabilityLevel: metrics.ALPHA,
})

var lag = gauge.New("starling_status_return_lag_seconds",
	"How long a report of the cluster has been waiting to be returned to its object in the WDS; nothing for a cluster of which none is.")

func init() { legacyregistry.MustRegister(finalization) }

// arrival is when a report came in that was not dealt with yet, and from where.
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
