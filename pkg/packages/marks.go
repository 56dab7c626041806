package packages

import (
	"maps"
	"sync"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/merge"
)

// marks remembers packages with their merge comments: an upstream is cloned many times, and to find the places for the comments is most
// of the work of a clone. The zero value is ready to use.
type marks struct {
	mu    sync.Mutex
	known map[string]kptpkg.Files
	// order are the digests as they came, the oldest first.
	order []string
	size  int
}

// marksSize is how many bytes are remembered.
const marksSize = 16 << 20

// add adds merge comments to a clone of the content of that digest, which differs from it in its Kptfile only.
func (m *marks) add(digest string, files kptpkg.Files) kptpkg.Files {
	kptfile := merge.AddMergeComments(kptpkg.Files{kptpkg.KptfileName: files[kptpkg.KptfileName]})
	m.mu.Lock()
	marked, known := m.known[digest]
	m.mu.Unlock()
	if !known {
		marked = merge.AddMergeComments(files)
		m.remember(digest, marked)
	}
	marked = maps.Clone(marked)
	maps.Copy(marked, kptfile)
	return marked
}

func (m *marks) remember(digest string, files kptpkg.Files) {
	size := files.Size()
	if size > marksSize/2 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.known[digest]; known {
		return // somebody else was faster
	}
	if m.known == nil {
		m.known = map[string]kptpkg.Files{}
	}
	m.known[digest] = files
	m.order = append(m.order, digest)
	for m.size += size; m.size > marksSize; {
		oldest := m.order[0]
		m.order = m.order[1:]
		m.size -= m.known[oldest].Size()
		delete(m.known, oldest)
	}
}
