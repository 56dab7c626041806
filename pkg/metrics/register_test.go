package metrics

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

// A process registers them once, also if the tests run several times.
var (
	testCounter = metrics.NewCounter(&metrics.CounterOpts{Name: "starling_test_total", Help: "For a test."})
	testGauge   = NewClusterGauge("starling_test_gauge", "For a test.")
)

func TestRegisterTwice(t *testing.T) {
	for range 2 {
		Register(testCounter, testGauge)
	}
	before, err := testutil.GetCounterMetricValue(testCounter)
	if err != nil {
		t.Fatal(err)
	}
	testCounter.Inc()
	want := fmt.Sprintf(`# HELP starling_test_total [ALPHA] For a test.
# TYPE starling_test_total counter
starling_test_total %g
`, before+1)
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "starling_test_total"); err != nil {
		t.Error(err)
	}
}
