package space

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below the range from which Linux and macOS take the ports of outgoing
// connections: a listener that comes back after a restart must find its port free.
const (
	firstPort = 20000
	lastPort  = 32000
)

// loopback is the only address that anything of a fleet listens at.
const loopback = "127.0.0.1"

// portFree says whether a listener could use the port now.
func portFree(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(port))) //nolint:noctx // it does not wait
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// address is the listening address of a named port of the fleet. The port is chosen at the first
// call and stays.
func (s *State) address(name string) (string, error) {
	p, err := s.port(name)
	return net.JoinHostPort(loopback, strconv.Itoa(p)), err
}

// port returns the port of that name, chosen at the first call.
func (s *State) port(name string) (int, error) {
	if p, ok := s.Ports[name]; ok {
		return p, nil
	}
	if s.Ports == nil {
		s.Ports = map[string]int{}
	}
	taken := map[int]bool{}
	for _, p := range s.Ports {
		taken[p] = true
	}
	for range 1000 {
		p := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // a port is no secret
		if !taken[p] && portFree(p) {
			s.Ports[name] = p
			return p, nil
		}
	}
	return 0, fmt.Errorf("find a port for %s: no free port at %s between %d and %d", name, loopback, firstPort, lastPort)
}

// checkPorts makes sure that the recorded ports of a fleet that is down are free. A port that only
// the fleet itself uses is chosen anew; the address of an API server may stand in the user's files
// and stands in the credentials of the agents, so it must not change.
func (s *State) checkPorts() error {
	for name, p := range s.Ports {
		if portFree(p) {
			continue
		}
		if programOf(name) != programAPIServer {
			delete(s.Ports, name)
			continue
		}
		return fmt.Errorf("port %d of %s is in use by another program: "+
			"end that program (`ss -ltnp sport = :%d` shows it), then run `starling up` again", p, name, p)
	}
	return nil
}
