package testenv

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Address returns a loopback address for a program that is about to be started. Its port is below
// those of outgoing connections: of a port that a listener got from the kernel and closed, an
// outgoing connection may have become the user before the program listens, or while it restarts.
// Local fleets use other ports (see package localfleet).
func Address(t testing.TB) string {
	t.Helper()
	const first, last, tries = 10_000, 20_000, 1000
	for range tries {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first)))
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", address)
		if err != nil {
			continue // in use
		}
		listener.Close()
		return address
	}
	t.Fatalf("no free port between %d and %d", first, last)
	return ""
}
