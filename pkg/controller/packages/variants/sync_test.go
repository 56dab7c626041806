package variants

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// TestHoldBack: while a package is on its way to its cluster nothing is said for a while, and then
// what there is. Each way has its own while.
func TestHoldBack(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	c := &Controller{clock: clock}
	s := &state{}
	for i, step := range []struct {
		after    time.Duration
		underWay bool
		want     time.Duration
	}{
		{0, false, 0},
		{0, true, deliveryPatience},
		{deliveryPatience / 4, true, deliveryPatience * 3 / 4},
		{deliveryPatience * 3 / 4, true, 0},
		{time.Hour, false, 0}, // it has arrived
		{0, true, deliveryPatience},
		{deliveryPatience / 2, false, 0},
	} {
		clock.Step(step.after)
		if got := c.holdBack(s, step.underWay); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	c.holdBack(s, true)
	clock.Step(time.Hour)
	if got := c.holdBack(s, true); got > 0 {
		t.Errorf("%s after an hour", got)
	}
}
