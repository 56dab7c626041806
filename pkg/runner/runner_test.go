package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freeAddress returns a loopback address that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestHealth(t *testing.T) {
	o := NewOptions()
	o.LeaderElect = false
	o.HealthAddress = freeAddress(t)
	notReady := errors.New("bindingpolicies are missing")
	ready := make(chan error, 1)
	ready <- notReady
	err := Run(t.Context(), o, Program{
		Name: "test",
		Ready: func() error {
			err := <-ready
			ready <- err
			return err
		},
		Run: func(context.Context) error {
			base := "http://" + o.HealthAddress
			if code, _ := get(t, base+"/healthz"); code != http.StatusOK {
				t.Errorf("/healthz: got %d", code)
			}
			if code, body := get(t, base+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, notReady.Error()) {
				t.Errorf("/readyz while not ready: got %d %q", code, body)
			}
			<-ready
			ready <- nil
			if code, _ := get(t, base+"/readyz"); code != http.StatusOK {
				t.Errorf("/readyz while ready: got %d", code)
			}
			if code, body := get(t, base+"/metrics"); code != http.StatusOK || !strings.Contains(body, "go_goroutines") {
				t.Errorf("/metrics: got %d with %d bytes", code, len(body))
			}
			if code, _ := get(t, base+"/debug/pprof/"); code != http.StatusNotFound {
				t.Errorf("profiles are served without having been asked for: got %d", code)
			}
			return nil
		},
	})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunReturnsTheErrorOfTheWork(t *testing.T) {
	o := NewOptions()
	o.LeaderElect = false
	o.HealthAddress = freeAddress(t)
	want := errors.New("broken")
	got := Run(t.Context(), o, Program{Name: "test", Ready: func() error { return nil }, Run: func(context.Context) error { return want }})
	if !errors.Is(got, want) {
		t.Errorf("Run: got %v, want %v", got, want)
	}
}

func TestAddressInUseIsOneClearError(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	o := NewOptions()
	o.LeaderElect = false
	o.HealthAddress = listener.Addr().String()
	err = Run(t.Context(), o, Program{Name: "test", Ready: func() error { return nil }, Run: func(context.Context) error {
		t.Error("the work began although health cannot be served")
		return nil
	}})
	if err == nil || !strings.Contains(err.Error(), "--health-address") {
		t.Errorf("Run: got %v, want an error that names --health-address", err)
	}
}
