// Package registry has what all clients of OCI registries need: a transport that protects
// credentials, the credentials of a Secret for a registry, and the kinds of errors.
package registry
