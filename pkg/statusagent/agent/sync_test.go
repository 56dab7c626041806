package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
