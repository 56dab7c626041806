package secrets

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestWaitForHost(t *testing.T) {
	for name, tc := range map[string]struct {
		failures int32
		timeout  time.Duration
		want     string
	}{
		"Ready":       {timeout: time.Minute},
		"LaterReady":  {failures: 2, timeout: time.Minute},
		"NeverReady":  {failures: 1000, timeout: time.Second, want: "connect to the hosting cluster: no response within 1s"},
		"NoTimeAtAll": {failures: 1000, timeout: time.Millisecond, want: "connect to the hosting cluster: no response within 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if requests.Add(1) <= tc.failures {
					panic(http.ErrAbortHandler) // the connection breaks
				}
				_, _ = w.Write([]byte("{}"))
			}))
			defer server.Close()
			hosting, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			err = WaitForHost(t.Context(), hosting, tc.timeout)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if tc.want == "" && requests.Load() != tc.failures+1 {
				t.Errorf("%d requests, want %d", requests.Load(), tc.failures+1)
			}
		})
	}
}
