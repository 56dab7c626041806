package testenv

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// KillAfter starts a program of Starling, which connects through the Proxy, and kills it when the
// API server has carried out the n-th write that matches, as for CrashAfter. The function that it
// returns blocks until then, and fails the test if the program ends in another way.
func (p *Proxy) KillAfter(t testing.TB, write string, n int, program string, args ...string) (wait func()) {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(filepath.Dir(binary), program), args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	ended := make(chan struct{})
	kill := func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.CrashAfter(write, n, kill)
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(kill)
	return func() {
		t.Helper()
		select {
		case <-ended:
			if cmd.ProcessState.Exited() {
				t.Fatalf("%s ended by itself:\n%s", program, &log)
			}
		case <-time.After(Patience):
			kill()
			t.Fatalf("%s did not write %s:\n%s", program, write, &log)
		}
	}
}
