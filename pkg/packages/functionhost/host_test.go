package functionhost_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/packages/functionhost"
	"github.com/starlinghq/starling/test/testenv"
)

const image = "example.com/f:v1"

// host serves a program of the shell, and returns a client of it.
func host(t *testing.T, script string, timeout time.Duration, maxBytes int64) *functionhost.Client {
	t.Helper()
	server := httptest.NewServer(functionhost.NewServer([]string{"/bin/sh", "-c", script, "name"}, 1, timeout, maxBytes))
	t.Cleanup(server.Close)
	client, err := functionhost.NewClient(map[string]string{image: server.URL}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		script, in string
		want       functions.Container
		wantErr    string
	}{
		"Output":      {"sed s/a/b/; echo note >&2", "a: a\n", functions.Container{Stdout: "b: a\n", Stderr: "note\n"}, ""},
		"Exit":        {"echo out; echo why >&2; exit 7", "", functions.Container{Stdout: "out\n", Stderr: "why\n", ExitCode: 7}, ""},
		"Signal":      {"kill -9 $$", "", functions.Container{ExitCode: 1}, ""},
		"Environment": {"env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= | sort", "", functions.Container{Stdout: "HOME=/tmp\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nTMPDIR=/tmp\n"}, ""},
		"Directory":   {"pwd", "", functions.Container{Stdout: "/\n"}, ""},
		"NoInput":     {"echo done", strings.Repeat("x", 1000), functions.Container{Stdout: "done\n"}, ""},
		"MuchOutput":  {"head -c 2000 /dev/zero", "", functions.Container{}, "its host: the program wrote more than 1024 bytes"},
		"MuchStderr":  {"head -c 200000 /dev/zero | tr '\\0' x >&2", "", functions.Container{Stderr: strings.Repeat("x", 64<<10)}, ""},
		"MuchInput":   {"cat", strings.Repeat("x", 2000), functions.Container{}, "its host: read the input: http: request body too large"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := host(t, tc.script, testenv.Patience, 1024).Run(t.Context(), image, tc.in)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("%v, want %s", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestRunEnds: a program that does not end is killed, with all that it has started, and so is one
// whose request is cancelled.
func TestRunEnds(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	script := fmt.Sprintf("sleep 1000 & echo $! >%s; wait", started)
	child := func() string {
		t.Helper()
		var pid string
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			text, err := os.ReadFile(started)
			pid = strings.TrimSpace(string(text))
			return pid != "", fmt.Sprint(err)
		})
		return pid
	}
	gone := func(pid string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z "), "process " + pid + " is there"
		})
	}
	if _, err := host(t, script, 300*time.Millisecond, 1024).Run(t.Context(), image, ""); err == nil || !strings.Contains(err.Error(), "the program took longer than 300ms") {
		t.Error(err)
	}
	gone(child())
	if err := os.Remove(started); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	client := host(t, script, testenv.Patience, 1024)
	go func() {
		_, err := client.Run(ctx, image, "")
		ended <- err
	}()
	pid := child()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	gone(pid)
}

func TestClient(t *testing.T) {
	answers := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, tc := range map[string]struct{ image, url, want string }{
		"NotListed": {"example.com/g:v1", answers(200, "{}"), functionhost.ErrNotListed.Error()},
		"Away":      {image, "http://127.0.0.1:1", "its host does not answer: "},
		"NotAHost":  {image, answers(200, "hello"), "its host does not answer with the result of a function"},
		"Large":     {image, answers(200, `{"stdout":"`+strings.Repeat("x", 2000)+`"}`), "its host answers with more than 1024 bytes"},
		"Fails":     {image, answers(500, "no program\n"), "its host: no program"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := functionhost.NewClient(map[string]string{image: tc.url}, 1024)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = client.Run(t.Context(), tc.image, ""); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
	for _, wrong := range []string{"", "host:8080", "ftp://host", "http://"} {
		if _, err := functionhost.NewClient(map[string]string{image: wrong}, 1024); err == nil {
			t.Errorf("%q is a URL", wrong)
		}
	}
	server := functionhost.NewServer([]string{"/bin/true"}, 1, time.Second, 10)
	for path, want := range map[string]int{"/healthz": 200, "/run": 405, "/other": 404} {
		got := httptest.NewRecorder()
		server.ServeHTTP(got, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if got.Code != want {
			t.Errorf("%s: %d, want %d", path, got.Code, want)
		}
	}
}
