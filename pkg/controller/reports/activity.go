package reports

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/gauge"
)

var lastReport = gauge.New("starling_status_last_report_timestamp_seconds",
	"When a cluster last reported a status, in seconds since 1970, as the API server of its ITS has it.")

// activity knows when each cluster reported last. It is safe for concurrent use.
type activity struct {
	mu       sync.Mutex
	clusters map[string]*active
}

// active is what is known of a cluster that reports at least one object.
type active struct {
	reports int
	last    time.Time
}

func newActivity() *activity { return &activity{clusters: map[string]*active{}} }

// seen notes a WorkStatus, and by how many the reports of its cluster became more.
func (a *activity) seen(obj any, more int) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	ws, ok := obj.(*controlv1alpha1.WorkStatus)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.clusters[ws.Namespace]
	if c == nil {
		c = &active{}
		a.clusters[ws.Namespace] = c
	}
	c.reports += more
	if at := updated(ws); c.last.Before(at) {
		c.last = at
	}
	if c.reports <= 0 {
		delete(a.clusters, ws.Namespace) // detached, say
	}
}

func (a *activity) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.seen(obj, 1) },
		UpdateFunc: func(_, obj any) { a.seen(obj, 0) },
		DeleteFunc: func(obj any) { a.seen(obj, -1) },
	}
}

// values returns when each cluster reported last, in seconds since 1970.
func (a *activity) values() map[string]float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	values := make(map[string]float64, len(a.clusters))
	for name, c := range a.clusters {
		values[name] = float64(c.last.Unix())
	}
	return values
}
