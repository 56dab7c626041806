//go:build !race

package fnworker

// detector says that the race detector is not in this binary.
const detector = false
