package packing

// rooms finds the first work with room for a size in logarithmic time: a binary tree in an array,
// each node holding the largest room below it. Places beyond the works that exist are empty works.
type rooms struct {
	limits Limits
	leaves int
	tree   []int
}

func newRooms(n int, limits Limits) *rooms {
	leaves := 1
	for leaves < n {
		leaves *= 2
	}
	r := &rooms{limits: limits, leaves: leaves, tree: make([]int, 2*leaves)}
	for i := range r.tree {
		r.tree[i] = limits.room(load{})
	}
	return r
}

// set sets the load of place i.
func (r *rooms) set(i int, l load) {
	node := r.leaves + i
	r.tree[node] = r.limits.room(l)
	for node /= 2; node >= 1; node /= 2 {
		r.tree[node] = max(r.tree[2*node], r.tree[2*node+1])
	}
}

// first returns the first place with room for size. There is one: no size is beyond the limit, and
// there are as many places as items.
func (r *rooms) first(size int) int {
	node := 1
	for node < r.leaves {
		node *= 2
		if r.tree[node] < size {
			node++
		}
	}
	return node - r.leaves
}
