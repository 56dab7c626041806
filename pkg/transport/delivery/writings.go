package delivery

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// writings are the last write to each work. They distinguish an edit by somebody else, which is
// corrected, from an ITS that changes what is written to it, by an admission webhook for example:
// that would be corrected forever. It is safe for concurrent use.
type writings struct {
	mu   sync.Mutex
	last map[types.UID]writing
}

// writing is a write and its result.
type writing struct {
	generation int64
	recorded   transform.Hash
	// after is the hash of what the work was to hold, with the options.
	after uint64
}

func (w *writings) note(r plugin.Receipt, a *plan.Action) {
	if r.Recorded == (transform.Hash{}) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.UID]writing{}
	}
	w.last[r.UID] = writing{generation: r.Generation, recorded: r.Recorded, after: sum(a.After)}
}

func (w *writings) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, uid)
}

// sift returns the actions without those that would repeat the write that led to the present
// generation of a work, and a text for each of the latter.
func (w *writings) sift(actions []plan.Action) (kept []plan.Action, texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept = slices.DeleteFunc(actions, func(a plan.Action) bool {
		last, ok := w.last[a.UID]
		futile := ok && a.Verb == plan.Patch && a.Reason == plan.ReasonRepair &&
			last.generation == a.Generation && last.recorded == a.Recorded && last.after == sum(a.After)
		if futile {
			texts = append(texts, "work "+a.Name+": the ITS changes what is written to it, by an admission webhook for example. It is not written again")
		}
		return futile
	})
	return kept, texts
}

// sum returns a hash of what a work holds after a write.
func sum(entries []plan.Entry) uint64 {
	h := fnv.New64a()
	for i := range entries {
		e := &entries[i]
		_, _ = h.Write(e.Hash[:])
		_, _ = fmt.Fprint(h, e.Ref, e.Options)
	}
	return h.Sum64()
}
