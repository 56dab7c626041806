package metrics

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
)

// ClusterGauge is a gauge with the label "cluster". Its values are computed when it is read: how
// long ago something happened changes all the time. It is safe for concurrent use.
type ClusterGauge struct {
	metrics.BaseStableCollector

	desc *metrics.Desc

	mu      sync.Mutex
	next    int
	sources map[int]func() map[string]float64
}

// NewClusterGauge returns a gauge of that name. Its first source registers it.
func NewClusterGauge(name, help string) *ClusterGauge {
	return &ClusterGauge{
		desc:    metrics.NewDesc(name, help, []string{"cluster"}, nil, metrics.ALPHA, ""),
		sources: map[int]func() map[string]float64{},
	}
}

// Add makes the gauge include the values that source returns, by cluster, until remove is called.
// If several sources return a value for one cluster, the gauge has the largest. The source must not
// block.
func (g *ClusterGauge) Add(source func() map[string]float64) (remove func()) {
	Register(g)
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

// Values returns the value of each cluster.
func (g *ClusterGauge) Values() map[string]float64 {
	g.mu.Lock()
	sources := slices.Collect(maps.Values(g.sources))
	g.mu.Unlock()
	values := map[string]float64{}
	for _, source := range sources {
		for cluster, value := range source() {
			if largest, ok := values[cluster]; !ok || value > largest {
				values[cluster] = value
			}
		}
	}
	return values
}

// DescribeWithStability implements metrics.StableCollector.
func (g *ClusterGauge) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- g.desc }

// CollectWithStability implements metrics.StableCollector.
func (g *ClusterGauge) CollectWithStability(ch chan<- metrics.Metric) {
	for cluster, value := range g.Values() {
		ch <- metrics.NewLazyConstMetric(g.desc, metrics.GaugeValue, value, cluster)
	}
}
