package binding

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/starlinghq/starling/pkg/core/match"
)

// matchTests tells how much is evaluated: it must follow what changes, not what there is.
type matchTests struct {
	metrics.BaseStableCollector
	desc  *metrics.Desc
	index atomic.Pointer[match.Index]
}

var tests = &matchTests{desc: metrics.NewDesc("starling_match_tests_total",
	"How many times an object was tested against a clause of a BindingPolicy.", nil, nil, metrics.ALPHA, "")}

func init() { legacyregistry.CustomMustRegister(tests) }

// DescribeWithStability implements metrics.StableCollector.
func (t *matchTests) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- t.desc }

// CollectWithStability implements metrics.StableCollector.
func (t *matchTests) CollectWithStability(ch chan<- metrics.Metric) {
	if index := t.index.Load(); index != nil {
		ch <- metrics.NewLazyConstMetric(t.desc, metrics.CounterValue, float64(index.Tests()))
	}
}
