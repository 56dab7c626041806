package resolve

import (
	"math/bits"
	"slices"
)

// levels is a set of levels of the search. A level is the number of packages that were decided
// before.
type levels []uint64

func (l *levels) add(level int) {
	for len(*l) <= level/64 {
		*l = append(*l, 0)
	}
	(*l)[level/64] |= 1 << (level % 64)
}

func (l *levels) remove(level int) {
	if level/64 < len(*l) {
		(*l)[level/64] &^= 1 << (level % 64)
	}
}

func (l *levels) addAll(other levels) {
	for i, word := range other {
		if i == len(*l) {
			*l = append(*l, 0)
		}
		(*l)[i] |= word
	}
}

func (l levels) has(level int) bool {
	return level/64 < len(l) && l[level/64]&(1<<(level%64)) != 0
}

// max returns the highest level, or -1.
func (l levels) max() int {
	for i, word := range slices.Backward(l) {
		if word != 0 {
			return i*64 + bits.Len64(word) - 1
		}
	}
	return -1
}
