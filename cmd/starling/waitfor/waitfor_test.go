package waitfor

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestAnswers: a server answers if it serves, whatever certificates it has and wants. One that only
// accepts connections, as etcd does while it reads its data, does not.
func TestAnswers(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	mutual := func(version uint16) string {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	for _, test := range []struct {
		name, url string
		want      bool
	}{
		{"plain", plain.URL, true},
		{"secure", secure.URL, true},
		{"wants a certificate", mutual(tls.VersionTLS13), true},
		{"wants a certificate before it answers", mutual(tls.VersionTLS12), true},
		{"closed", closed.URL, false},
		{"silent", "https://" + silent.Addr().String(), false},
		{"no URL", "127.0.0.1:1:2", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.name == "silent" {
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			if got := answers(ctx, test.url); got != test.want {
				t.Errorf("answers(%s) = %t", test.url, got)
			}
		})
	}
}

// TestAny: it waits until one of them answers, and no longer than it may.
func TestAny(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	late := httptest.NewUnstartedServer(http.NotFoundHandler())
	late.Listener.Close()
	late.Listener = listener
	defer late.Close()
	servers := []string{"http://127.0.0.1:1", "https://" + listener.Addr().String()}

	Any(t.Context(), nil, time.Hour)
	Any(t.Context(), servers, time.Millisecond)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Any(t.Context(), servers, time.Hour)
	}()
	select {
	case <-ended:
		t.Error("it did not wait")
	case <-time.After(100 * time.Millisecond):
	}
	late.StartTLS()
	<-ended
}
