// Package cli has the commands with which the administrator of a cluster lets it join an ITS.
package cli
