package binding

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharedReads: each caller receives what was read after it called, and callers that wait share
// a read.
func TestSharedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared[time.Time]()
		reads := 0
		read := func() (time.Time, error) {
			reads++
			now := time.Now()
			time.Sleep(time.Second) // of the bubble
			return now, nil
		}
		var callers sync.WaitGroup
		call := func() {
			callers.Go(func() {
				called := time.Now()
				if got, err := s.read(t.Context(), read); err != nil || got.Before(called) {
					t.Errorf("called at %v, read at %v, error %v", called, got, err)
				}
			})
		}
		call()
		time.Sleep(100 * time.Millisecond)
		for range 5 {
			call() // while the first read runs, which may be too old for them
		}
		callers.Wait()
		if reads != 2 {
			t.Errorf("%d reads", reads)
		}
		if _, err := s.read(t.Context(), func() (time.Time, error) { return time.Time{}, errors.New("no answer") }); err == nil {
			t.Error("an earlier read is returned for one that failed")
		}
		call()
		callers.Wait()
		if reads != 3 {
			t.Errorf("%d reads after one that failed", reads)
		}
	})
}
