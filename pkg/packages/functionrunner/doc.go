// Package functionrunner runs package functions in processes of our own binary that can be killed.
// They have little memory, a deadline, no environment and an empty directory. A process renders one
// package after another over its standard streams. If it does not answer in time or uses too much
// memory, it is killed and replaced.
//
// A binary that uses a Pool calls Main first in its main function, and returns if Main returns
// true.
package functionrunner
