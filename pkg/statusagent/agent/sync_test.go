package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/pace"
)

// TestQuietObjectsAreForgotten: an agent keeps nothing about the reports of objects that are quiet,
// whether their WorkStatuses were written, refused or deleted.
func TestQuietObjectsAreForgotten(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	a := &Agent{
		config: Config{Clock: clock}, pace: pace.New(eachReport, pace.Limit{Interval: time.Minute, Burst: 12}, 0),
		written: map[string]record{}, limits: map[string]int{}, since: map[string]time.Time{},
	}
	for _, name := range []string{"written", "refused"} {
		for range eachReport.Burst {
			if wait := a.takeTurn(name); wait != 0 {
				t.Fatalf("%s waits %s", name, wait)
			}
		}
		if wait := a.takeTurn(name); wait != time.Second {
			t.Errorf("%s waits %s after the burst", name, wait)
		}
	}
	a.remember("written", nil)
	for i, want := range []time.Duration{0, 0, time.Minute, 2 * time.Minute} {
		if wait := a.takeTurn(fmt.Sprint(i)); wait != want {
			t.Errorf("of all objects, %d waits %s, want %s", i, wait, want)
		}
	}
	names := []string{"written", "refused", "0", "1", "2", "3"}
	for _, name := range names {
		left := a.forgetDone(name, evidence{})
		if want := map[string]time.Duration{
			"written": believed, "refused": time.Duration(eachReport.Burst) * time.Second, "0": time.Second, "1": time.Second,
		}[name]; left != want {
			t.Errorf("%s is kept for %s, want %s", name, left, want)
		}
	}
	clock.Step(believed)
	for _, name := range names {
		if left := a.forgetDone(name, evidence{}); left != 0 {
			t.Errorf("%s is kept for %s", name, left)
		}
	}
	if a.pace.Len() != 0 || len(a.written) != 0 {
		t.Errorf("keeps %d names and %d writes", a.pace.Len(), len(a.written))
	}
}

// TestWatchErrorShowsWhetherTheHubIsReachable: an agent with nothing to write detects it too if the
// hub is unreachable, or its certificate has expired. Then it does not renew its Lease.
func TestWatchErrorShowsWhetherTheHubIsReachable(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, tc := range map[string]struct {
		err          error
		before, want bool
	}{
		"Unreachable":           {err: fmt.Errorf("list: %w", refused), want: true},
		"Unauthorized":          {err: apierrors.NewUnauthorized("expired"), want: true},
		"Expired":               {err: apierrors.NewResourceExpired("too old")},
		"ReachableAgain":        {err: apierrors.NewResourceExpired("too old"), before: true},
		"Ended":                 {err: io.EOF},
		"Broken":                {err: fmt.Errorf("watch: %w", io.ErrUnexpectedEOF)},
		"EndedWhileUnreachable": {err: io.EOF, before: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Agent{}
			a.hubUnreachable.Store(tc.before)
			a.recordWatch(t.Context(), tc.err)
			if got := a.hubUnreachable.Load(); got != tc.want {
				t.Errorf("hub unreachable: %t, want %t", got, tc.want)
			}
		})
	}
}
