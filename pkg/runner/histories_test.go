//go:build !race

package runner

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneActs: whatever happens to networks and processes, at most one process acts for each Lease.
// When all is well again, one acts soon: of two that hold some of their Leases, one may wait for a
// Lease of the other.
//
// It is not run with the race detector, which ends such long histories of bubbles with SIGSEGV:
// https://go.dev/issue/78156.
func TestOneActs(t *testing.T) {
	sets := [][]string{{"a", "b", "c"}, {"a", "b", "c"}, {"b"}, {"a", "c"}}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c := newCluster(t)
			var ended []*process
			processes := make([]*process, len(sets))
			start := func(i int) {
				windUp := time.Duration(random.Int64N(int64(leaseDuration - giveUp - 100*time.Millisecond)))
				processes[i] = c.start(c.connect(rand.New(rand.NewPCG(seed, random.Uint64()))), windUp, sets[i]...)
			}
			for i := range sets {
				start(i)
			}
			led := 0
			for range 200 {
				time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
				i := random.IntN(len(sets))
				switch p := processes[i]; random.IntN(12) {
				case 0:
					c.kill(p)
				case 1:
					p.cancel()
				case 3, 4, 5:
					p.set([]state{refuse, lose, mute, slow}[random.IntN(4)])
				default:
					p.set(up)
				}
				for i, p := range processes {
					if isClosed(p.ended) {
						if isClosed(p.leads) {
							led++
						}
						ended = append(ended, p)
						start(i)
					}
				}
			}
			for _, p := range processes {
				p.set(up)
			}
			time.Sleep(3 * leaseDuration)
			c.mu.Lock()
			if len(c.acting) == 0 {
				t.Errorf("seed %d: no process acts", seed)
			}
			c.mu.Unlock()
			for _, p := range slices.Concat(processes, ended) {
				p.cancel()
				<-p.ended
			}
			if t.Failed() {
				t.Logf("seed %d; %d processes led", seed, led)
			}
		})
	}
}
