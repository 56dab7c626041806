package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"k8s.io/component-base/metrics/legacyregistry"
)

// endpoints is what one address serves.
type endpoints struct {
	probes, metrics, profiles bool
}

// listener is an address that a program listens at.
type listener struct {
	// flag is the first flag that has the address.
	flag, address string
	endpoints
	// guard, if not nil, lets only some clients through, over TLS.
	guard    *guard
	listener net.Listener
}

// addresses returns what the flags ask to serve, one entry for each address.
func (o *Options) addresses() []*listener {
	var all []*listener
	add := func(flag, address string, serve endpoints) {
		if address == "" {
			return
		}
		for _, l := range all {
			if l.address == address {
				l.probes, l.metrics, l.profiles = l.probes || serve.probes, l.metrics || serve.metrics, l.profiles || serve.profiles
				return
			}
		}
		all = append(all, &listener{flag: flag, address: address, endpoints: serve})
	}
	open := o.secure.address == ""
	add("--health-address", o.HealthAddress, endpoints{probes: true, metrics: open, profiles: open && o.Pprof})
	add("--metrics-bind-address", o.metricsAddress, endpoints{metrics: true})
	add("--health-probe-bind-address", o.probeAddress, endpoints{probes: true})
	add("--pprof-bind-address", o.profileAddress, endpoints{profiles: true})
	return all
}

// listen listens at all addresses. The program does this before all else, so that it fails before
// it changes anything if an address is in use.
func (o *Options) listen(ctx context.Context) ([]*listener, error) {
	all := o.addresses()
	if o.secure.address != "" {
		guard, err := o.secure.newGuard()
		if err != nil {
			return nil, err
		}
		all = append(all, &listener{
			flag: "--" + secureFlag, address: o.secure.address, guard: guard, endpoints: endpoints{metrics: true, profiles: o.Pprof},
		})
	}
	for i, l := range all {
		var err error
		if l.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", l.address); err != nil {
			err = fmt.Errorf("serve at %s %q: %w", l.flag, l.address, err)
			for _, open := range all[:i] {
				err = errors.Join(err, open.listener.Close())
			}
			return nil, err
		}
		if l.guard != nil {
			l.listener = tls.NewListener(l.listener, l.guard.tls)
		}
	}
	return all, nil
}

// handler returns the handler of all that is served at the address.
func (l *listener) handler(ready func() error) http.Handler {
	handler := l.endpoints.handler(ready)
	if l.guard == nil {
		return handler
	}
	l.guard.next = handler
	return l.guard
}

// handler returns the handler of the endpoints. The function returns nil if the program is ready.
func (e endpoints) handler(ready func() error) http.Handler {
	mux := http.NewServeMux()
	if e.probes {
		mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
			if err := ready(); err != nil {
				http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		})
	}
	if e.metrics {
		mux.Handle("/metrics", legacyregistry.Handler())
	}
	if e.profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
