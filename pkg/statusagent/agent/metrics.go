package agent

import (
	"bytes"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/gauge"
)

// Stages of the way of an edit and of its status back that only an agent sees. They bear the names that dashboards made for
// KubeStellar know.
var (
	activation = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace:      "kubestellar",
		Subsystem:      "downsync",
		Name:           "activation_duration_seconds",
		Help:           "Time from a change of a delivered object in the WEC to the status in which its controller there takes notice.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 19), // 1 ms to 262 s
		StabilityLevel: metrics.ALPHA,
	}, []string{"cluster"})
	reporting = metrics.NewHistogramVec(&metrics.HistogramOpts{ //nolint:promlinter // the name is KubeStellar's
		Namespace:      "kubestellar",
		Subsystem:      "statusPropagation",
		Name:           "report_duration_seconds",
		Help:           "Time from a change of the status of a delivered object in the WEC to its WorkStatus in the ITS.",
		Buckets:        metrics.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
		StabilityLevel: metrics.ALPHA,
	}, []string{"cluster"})
	reportLag = gauge.New("starling_status_report_lag_seconds",
		"How long a change in the cluster has been waiting to be reported; 0 if none has.")
)

func init() { legacyregistry.MustRegister(activation, reporting) }

// lags returns how long the oldest change that is not reported yet has been waiting.
func (a *Agent) lags() map[string]float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	oldest := 0.0
	for _, since := range a.since {
		oldest = max(oldest, a.config.Clock.Since(since).Seconds())
	}
	return map[string]float64{a.config.Cluster: oldest}
}

// patience is how long is waited for a controller to take notice of a change: many objects have none.
const patience = 5 * time.Minute

// change is a change of an object that its controller has taken no notice of yet.
type change struct {
	at time.Time
	// status is what the object had then.
	status []byte
}

// noteActivation measures how long it takes until somebody in the WEC takes notice of what came. It is called with each change that
// was watched, in order. An object is there before it is known to be held.
func (a *Agent) noteActivation(ref objref.Ref, before, after *reported, held bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.config.Clock.Now()
	switch pending, ok := a.changed[ref]; {
	case after == nil || !after.applied:
		delete(a.changed, ref)
	case before == nil || before.Generation != after.Generation:
		a.changed[ref] = change{at: now, status: after.status}
	case ok && now.Sub(pending.at) > patience:
		delete(a.changed, ref)
	case ok && after.tookNotice(pending.status):
		delete(a.changed, ref)
		if held {
			activation.WithLabelValues(a.config.Cluster).Observe(now.Sub(pending.at).Seconds())
		}
	}
}

// tookNotice tells whether the status is one of the object as it is now: it says so, or if it does not speak of generations, it is
// another one than that which the object had when it changed.
func (r *reported) tookNotice(earlier []byte) bool {
	if r.observed > 0 {
		return r.observed >= r.Generation
	}
	return r.status != nil && !bytes.Equal(r.status, earlier)
}
