//go:build race

package functionrunner

// raceDetector reports that this binary is built with the race detector, which maps much more
// memory than it uses.
const raceDetector = true
