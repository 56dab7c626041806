package directory

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/starlinghq/starling/pkg/core/plan"
)

// unmount has the space vanish, as a disk does that is taken away: its directory is there, and
// empty. It returns how to get it back.
func unmount(t *testing.T, root string) (mount func()) {
	t.Helper()
	do := func(errs ...error) {
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
	do(os.Rename(root, root+"-away"), os.Mkdir(root, 0o700))
	return func() { do(os.Remove(root), os.Rename(root+"-away", root)) }
}

// TestNothingIsGoneWithTheDisk: a work on a disk that is not there cannot be deleted.
func TestNothingIsGoneWithTheDisk(t *testing.T) {
	p, r := newPlugin(t)
	deliver(t, p, r, settings(t, "one"))
	work := r.of("edge1")[0]
	remove := plan.Action{Verb: plan.Delete, Mailbox: "edge1", Name: work.Name, Wave: work.Wave, UID: work.UID, Generation: work.Generation, Recorded: work.Recorded}
	mount := unmount(t, p.config.Directory)
	if _, err := p.Do(t.Context(), origin, &remove); err == nil || len(r.works) != 1 {
		t.Errorf("while the disk is away: error %v, %d works are reported", err, len(r.works))
	}
	mount()
	look(t, p)
	if _, err := p.Do(t.Context(), origin, &remove); err != nil || len(r.works) != 0 {
		t.Errorf("when it is back: error %v, %d works are reported", err, len(r.works))
	}
	if _, err := os.Stat(filepath.Join(p.config.Directory, "edge1", baseName(work.Wave, work.Name))); !os.IsNotExist(err) {
		t.Errorf("the file exists: %v", err)
	}
}

// TestDiskGoesWhileItIsLookedAt: at whatever moment.
func TestDiskGoesWhileItIsLookedAt(t *testing.T) {
	p, r := newPlugin(t)
	deliver(t, p, r, settings(t, "one"))
	done := make(chan struct{})
	var going sync.WaitGroup
	going.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				unmount(t, p.config.Directory)()
			}
		}
	})
	for range 3000 {
		_ = p.scan() // it mostly fails
		if len(r.works) != 1 || !r.destinations["edge1"] {
			t.Error("a work or a mailbox went with the disk")
			break
		}
	}
	close(done)
	going.Wait()
}

// TestWhatWasCutOff: a write that never ended leaves nothing for long, and what others put there
// stays.
func TestWhatWasCutOff(t *testing.T) {
	p, _ := newPlugin(t)
	mailbox := filepath.Join(p.config.Directory, "edge1")
	old, young, foreign := filepath.Join(mailbox, temporary+"1"), filepath.Join(mailbox, temporary+"2"), filepath.Join(mailbox, ".tmp-1")
	for _, path := range []string{old, young, foreign} {
		write(t, path, "x")
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	for _, path := range []string{old, foreign} {
		if err := os.Chtimes(path, yesterday, yesterday); err != nil {
			t.Fatal(err)
		}
	}
	look(t, p)
	for path, want := range map[string]bool{old: false, young: true, foreign: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %t, want %t", filepath.Base(path), err == nil, want)
		}
	}
}

// TestLinksLeadNowhere: what a carrier put there does not make us read what is elsewhere.
func TestLinksLeadNowhere(t *testing.T) {
	p, r := newPlugin(t)
	elsewhere := filepath.Join(t.TempDir(), "secret.yaml")
	write(t, elsewhere, "password: hunter2\n")
	if err := os.Symlink(elsewhere, filepath.Join(p.config.Directory, "edge1", propertiesFile)); err != nil {
		t.Fatal(err)
	}
	if err := p.scan(); err == nil || r.properties["edge1"] != nil {
		t.Errorf("look() = %v, properties %v: the link was followed", err, r.properties["edge1"])
	}
}
