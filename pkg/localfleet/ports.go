package localfleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Ports are chosen below the ephemeral port range of Linux and macOS. Otherwise an outgoing
// connection could use the port of a component while the component restarts.
const (
	firstPort = 20000
	lastPort  = 32000
)

// loopback is the only address at which components of a fleet listen.
const loopback = "127.0.0.1"

// portFree reports whether a listener could use the port now.
func portFree(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port))) //nolint:noctx // it does not block
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// address returns the address of a component, whose port must have been chosen.
func (s *State) address(component string) string {
	return net.JoinHostPort(loopback, strconv.Itoa(s.Ports[component]))
}

// choosePorts chooses a free port for each of the components that has none. The state keeps the
// ports. It chooses none of those that are taken.
func (s *State) choosePorts(components []string, taken map[int]bool) error {
	if s.Ports == nil {
		s.Ports = map[string]int{}
	}
	for _, name := range components {
		for tries := 0; s.Ports[name] == 0; tries++ {
			if tries == 1000 {
				return fmt.Errorf("choose port of %q: no free port found on %s between %d and %d", name, loopback, firstPort, lastPort)
			}
			p := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // a port is no secret
			if !taken[p] && !slices.Contains(slices.Collect(maps.Values(s.Ports)), p) && portFree(p) {
				s.Ports[name] = p
			}
		}
	}
	return nil
}

// checkPorts returns an error if another program uses the port of an API server of a fleet that
// does not run. This port must not change: it is in the credentials of the agents, and maybe in
// files of the user. Other ports that are in use are removed from the state, so that new ones are
// chosen.
func (s *State) checkPorts() error {
	for name, p := range s.Ports {
		if portFree(p) {
			continue
		}
		if programOf(name) == programAPIServer {
			return fmt.Errorf("another program uses port %d of %q. End that program and run \"starling up\" again; "+
				"to show it, run: ss -ltnp sport = :%d", p, name, p)
		}
		delete(s.Ports, name)
	}
	return nil
}
