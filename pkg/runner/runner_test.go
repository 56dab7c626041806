package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
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
	// A certificate is self-signed.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
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
		Run: func(context.Context, <-chan struct{}) error {
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
	got := Run(t.Context(), o, Program{Name: "test", Ready: func() error { return nil }, Run: func(context.Context, <-chan struct{}) error { return want }})
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
	err = Run(t.Context(), o, Program{Name: "test", Ready: func() error { return nil }, Run: func(context.Context, <-chan struct{}) error {
		t.Error("the work began although health cannot be served")
		return nil
	}})
	if err == nil || !strings.Contains(err.Error(), "--health-address") {
		t.Errorf("Run: got %v, want an error that names --health-address", err)
	}
}

// TestSeparateAddresses: with KubeStellar's flags, each address serves what its flag names, and
// nothing else. One address may have several flags.
func TestSeparateAddresses(t *testing.T) {
	metrics, profiles := freeAddress(t), freeAddress(t)
	o := NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	args := []string{"--leader-elect=false", "--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + metrics, "--pprof-bind-address=" + profiles}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), o, Program{Name: "test", Ready: func() error { return nil }, Run: func(context.Context, <-chan struct{}) error {
		for url, want := range map[string]int{
			metrics + "/metrics": http.StatusOK, metrics + "/healthz": http.StatusOK, metrics + "/readyz": http.StatusOK, metrics + "/debug/pprof/": http.StatusNotFound,
			profiles + "/metrics": http.StatusNotFound, profiles + "/readyz": http.StatusNotFound, profiles + "/debug/pprof/": http.StatusOK,
		} {
			if got, _ := get(t, "http://"+url); got != want {
				t.Errorf("%s: got %d, want %d", url, got, want)
			}
		}
		return nil
	}})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	if usage := flags.FlagUsages(); strings.Contains(usage, "bind-address") {
		t.Errorf("help lists the flags of KubeStellar:\n%s", usage)
	}
}

// TestOneAddressInUse: no other address remains in use.
func TestOneAddressInUse(t *testing.T) {
	used, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	o := &Options{HealthAddress: freeAddress(t), metricsAddress: used.Addr().String()}
	if _, err := o.listen(t.Context()); err == nil || !strings.Contains(err.Error(), "--metrics-bind-address") {
		t.Errorf("listen: got %v, want an error that names --metrics-bind-address", err)
	}
	again, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", o.HealthAddress)
	if err != nil {
		t.Fatalf("the other address is still in use: %v", err)
	}
	again.Close()
}

func TestAlias(t *testing.T) {
	for _, args := range [][]string{{"--list=a,b"}, {"--other=a,b"}, {"--list=a", "--other=b"}} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		list := flags.StringSlice("list", []string{"default"}, "A list.")
		Alias(flags, "other", "list")
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b"}, *list); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
		if strings.Contains(flags.FlagUsages(), "other") {
			t.Errorf("help lists the alias:\n%s", flags.FlagUsages())
		}
	}
}
