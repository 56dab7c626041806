package localfleet_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/test/testenv"
)

// processes maps the name of each component to its process.
func processes(t *testing.T, f *testenv.Fleet) map[string]int {
	t.Helper()
	pids := map[string]int{}
	for _, c := range f.Status(t).Components {
		pids[c.Name] = c.PID
	}
	return pids
}

func TestUpOnARunningFleetChangesNothing(t *testing.T) {
	f := testenv.Shared(t)
	before := processes(t, f)
	out, err := f.Up()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "is running") {
		t.Errorf("up says %q", out)
	}
	if diff := cmp.Diff(before, processes(t, f)); diff != "" {
		t.Errorf("processes (-before +after):\n%s", diff)
	}
}

// TestLifecycle runs the commands of a user on one small fleet, also when something is wrong.
func TestLifecycle(t *testing.T) { //nolint:tparallel // each step depends on the one before
	t.Parallel()
	f := testenv.Start(t, testenv.Options{Spaces: []string{"wds1"}})
	f.Kubectl(t, "wds1", "create", "namespace", "kept")
	server := f.Component(t, "wds1/kube-apiserver")
	version := filepath.Join(f.Dir, "fleet.json")

	t.Run("grows", func(t *testing.T) {
		if _, err := f.Up("--wecs", "1"); err != nil {
			t.Fatal(err)
		}
		if now := f.Component(t, "wds1/kube-apiserver"); now.PID != server.PID {
			t.Error("the API server of wds1 was restarted")
		}
		f.Kubectl(t, "cluster1", "get", "namespaces")
	})
	t.Run("goes down", func(t *testing.T) {
		if _, err := f.Run("down"); err != nil {
			t.Fatal(err)
		}
		if left := processesOf(t, f); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		if out, err := f.Run("down"); err != nil || !strings.Contains(out, "not running") {
			t.Errorf("down twice: %q, %v", out, err)
		}
	})
	t.Run("refuses a port in use", func(t *testing.T) {
		l, err := net.Listen("tcp", server.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(server.Address)
		if err != nil {
			t.Fatal(err)
		}
		wantFailure(t, f, nil, "another program uses port "+port+` of "wds1/kube-apiserver"`)
	})
	t.Run("refuses a full disk", func(t *testing.T) {
		wantFailure(t, f, []string{"--min-disk", "1000000000"}, "not enough disk space")
	})
	t.Run("refuses another version", func(t *testing.T) {
		data, err := os.ReadFile(version)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.WriteFile(version, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}()
		var state map[string]any
		if err := json.Unmarshal(data, &state); err != nil {
			t.Fatal(err)
		}
		state["layout"], state["version"] = 99, "v9.9.9"
		changed, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(version, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		wantFailure(t, f, nil, "was created by Starling v9.9.9")
	})
	t.Run("names a child that keeps dying", func(t *testing.T) {
		data := filepath.Join(f.Dir, "etcd", "data")
		if err := os.Rename(data, data+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(data, nil, 0o600); err != nil { // a file where etcd needs a directory
			t.Fatal(err)
		}
		wantFailure(t, f, nil, `start component "etcd"`, "before it was ready", filepath.Join("logs", "etcd.log"))
		if left := processesOf(t, f); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		if err := os.Remove(data); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(data+".away", data); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("comes back with its data, at its address", func(t *testing.T) {
		if _, err := f.Up(); err != nil {
			t.Fatal(err)
		}
		f.Kubectl(t, "wds1", "get", "namespace", "kept")
		if now := f.Component(t, "wds1/kube-apiserver"); now.Address != server.Address {
			t.Errorf("address: was %s, is %s", server.Address, now.Address)
		}
	})
	t.Run("has no rights for others", func(t *testing.T) {
		other := testenv.Shared(t)
		for _, c := range f.Components(t) {
			for _, o := range other.Components(t) {
				if c.Address == o.Address {
					t.Errorf("%s and the other fleet's %s have one address", c.Name, o.Name)
				}
			}
		}
		if out, err := other.Run("kubectl", "--", "--context", "wds1", "get", "namespace", "kept"); err == nil {
			t.Errorf("the namespace is in the other fleet too: %s", out)
		}
	})
}

// wantFailure runs up, and checks that it prints one error with these texts.
func wantFailure(t *testing.T, f *testenv.Fleet, args []string, wants ...string) {
	t.Helper()
	_, err := f.Up(args...)
	if err == nil {
		t.Fatal("up succeeded")
	}
	text := err.Error()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\nerror: "); n != 1 {
		t.Errorf("want one error, got %d:\n%s", n, text)
	}
}

func TestLogs(t *testing.T) {
	f := testenv.Shared(t)
	if out, err := f.Run("logs", "cluster1/klusterlet"); err != nil || out == "" {
		t.Errorf("logs cluster1/klusterlet: %d bytes, %v", len(out), err)
	}
	for name, want := range map[string]string{
		"nothing":        `component "nothing" not found`,
		"kube-apiserver": "its1/kube-apiserver",
	} {
		if _, err := f.Run("logs", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("logs %s: want %q, got %v", name, want, err)
		}
	}
}

func TestStatus(t *testing.T) {
	f := testenv.Shared(t)
	for _, format := range []string{"json", "yaml", "wide"} {
		out, err := f.Run("status", "-o", format)
		if err != nil {
			t.Error(err)
		}
		if !strings.Contains(out, "kube-apiserver") || !strings.Contains(out, "cluster1") {
			t.Errorf("status -o %s: %s", format, out)
		}
	}
	st := f.Status(t)
	if st.Memory.RSS == 0 || !st.Ready() {
		t.Errorf("memory %d, ready %t", st.Memory.RSS, st.Ready())
	}
	for _, c := range st.Components {
		if c.State != localfleet.StateReady {
			t.Errorf("%s is %s", c.Name, c.State)
		}
	}
	if _, err := f.Run("status", "-o", "nonsense"); err == nil || !strings.Contains(fmt.Sprint(err), "exit status 2") {
		t.Errorf("status -o nonsense: %v", err)
	}
}
