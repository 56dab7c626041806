// Package fanout tests package variants as a whole, against real API servers and a real
// package-server: after changes of sets, Repositories, injected objects and upstreams, edits of
// users, and crashes, in any order, the state is the one that an independent oracle expects.
package fanout
