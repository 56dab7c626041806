// Package testgit provides real git repositories for tests, and servers for them on loopback.
package testgit
