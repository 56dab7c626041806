package plugin

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
		p := StartProgress(&out, true, "pushing %s", "web")
		time.Sleep(progressDelay - time.Millisecond)
		synctest.Wait()
		p.mu.Lock() // the goroutine writes later
		if out.Len() > 0 {
			t.Errorf("said too early: %q", out.String())
		}
		p.mu.Unlock()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		p.Set("rendering %s", "web\x1b[31m")
		time.Sleep(time.Second)
		synctest.Wait()
		p.WriteAbove(func() { fmt.Fprintln(&out, "done") })
		p.Stop()
		p.Stop()
		time.Sleep(time.Minute)
		const want = eraseLine + "pushing web … 2s" + eraseLine + "rendering web^[[31m … 3s" + eraseLine + "done\n"
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}

// Fast commands, and output that is not a terminal, have no progress line.
func TestNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		StartProgress(&out, true, "quick").Stop()
		p := StartProgress(&out, false, "slow")
		time.Sleep(time.Minute)
		p.WriteAbove(func() { fmt.Fprintln(&out, "done") })
		p.Stop()
		if out.String() != "done\n" {
			t.Errorf("said %q", out.String())
		}
	})
}

// A log file has a line for each text, and none for a command that is fast.
func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		StartProgressLines(&out, false, "quick").Stop()
		p := StartProgressLines(&out, false, "reading")
		time.Sleep(time.Minute)
		synctest.Wait()
		p.Set("waiting for %s", "b")
		time.Sleep(time.Minute)
		synctest.Wait()
		p.Stop()
		if want := "reading\nwaiting for b\n"; out.String() != want {
			t.Errorf("said %q, want %q", out.String(), want)
		}
	})
}
