// Package hostedspace has what the commands for spaces of a hosting cluster share: the record of
// what a space is.
package hostedspace
