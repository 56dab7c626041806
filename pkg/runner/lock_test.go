package runner

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// lease is a Lease with a record that a test sets.
type lease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	raw    string
}

func (l *lease) Identity() string { return "own" }

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := l.record
	return &record, []byte(l.raw), nil
}

// TestExpiredLease: only a Lease that did not change for its whole duration, as seen from here,
// looks released.
func TestExpiredLease(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	leader := &lease{record: resourcelock.LeaderElectionRecord{HolderIdentity: "leader"}, raw: "1"}
	l := &lock{Interface: leader, clock: clock}
	for _, step := range []struct {
		name       string
		later      time.Duration
		raw        string
		own        bool
		wantHolder string
	}{
		{name: "first seen, however old it is", raw: "1", wantHolder: "leader"},
		{name: "not yet expired", later: leaseDuration, raw: "1", wantHolder: "leader"},
		{name: "renewed", later: time.Second, raw: "2", wantHolder: "leader"},
		{name: "the time since the renewal counts", later: leaseDuration, raw: "2", wantHolder: "leader"},
		{name: "expired", later: time.Millisecond, raw: "2", wantHolder: ""},
		{name: "renewed after all", raw: "3", wantHolder: "leader"},
		{name: "expired again", later: leaseDuration + 1, raw: "3", wantHolder: ""},
		{name: "one's own Lease is never released by looking at it", later: leaseDuration, raw: "3", own: true, wantHolder: "own"},
	} {
		clock.SetTime(clock.Now().Add(step.later))
		leader.raw = step.raw
		leader.record.HolderIdentity = "leader"
		if step.own {
			leader.record.HolderIdentity = "own"
		}
		record, raw, err := l.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if record.HolderIdentity != step.wantHolder || string(raw) != step.raw {
			t.Errorf("%s: holder %q in %q, want %q in %q", step.name, record.HolderIdentity, raw, step.wantHolder, step.raw)
		}
	}
}
