package worker

import (
	"container/heap"
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
)

// NewNewestFirst is New for keys of which some changed later than others: the key that changed last
// and the key that has waited longest take turns. So a change does not wait for many keys that were
// added before it, and no key waits forever.
//
// The function changed returns a number that is larger for a later change. It is called whenever
// the key is added, with the queue locked: it must not block, and must not call the queue.
func NewNewestFirst[K comparable](config Config, sync func(context.Context, K) (Result, error), changed func(K) uint64) *Queue[K] {
	return newQueue(config, sync, newNewest(changed))
}

// newest is the order of the keys of a Queue of NewNewestFirst.
type newest[K comparable] struct {
	changed func(K) uint64
	keys    map[K]*waiting[K]
	byTime  changes[K]
	// arrived has the keys in the order in which they were added. Those that were taken are dropped
	// when they are met or become many.
	arrived []*waiting[K]
	// oldest says that the turn is that of the key that has waited longest.
	oldest bool
}

// waiting is a key that waits.
type waiting[K comparable] struct {
	key     K
	changed uint64
	// at is the place in the heap, -1 for a key that was taken.
	at int
}

var _ workqueue.Queue[int] = &newest[int]{}

func newNewest[K comparable](changed func(K) uint64) *newest[K] {
	return &newest[K]{changed: changed, keys: map[K]*waiting[K]{}}
}

// Touch implements workqueue.Queue. The key waits already, and may have changed again.
func (n *newest[K]) Touch(key K) {
	if w := n.keys[key]; w != nil {
		w.changed = n.changed(key)
		heap.Fix(&n.byTime, w.at)
	}
}

// Push implements workqueue.Queue.
func (n *newest[K]) Push(key K) {
	w := &waiting[K]{key: key, changed: n.changed(key)}
	n.keys[key] = w
	heap.Push(&n.byTime, w)
	n.arrived = append(n.arrived, w)
	const few = 64
	if len(n.arrived) > 2*len(n.keys)+few {
		n.arrived = slices.DeleteFunc(n.arrived, func(w *waiting[K]) bool { return w.at < 0 })
	}
}

// Len implements workqueue.Queue.
func (n *newest[K]) Len() int { return len(n.keys) }

// Pop implements workqueue.Queue. It is called only if a key waits.
func (n *newest[K]) Pop() K {
	w := n.byTime[0]
	if n.oldest {
		i := slices.IndexFunc(n.arrived, func(w *waiting[K]) bool { return w.at >= 0 })
		w = n.arrived[i]
		n.arrived = n.arrived[i+1:]
	}
	n.oldest = !n.oldest
	heap.Remove(&n.byTime, w.at)
	delete(n.keys, w.key)
	return w.key
}

// changes is a heap of keys, the one that changed last first.
type changes[K comparable] []*waiting[K]

func (c changes[K]) Len() int           { return len(c) }
func (c changes[K]) Less(i, j int) bool { return c[i].changed > c[j].changed }

func (c changes[K]) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].at, c[j].at = i, j
}

// Push implements heap.Interface.
func (c *changes[K]) Push(x any) {
	w, _ := x.(*waiting[K])
	w.at = len(*c)
	*c = append(*c, w)
}

// Pop implements heap.Interface.
func (c *changes[K]) Pop() any {
	last := (*c)[len(*c)-1]
	(*c)[len(*c)-1] = nil
	*c = (*c)[:len(*c)-1]
	last.at = -1
	return last
}
