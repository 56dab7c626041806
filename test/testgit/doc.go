// Package testgit gives tests real git repositories, and servers for them on loopback.
package testgit
