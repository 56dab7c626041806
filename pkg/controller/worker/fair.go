package worker

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
)

// NewFair is New for keys that belong to groups, for example to an owner and to a place. The groups
// of each kind take turns, and so do the kinds. So a key of a group with few keys waits for no more
// than about two keys of each other group, however many keys these have; it is enough that its
// group of one kind has few. Within a group, the first key comes first.
func NewFair[K comparable](config Config, sync func(context.Context, K) (Result, error), groupOf ...func(K) string) *Queue[K] {
	return newQueue(config, sync, newFair(groupOf...))
}

// fair is the order of the keys of a fair Queue. Each key is in a group of each kind. Taken from
// one, its entries in the others are outdated, and are dropped when they are met or become many.
type fair[K comparable] struct {
	kinds []kind[K]
	// turn is the kind whose turn it is.
	turn int
	// pushed has the keys that wait, and the number of the push that each is from.
	pushed map[K]uint64
	pushes uint64
}

func newFair[K comparable](groupOf ...func(K) string) *fair[K] {
	f := &fair[K]{pushed: map[K]uint64{}}
	for _, of := range groupOf {
		f.kinds = append(f.kinds, kind[K]{groupOf: of, groups: map[string][]entry[K]{}})
	}
	return f
}

// kind holds the groups of one kind.
type kind[K comparable] struct {
	groupOf func(K) string
	groups  map[string][]entry[K]
	// order has the groups with entries, that whose turn it is first.
	order   []string
	entries int
}

type entry[K comparable] struct {
	key  K
	push uint64
}

var _ workqueue.Queue[int] = &fair[int]{}

// Touch implements workqueue.Queue.
func (f *fair[K]) Touch(K) {}

// Len implements workqueue.Queue.
func (f *fair[K]) Len() int { return len(f.pushed) }

// Push implements workqueue.Queue.
func (f *fair[K]) Push(key K) {
	f.pushes++
	f.pushed[key] = f.pushes
	for i := range f.kinds {
		k := &f.kinds[i]
		group := k.groupOf(key)
		if _, waits := k.groups[group]; !waits {
			k.order = append(k.order, group)
		}
		k.groups[group] = append(k.groups[group], entry[K]{key, f.pushes})
		k.entries++
		const few = 64
		if k.entries > 2*len(f.pushed)+few {
			k.sweep(f.waits)
		}
	}
}

// waits reports whether the entry is not outdated.
func (f *fair[K]) waits(e entry[K]) bool { return f.pushed[e.key] == e.push }

// Pop implements workqueue.Queue. It is called only if a key waits.
func (f *fair[K]) Pop() K {
	k := &f.kinds[f.turn]
	f.turn = (f.turn + 1) % len(f.kinds)
	for {
		group := k.order[0]
		k.order = k.order[1:]
		entries := k.groups[group]
		first := slices.IndexFunc(entries, f.waits)
		if first < 0 {
			k.entries -= len(entries)
			delete(k.groups, group)
			continue
		}
		key := entries[first].key
		k.entries -= first + 1
		if rest := entries[first+1:]; len(rest) > 0 {
			k.groups[group] = rest
			k.order = append(k.order, group)
		} else {
			delete(k.groups, group)
		}
		delete(f.pushed, key)
		if len(f.pushed) == 0 {
			for i := range f.kinds {
				f.kinds[i].sweep(f.waits)
			}
		}
		return key
	}
}

// sweep drops what is outdated.
func (k *kind[K]) sweep(waits func(entry[K]) bool) {
	k.entries = 0
	order := k.order
	k.order = make([]string, 0, len(order))
	for _, group := range order {
		left := slices.DeleteFunc(slices.Clone(k.groups[group]), func(e entry[K]) bool { return !waits(e) })
		if len(left) == 0 {
			delete(k.groups, group)
			continue
		}
		k.groups[group] = left
		k.order = append(k.order, group)
		k.entries += len(left)
	}
}
