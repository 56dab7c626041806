package metrics

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

func TestRegisterTwice(t *testing.T) {
	counter := metrics.NewCounter(&metrics.CounterOpts{Name: "starling_test_total", Help: "For a test."})
	gauge := NewClusterGauge("starling_test_gauge", "For a test.")
	for range 2 {
		Register(counter, gauge)
	}
	counter.Inc()
	const want = `# HELP starling_test_total [ALPHA] For a test.
# TYPE starling_test_total counter
starling_test_total 1
`
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "starling_test_total"); err != nil {
		t.Error(err)
	}
}
