package agent

import (
	"bytes"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/starlinghq/starling/pkg/core/objref"
	starlingmetrics "github.com/starlinghq/starling/pkg/metrics"
)

// Stages of an edit and its status on their way that only an agent observes. They have the names
// that KubeStellar's dashboards use.
var (
	activation = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace:      "kubestellar",
		Subsystem:      "downsync",
		Name:           "activation_duration_seconds",
		Help:           "Time from a change of a delivered object in the WEC to the status that its controller there wrote for it.",
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
	reportLag = starlingmetrics.NewClusterGauge("starling_status_report_lag_seconds",
		"How long a change in the cluster has been waiting to be reported; 0 if none has.")
	abandonedWorks = starlingmetrics.NewClusterGauge("starling_status_abandoned_works",
		"Works whose objects are in the cluster and that the hub does not have. OCM's agent deletes the objects after its grace period.")
)

// abandoned returns the number of works that the hub does not have.
func (a *Agent) abandoned() map[string]float64 {
	return map[string]float64{a.config.Cluster: float64(a.index.abandoned())}
}

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

// patience is how long to wait until a controller observes a change: many objects have no
// controller.
const patience = 5 * time.Minute

// change is a change of an object that its controller has not observed yet.
type change struct {
	at time.Time
	// status is what the object had then.
	status []byte
}

// recordActivation measures how long it takes until a controller in the WEC observes a change. It
// is called with each change, in order. An object exists before the index has the work that holds
// it.
func (a *Agent) recordActivation(ref objref.Ref, before, after *reported, held bool) {
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
	case ok && after.observedChange(pending.status):
		delete(a.changed, ref)
		if held {
			activation.WithLabelValues(a.config.Cluster).Observe(now.Sub(pending.at).Seconds())
		}
	}
}

// observedChange reports whether the status is about the current generation: by its
// observedGeneration, or if it has none, because it differs from the status at the time of the
// change.
func (r *reported) observedChange(earlier []byte) bool {
	if r.observed > 0 {
		return r.observed >= r.Generation
	}
	return r.status != nil && !bytes.Equal(r.status, earlier)
}
