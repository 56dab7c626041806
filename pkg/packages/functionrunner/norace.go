//go:build !race

package functionrunner

// raceDetector reports that this binary is built without the race detector.
const raceDetector = false
