// Package packagewatch watches in a WDS what the controllers of packages share: one informer for each kind, and the indexes that lead from
// what changed to what it concerns, and to nothing else. A question costs as much as its answer.
//
// What it returns is shared: copy before you change it.
package packagewatch
