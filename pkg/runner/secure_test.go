package runner

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

// TestGuard: only a client that is known and allowed is let through, and an error lets nobody
// through.
func TestGuard(t *testing.T) {
	broken := errors.New("the cluster does not respond")
	for name, c := range map[string]struct {
		known    bool
		whoErr   error
		decision authorizer.Decision
		mayErr   error
		want     int
	}{
		"unknown":             {want: http.StatusUnauthorized},
		"cannot authenticate": {whoErr: broken, want: http.StatusUnauthorized},
		"known with an error": {known: true, whoErr: broken, decision: authorizer.DecisionAllow, want: http.StatusUnauthorized},
		"denied":              {known: true, decision: authorizer.DecisionDeny, want: http.StatusForbidden},
		"no opinion":          {known: true, decision: authorizer.DecisionNoOpinion, want: http.StatusForbidden},
		"cannot authorize":    {known: true, decision: authorizer.DecisionNoOpinion, mayErr: broken, want: http.StatusInternalServerError},
		"allowed":             {known: true, decision: authorizer.DecisionAllow, want: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			var asked authorizer.Attributes
			g := &guard{
				who: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
					return &authenticator.Response{User: &user.DefaultInfo{Name: "prometheus"}}, c.known, c.whoErr
				}),
				may: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
					asked = a
					return c.decision, "", c.mayErr
				}),
				next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			}
			response := httptest.NewRecorder()
			g.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics?name=go_goroutines", http.NoBody))
			if response.Code != c.want {
				t.Errorf("got %d %q, want %d", response.Code, response.Body, c.want)
			}
			if asked == nil {
				return
			}
			got := []any{asked.GetUser().GetName(), asked.GetVerb(), asked.GetPath(), asked.IsResourceRequest()}
			if diff := cmp.Diff([]any{"prometheus", "get", "/metrics", false}, got); diff != "" {
				t.Errorf("authorized (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCertificateIsRenewed: a connection gets the certificate that is in the files at that time.
func TestCertificateIsRenewed(t *testing.T) {
	o := &secureOptions{certDir: t.TempDir()}
	if _, err := o.certificate(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without files: got %v, want %v", err, os.ErrNotExist)
	}
	writeCertificate(t, o.certDir, "first")
	get, err := o.certificate()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second"} {
		writeCertificate(t, o.certDir, want)
		pair, err := get(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := certificate.VerifyHostname(want); err != nil {
			t.Error(err)
		}
	}
}

func writeCertificate(t *testing.T, dir, host string) {
	t.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMetricsAreNotOpenToo: an address for metrics over TLS closes them at the other one. Where
// metrics cannot be protected, nothing is served.
func TestMetricsAreNotOpenToo(t *testing.T) {
	o := NewOptions()
	o.LeaderElect, o.Pprof = false, true
	o.HealthAddress, o.secure.address, o.secure.kubeconfig = freeAddress(t), freeAddress(t), nobody(t)
	err := Run(t.Context(), o, Program{Name: "test", Ready: func() error { return nil }, Run: func(context.Context, <-chan struct{}) error {
		for path, want := range map[string]int{
			"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusNotFound, "/debug/pprof/": http.StatusNotFound,
		} {
			if got, _ := get(t, "http://"+o.HealthAddress+path); got != want {
				t.Errorf("%s: got %d, want %d", path, got, want)
			}
		}
		for _, path := range []string{"/metrics", "/debug/pprof/", "/healthz"} {
			if got, _ := get(t, "https://"+o.secure.address+path); got != http.StatusUnauthorized {
				t.Errorf("%s over TLS without a token: got %d", path, got)
			}
		}
		return nil
	}})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
	o.secure.kubeconfig = filepath.Join(t.TempDir(), "missing")
	if _, err := o.listen(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("listen: got %v, want %v", err, os.ErrNotExist)
	}
	again, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", o.HealthAddress)
	if err != nil {
		t.Fatalf("the address is in use: %v", err)
	}
	again.Close()
}

// nobody returns a kubeconfig of a cluster that does not respond.
func nobody(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["nobody"] = &clientcmdapi.Cluster{Server: "https://" + freeAddress(t)}
	config.Contexts["nobody"], config.CurrentContext = &clientcmdapi.Context{Cluster: "nobody"}, "nobody"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
