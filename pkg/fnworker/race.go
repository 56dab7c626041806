//go:build race

package fnworker

// detector says that the race detector is in this binary. It maps far more than it holds.
const detector = true
