package cli

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := startProgress(&out, true, "pushing %s", "web")
		time.Sleep(progressDelay - time.Millisecond)
		synctest.Wait()
		p.mu.Lock() // the goroutine writes later
		if out.Len() > 0 {
			t.Errorf("said too early: %q", out.String())
		}
		p.mu.Unlock()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		p.set("rendering %s", "web")
		time.Sleep(time.Second)
		synctest.Wait()
		p.writeAbove(func() { fmt.Fprintln(&out, "done") })
		p.stop()
		p.stop()
		time.Sleep(time.Minute)
		const want = eraseLine + "pushing web … 2s" + eraseLine + "rendering web … 3s" + eraseLine + "done\n"
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}

// Fast commands, and output that is not a terminal, have no progress line.
func TestNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		startProgress(&out, true, "quick").stop()
		p := startProgress(&out, false, "slow")
		time.Sleep(time.Minute)
		p.writeAbove(func() { fmt.Fprintln(&out, "done") })
		p.stop()
		if out.String() != "done\n" {
			t.Errorf("said %q", out.String())
		}
	})
}
