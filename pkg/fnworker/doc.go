// Package fnworker runs package functions in processes of our own binary that can be killed: with little memory, a deadline, no
// environment and an empty directory. A process takes one call after another over its standard streams; one that fails to answer, or
// grows, is killed, and another takes its place.
//
// A binary that uses a Pool calls Main first thing in its main, and ends if that says that it was a worker.
package fnworker
