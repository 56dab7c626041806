// Package fanout tests package variants as a whole, against real API servers and a real package-server: sets, Repositories, what is
// injected, upstreams, people and crashes in any order end where an oracle that knows none of the code says.
package fanout
