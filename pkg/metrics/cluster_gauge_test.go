package metrics

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

// A process registers it once, also if the test runs several times.
var testLag = NewClusterGauge("starling_test_lag_seconds", "For a test.")

func TestClusterGauge(t *testing.T) {
	g := testLag
	values := map[string]float64{"one": 1, "two": 2}
	remove := g.Add(func() map[string]float64 { return values })
	other := g.Add(func() map[string]float64 { return map[string]float64{"two": 1, "three": 3} })
	if diff := cmp.Diff(map[string]float64{"one": 1, "two": 2, "three": 3}, g.Values()); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	values["one"] = 7
	const want = `# HELP starling_test_lag_seconds [ALPHA] For a test.
# TYPE starling_test_lag_seconds gauge
starling_test_lag_seconds{cluster="one"} 7
starling_test_lag_seconds{cluster="three"} 3
starling_test_lag_seconds{cluster="two"} 2
`
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "starling_test_lag_seconds"); err != nil {
		t.Error(err)
	}
	remove()
	if diff := cmp.Diff(map[string]float64{"two": 1, "three": 3}, g.Values()); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	other()
	if len(g.Values()) > 0 {
		t.Errorf("values without a source: %v", g.Values())
	}
}
