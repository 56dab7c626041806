// Package gauge has metrics by cluster that are asked for when they are read: how long ago something was is true at no other time.
package gauge

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// ByCluster is a gauge with the label "cluster". It is safe for concurrent use.
type ByCluster struct {
	metrics.BaseStableCollector

	desc *metrics.Desc

	mu      sync.Mutex
	next    int
	sources map[int]func() map[string]float64
}

// New returns a gauge that is registered under that name.
func New(name, help string) *ByCluster {
	g := &ByCluster{
		desc:    metrics.NewDesc(name, help, []string{"cluster"}, nil, metrics.ALPHA, ""),
		sources: map[int]func() map[string]float64{},
	}
	legacyregistry.CustomMustRegister(g)
	return g
}

// Add has the gauge show what the source returns, by cluster, until remove is called. Of several values for one cluster the
// largest is shown. The source must not block.
func (g *ByCluster) Add(source func() map[string]float64) (remove func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := g.next
	g.next++
	g.sources[id] = source
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sources, id)
	}
}

// Values returns what the gauge shows.
func (g *ByCluster) Values() map[string]float64 {
	g.mu.Lock()
	sources := slices.Collect(maps.Values(g.sources))
	g.mu.Unlock()
	values := map[string]float64{}
	for _, source := range sources {
		for cluster, value := range source() {
			if before, ok := values[cluster]; !ok || value > before {
				values[cluster] = value
			}
		}
	}
	return values
}

// DescribeWithStability implements metrics.StableCollector.
func (g *ByCluster) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- g.desc }

// CollectWithStability implements metrics.StableCollector.
func (g *ByCluster) CollectWithStability(ch chan<- metrics.Metric) {
	for cluster, value := range g.Values() {
		ch <- metrics.NewLazyConstMetric(g.desc, metrics.GaugeValue, value, cluster)
	}
}
