package binding

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"github.com/starlinghq/starling/pkg/core/match"
)

// matchTests shows how much is evaluated: it must follow the changes, not the number of objects.
type matchTests struct {
	metrics.BaseStableCollector
	desc  *metrics.Desc
	index atomic.Pointer[match.Index]
}

var tests = &matchTests{desc: metrics.NewDesc("starling_match_tests_total",
	"How many times an object was tested against a clause of a BindingPolicy.", nil, nil, metrics.ALPHA, "")}

// DescribeWithStability implements metrics.StableCollector.
func (t *matchTests) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- t.desc }

// CollectWithStability implements metrics.StableCollector.
func (t *matchTests) CollectWithStability(ch chan<- metrics.Metric) {
	if index := t.index.Load(); index != nil {
		ch <- metrics.NewLazyConstMetric(t.desc, metrics.CounterValue, float64(index.Tests()))
	}
}
