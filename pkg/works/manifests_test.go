package works

import (
	"fmt"
	"sync"
	"testing"
)

// TestManifests reads more texts than the cache holds, each twice and several concurrently: a
// cached result equals what parsing the text again returns.
func TestManifests(t *testing.T) {
	const mostLately = 1000
	m := NewManifests(mostLately)
	textOf := func(i int) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"n%d","namespace":"web"}}`, i)
	}
	var reading sync.WaitGroup
	for worker := range 4 {
		reading.Go(func() {
			for i := worker; i < 2*mostLately+100; i += 2 { // two workers for each text
				if got, want := m.read(textOf(i)), readManifest(textOf(i)); got != want {
					t.Errorf("text %d: read %+v, want %+v", i, got, want)
					return
				}
			}
		})
	}
	reading.Wait()
	if n := m.known.Len(); n > mostLately {
		t.Errorf("%d texts are remembered, want at most %d", n, mostLately)
	}
	last := textOf(2*mostLately + 99)
	m.read(last) // a worker that was behind may have read as many others since
	if _, known := m.known.Get(m.key(last)); !known {
		t.Error("the last text is forgotten")
	}
	if _, known := m.known.Get(m.key([]byte("{}"))); known {
		t.Error("a text is known that was never read")
	}
}

func TestManifestsKeepWhatIsInUse(t *testing.T) {
	const mostLately = 1000
	m := NewManifests(mostLately)
	used := []byte(`{"kind":"ConfigMap","metadata":{"name":"used"}}`)
	m.read(used)
	for i := range 4 * mostLately {
		if i%(mostLately/2) == 0 {
			if _, known := m.known.Get(m.key(used)); !known {
				t.Fatalf("forgotten after %d others, though it is in use", i)
			}
		}
		m.read(fmt.Appendf(nil, `{"n":%d}`, i))
	}
}
