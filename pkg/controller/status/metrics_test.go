package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestLags(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	now := clock.Now()
	c := &Controller{config: Config{Clock: clock}, since: map[objref.Ref]arrival{
		{Name: "a"}: {at: now.Add(-2 * time.Second), cluster: "c1"},
		{Name: "b"}: {at: now.Add(-5 * time.Second), cluster: "c1"},
		{Name: "c"}: {at: now, cluster: "c2"},
	}}
	if diff := cmp.Diff(map[string]float64{"c1": 5, "c2": 0}, c.lags()); diff != "" {
		t.Errorf("lags (-want +got):\n%s", diff)
	}
}
