package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestWatchTellsOfTheHub: an agent with nothing to write finds out as well that the hub is away, or its certificate has expired: while it
// is so it does not say that it works.
func TestWatchTellsOfTheHub(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, tc := range map[string]struct {
		err          error
		before, want bool
	}{
		"Away":           {err: fmt.Errorf("list: %w", refused), want: true},
		"NotKnown":       {err: apierrors.NewUnauthorized("expired"), want: true},
		"Expired":        {err: apierrors.NewResourceExpired("too old")},
		"Back":           {err: apierrors.NewResourceExpired("too old"), before: true},
		"Ended":          {err: io.EOF},
		"Broken":         {err: fmt.Errorf("watch: %w", io.ErrUnexpectedEOF)},
		"EndedWhileAway": {err: io.EOF, before: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Agent{}
			a.hubTrouble.Store(tc.before)
			a.noteWatch(t.Context(), tc.err)
			if got := a.hubTrouble.Load(); got != tc.want {
				t.Errorf("trouble with the hub: %t, want %t", got, tc.want)
			}
		})
	}
}
